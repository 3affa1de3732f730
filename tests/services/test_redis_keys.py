"""Which keys the view in Redis has, how large its calls are, and whom they belong to."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from projector.errors import ViewUnavailableError
from projector.layout import ROWS, VALUES
from projector.redis import RedisView
from projector.redis.keys import PREFIX_LIMIT, KeySpace, slot_of, tag_of
from projector.view import Changes, ViewBehindError
from tests.contracts.view_suite import (
    Projection,
    Tombstone,
    deleted,
    removed,
    saved,
    start_of,
    sweep_all,
    wrote,
)
from tests.redis_views import MANY, OwnRedisSuite, RedisSuite, T, keys_of, latest, raw
from tests.waiting import wait_until


class RecordingClient(Redis):
    """A client that remembers how large its calls were."""

    sizes: list[int]

    @classmethod
    def at(cls, url: str) -> RecordingClient:
        """Return a client that has called nothing yet."""
        client: RecordingClient = cast("Any", cls).from_url(url)
        client.sizes = []
        return client

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.sizes.append(sum(len(arg) for arg in args if isinstance(arg, bytes)))
        return await cast("Any", super()).execute_command(*args, **options)


class TestKeys(RedisSuite):
    """What lies in the server, under which names, and for how long."""

    async def test_all_keys_of_a_partition_share_a_slot(
        self, projection: Projection, client: Any, prefix: str
    ) -> None:
        """One hash tag per partition, in every key that is ever written."""
        await projection.feed(*MANY, wrote("t", "01", "x", (0, "a", b"")), removed("t", "01"))
        await projection.feed(saved("t", "02"), deleted("t"), saved("t", "03", incarnation=33))
        await projection.view.discard(0)
        await projection.begin(b"again-01")
        await projection.feed(*MANY)
        found = await keys_of(client, prefix)
        assert len(found) > 20
        assert {key[: key.index(b"}") + 1] for key in found} == {b"{%s}" % tag_of(prefix, 0)}

    def test_partitions_spread_over_the_slots(self) -> None:
        """However many partitions and servers, no server holds many more than another."""
        for count in (4, 8, 12, 64, 100):
            for servers in (2, 3, 4):
                held = [0] * servers
                for partition in range(count):
                    held[slot_of(tag_of("topic", partition)) * servers // 16_384] += 1
                assert max(held) - min(held) <= 3, (count, servers, held)

    def test_a_tag_is_the_same_for_ever(self) -> None:
        """Names that are stored do not change, nor does the rule behind them."""
        assert slot_of(b"123456789") == 0x31C3
        tags = [tag_of("checkpoints", partition) for partition in (0, 1, 11)]
        assert tags == [b"checkpoints:0.341", b"checkpoints:1.327", b"checkpoints:11.40"]

    async def test_no_key_expires(self, projection: Projection, client: Any, prefix: str) -> None:
        """Nothing of a view goes away by the clock."""
        await projection.feed(*MANY, deleted("t"))
        await projection.view.sweep(0, limit=3)
        await projection.view.discard(0)
        await projection.begin(b"again-01")
        found = await keys_of(client, prefix)
        assert found
        assert {await client.ttl(key) for key in found} == {-1}

    async def test_prefixes_are_apart(self, redis_url: str, projection: Projection) -> None:
        """Deployments with different prefixes share a server and see nothing of each other."""
        await projection.feed(*MANY)
        other = RedisView.from_url(redis_url, prefix=f"test-{uuid.uuid4().hex}")
        assert await other.progress(0) is None
        assert await other.begin(0, start_of())
        assert await other.dump(0) == {}
        await other.discard(0)
        await sweep_all(other)
        assert await latest(projection.view) == b"29"
        await other.close()

    async def test_a_large_step_is_split(
        self, redis_url: str, projection: Projection, prefix: str
    ) -> None:
        """No call is much larger than half a megabyte, but for a value that is."""
        client = RecordingClient.at(redis_url)
        recorded = projection.copy_to(RedisView(client, prefix=prefix))
        large = [b"%d" % n * 60_000 for n in range(8)]
        items = [saved("t", f"{n}", {f"c{c}": v for c, v in enumerate(large)}) for n in range(8)]
        await recorded.feed(*items)
        sizes = sorted(client.sizes)
        assert sum(sizes) > 3_000_000
        assert sizes[-1] < 800_000
        await recorded.feed(saved("t", "8", {"a": b"x" * 3_000_000}))
        assert await latest(projection.view) == b"x" * 3_000_000
        await client.aclose()

    async def test_values_of_a_refused_step_stay_unseen(
        self, redis_url: str, projection: Projection, client: Any, prefix: str
    ) -> None:
        """Values that were written for a step that then lost its race are in nobody's way."""
        view, zombie = projection.view, RedisView.from_url(redis_url, prefix=prefix)
        await projection.feed(*MANY)
        progress = await view.progress(0)
        assert progress is not None
        scope = T + bytes(16)
        values = {(VALUES + scope, b"%08d" % n): b"x" * 300_000 for n in range(6)}
        changes = Changes(cells={**values, (ROWS + scope, b"row"): b"row"})
        for other in (replace(progress, generation=b"gone-001"), replace(progress, next_offset=1)):
            before = await keys_of(client, prefix)
            reached = replace(other, next_offset=99)
            assert not await zombie.apply(0, expected=other, changes=changes, reached=reached)
            assert await view.progress(0) == progress
            assert await keys_of(client, prefix) == before
        assert not [key for key, fields in (await view.dump(0)).items() if b"row" in fields]
        await zombie.close()

    async def test_sweeping_leaves_no_key_behind(
        self, projection: Projection, client: Any, prefix: str
    ) -> None:
        """After a sweep the server holds what is reachable, and after a discard nothing."""
        view = projection.view
        spaces = KeySpace(prefix)
        await projection.feed(*MANY, wrote("t", "01", "x", (0, "a", b"")), removed("t", "01"))
        await projection.feed(deleted("t"), saved("u", "1"), deleted("u"))
        await projection.feed(saved("t", "1", {"a": b"1"}, incarnation=32), Tombstone(MANY[0]))
        await sweep_all(view, limit=7)
        base = spaces.generation(0, start_of().generation)
        reachable = {base + key for key in await view.dump(0)}
        assert await keys_of(client, prefix) == {spaces.meta(0), *reachable}
        await view.discard(0)
        await sweep_all(view, limit=7)
        assert await keys_of(client, prefix) == set()

    async def test_readers_follow_a_new_generation(
        self, redis_url: str, projection: Projection, prefix: str
    ) -> None:
        """A reader that knew the old generation answers from the new one, or says it is behind."""
        reader = RedisView.from_url(redis_url, prefix=prefix)
        await projection.feed(saved("t", "1", {"a": b"old"}))
        assert await latest(reader) == b"old"
        await projection.view.discard(0)
        await projection.begin(b"again-01")
        with pytest.raises(ViewBehindError) as caught:
            await reader.thread(0, 1, T)
        assert caught.value.applied == 0
        await projection.feed(saved("t", "1", {"a": b"new"}))
        assert await latest(reader) == b"new"
        await reader.close()


class TestOwnership(RedisSuite, OwnRedisSuite):
    """Who opens, closes; what is refused from the start."""

    async def test_a_client_that_is_handed_in_stays_open(self, client: Any, prefix: str) -> None:
        """Only what was opened here is closed here."""
        view = RedisView(client, prefix=prefix)
        await view.setup()
        await view.close()
        assert await client.ping()
        with pytest.raises(ViewUnavailableError, match="closed"):
            await view.progress(0)

    async def test_closing_ends_its_connections(self, own_redis_url: str, own_client: Any) -> None:
        """A view that was opened by its URL leaves no connection."""
        view = RedisView.from_url(own_redis_url, prefix="p")
        await asyncio.gather(*(view.progress(n) for n in range(5)))
        await view.close()

        async def is_alone() -> bool:
            return len(await own_client.client_list()) == 1

        alone: bool = await wait_until(is_alone, description="the connections are closed")
        assert alone

    async def test_a_client_that_decodes_is_refused(self, redis_url: str) -> None:
        """Answers are bytes."""
        client = raw(redis_url, decode_responses=True)
        with pytest.raises(ValueError, match="decode_responses"):
            RedisView(client, prefix="p")
        await client.aclose()

    @pytest.mark.parametrize("prefix", ["", "a b", "a}", "{a", "a:b", "é", "a*", "a\n", "x" * 250])
    def test_a_bad_prefix_is_refused(self, prefix: str) -> None:
        """A prefix is short, and of characters that mean nothing to the server."""
        assert PREFIX_LIMIT == 249
        with pytest.raises(ValueError, match="prefix"):
            RedisView.from_url("redis://127.0.0.1:1/0", prefix=prefix)

    @pytest.mark.parametrize(
        "url", ["redis://:hush@:hu/sh@x:1", "http://:hush@x", "redis://:h[ush@x"]
    )
    def test_a_bad_url_tells_no_secret(self, url: str) -> None:
        """A password with special characters may make a URL unreadable, and is not shown then."""
        with pytest.raises(ValueError, match="not a Redis URL") as caught:
            RedisView.from_url(url, prefix="p")
        assert "hu" not in str(caught.value)
        assert caught.value.__suppress_context__
