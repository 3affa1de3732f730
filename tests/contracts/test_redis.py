"""The view port's contract on a real Redis."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from projector.redis import RedisView
from projector.view import CheckpointView

from .checkpoint_view import CheckpointViewContract, ViewStorage


class RedisStorage(ViewStorage):
    def __init__(self, url: str) -> None:
        self._url = url
        self.prefix = f"test-{uuid.uuid4().hex}"

    def new_view(self) -> CheckpointView:
        return RedisView.from_url(self._url, prefix=self.prefix)


class TestRedisView(CheckpointViewContract):
    @pytest.fixture
    async def storage(self, redis_url: str) -> AsyncIterator[ViewStorage]:
        storage = RedisStorage(redis_url)
        yield storage
        client: Any = cast("Any", Redis).from_url(redis_url)
        async for key in client.scan_iter(match=f"{{{storage.prefix}:*", count=1_000):
            await client.unlink(key)
        await client.aclose()
