"""Views in a real Redis, as tests open them; what they look at beside the port."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from projector.redis import RedisView
from projector.view import CheckpointView
from tests.contracts.view_suite import Projection, data_of, hash_of, saved

T = hash_of("t")
MANY = [saved("t", f"{n:02}", {"a": b"%d" % n}, metadata={"run_id": "r"}) for n in range(30)]


def raw(url: str, **options: Any) -> Any:
    """Return a plain client; the library's annotations are incomplete, so it has no type."""
    return cast("Any", Redis).from_url(url, **options)


async def keys_of(client: Any, prefix: str) -> set[bytes]:
    """Return all keys of a prefix."""
    return {key async for key in client.scan_iter(match=f"{{{prefix}:*", count=1_000)}


async def latest(view: CheckpointView, thread: bytes = T) -> bytes | None:
    """Return channel `a` of a thread's latest checkpoint."""
    answer = await view.checkpoint(0, 0, thread=thread, namespace="", checkpoint_id=None)
    found = answer.value[1]
    return None if found is None else data_of(found.values.get("a"))


class RedisSuite:
    """Fixtures: a view under a prefix of its own, on a server that other tests use as well."""

    @pytest.fixture
    async def prefix(self, redis_url: str) -> AsyncIterator[str]:
        """A prefix of the shared server that nothing has used before, removed afterwards."""
        name = f"test-{uuid.uuid4().hex}"
        yield name
        client = raw(redis_url)
        for key in await keys_of(client, name):
            await client.unlink(key)
        await client.aclose()

    @pytest.fixture
    async def view(self, redis_url: str, prefix: str) -> AsyncIterator[RedisView]:
        view = RedisView.from_url(redis_url, prefix=prefix)
        yield view
        await view.close()

    @pytest.fixture
    async def projection(self, view: RedisView) -> Projection:
        projection = Projection(view)
        await projection.begin()
        return projection

    @pytest.fixture
    async def client(self, redis_url: str) -> AsyncIterator[Any]:
        client = raw(redis_url)
        yield client
        await client.aclose()


class OwnRedisSuite:
    """Fixtures: a view on a server for one test alone."""

    @pytest.fixture
    async def own_client(self, own_redis_url: str) -> AsyncIterator[Any]:
        """A client of a server for this test alone."""
        client = raw(own_redis_url)
        yield client
        await client.aclose()

    @pytest.fixture
    async def own_projection(self, own_redis_url: str) -> AsyncIterator[Projection]:
        """A view whose calls share one connection."""
        view = RedisView.from_url(own_redis_url, prefix="own", call_timeout=2.0, max_connections=1)
        projection = Projection(view)
        await projection.begin()
        yield projection
        await view.close()
