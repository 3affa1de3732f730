"""What the view in Redis promises beyond the port when its server fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from projector.errors import UnsafeViewError, ViewCorruptedError, ViewUnavailableError
from projector.layout import ROWS
from projector.redis import RedisView
from projector.redis.keys import KeySpace
from projector.view import Changes, Selection, ViewBehindError, Wanted
from tests.contracts.view_suite import (
    Projection,
    catch_up,
    hash_of,
    saved,
    start_of,
)
from tests.redis_views import MANY, OwnRedisSuite, RedisSuite, T, latest
from tests.waiting import wait_until


class TestServer(OwnRedisSuite):
    """What happens when the server is unsafe, unreachable, empty, full or slow."""

    async def test_a_server_that_evicts_is_refused(
        self, own_projection: Projection, own_client: Any
    ) -> None:
        """A server that drops keys by itself is no place for a view."""
        await own_projection.view.setup()
        await own_client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(UnsafeViewError) as caught:
            await own_projection.view.setup()
        assert (caught.value.setting, caught.value.value) == ("maxmemory-policy", "allkeys-lru")

    async def test_flushed_scripts_are_stored_again(
        self, own_projection: Projection, own_client: Any
    ) -> None:
        """Nobody notices that the server has lost the scripts."""
        view = own_projection.view
        for number in range(3):
            await own_client.script_flush()
            await own_projection.feed(MANY[number])
            await own_client.script_flush()
            assert await latest(view) == b"%d" % number

    async def test_an_emptied_server_has_no_view(
        self, own_projection: Projection, own_client: Any
    ) -> None:
        """After FLUSHALL no read says "not found", nothing is applied; the log brings all back."""
        view = own_projection.view
        await own_projection.feed(*MANY)
        before, progress = await view.dump(0), await view.progress(0)
        assert progress is not None
        await own_client.flushall()
        with pytest.raises(ViewBehindError) as caught:
            await latest(view)
        assert caught.value.applied == 0
        assert await view.progress(0) is None
        assert (await view.load(0, Wanted([T], []))).progress is None
        reached = replace(progress, next_offset=progress.next_offset + 1)
        assert not await view.apply(0, expected=progress, changes=Changes(), reached=reached)
        assert await own_client.dbsize() == 0
        assert await view.begin(0, start_of(b"again-01"))
        await catch_up(view, 0, own_projection.entries)
        assert await view.dump(0) == before

    async def test_a_full_server_refuses_and_loses_nothing(
        self, own_projection: Projection, own_client: Any
    ) -> None:
        """Out of memory is an error, the view stays where it was, and later goes on."""
        view = own_projection.view
        await own_projection.feed(*MANY)
        before = await view.progress(0)
        await own_client.config_set("maxmemory", 1)
        with pytest.raises(ViewUnavailableError, match=r"OOM|memory"):
            await own_projection.feed(saved("t", "99", {"a": b"last"}))
        assert await view.progress(0) == before
        assert await latest(view) == b"29"
        await own_client.config_set("maxmemory", 0)
        await catch_up(view, 0, own_projection.entries)
        assert await latest(view) == b"last"

    async def test_a_server_that_is_not_there_is_unavailable(self) -> None:
        """No connection is an error that may be retried, and that tells no secret."""
        view = RedisView.from_url("redis://user:hush@127.0.0.1:1/0", prefix="p")
        with pytest.raises(ViewUnavailableError) as caught:
            await view.progress(0)
        assert caught.value.retriable
        for told in (str(caught.value), view.name, repr(view)):
            assert "127.0.0.1:1" in told
            assert "hush" not in told
        with pytest.raises(ViewUnavailableError):
            await view.setup()
        with pytest.raises(ViewUnavailableError):
            await latest(view)
        await view.close()

    async def test_a_server_that_hangs_is_unavailable(
        self, own_redis_url: str, own_projection: Projection, own_client: Any
    ) -> None:
        """A call ends at its deadline, and what it would have got goes to nobody else."""
        await own_projection.feed(*MANY, saved("u", "1", {"a": b"other"}))
        view = RedisView.from_url(own_redis_url, prefix="own", call_timeout=0.2, max_connections=1)
        assert await latest(view) == b"29"
        await own_client.client_pause(60_000, all=False)
        with pytest.raises(ViewUnavailableError):
            await latest(view, hash_of("u"))
        await own_client.client_unpause()
        assert await latest(view) == b"29"
        await view.close()

    async def test_a_cancelled_call_leaves_no_answer_behind(
        self, own_projection: Projection, own_client: Any
    ) -> None:
        """Whoever uses the connection next gets the answer to its own question."""
        view = own_projection.view
        await own_projection.feed(*MANY, saved("u", "1", {"a": b"other"}))
        for _ in range(20):
            # This mode holds back scripts, and lets through what ends it.
            await own_client.client_pause(60_000, all=False)
            task = asyncio.create_task(latest(view, hash_of("u")))

            async def is_asked() -> bool:
                return bool((await own_client.info("clients"))["blocked_clients"])

            asked: bool = await wait_until(is_asked, description="the call is under way")
            assert asked
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await own_client.client_unpause()
            assert await latest(view) == b"29"


class TestAnswers(RedisSuite):
    """An answer belongs to its question, and what is stored fits together."""

    async def test_cancelled_readers_do_not_disturb_others(self, projection: Projection) -> None:
        """Among many readers of a pool, cancelling some changes no other one's answer."""
        threads = [f"t{n}" for n in range(20)]
        await projection.feed(*(saved(t, "1", {"a": t.encode()}) for t in threads))

        async def ask(thread: str) -> None:
            for _ in range(20):
                assert await latest(projection.view, hash_of(thread)) == thread.encode()

        for number in range(10):
            tasks = [asyncio.create_task(ask(thread)) for thread in threads]
            for _ in range(number):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            errors = [error for error in ended if error is not None]
            assert all(isinstance(error, asyncio.CancelledError) for error in errors), errors
            assert len(errors) == len(threads) // 2

    async def test_a_row_that_is_missing_is_told(
        self, projection: Projection, client: Any, prefix: str
    ) -> None:
        """An index that names a checkpoint without a row is corruption, not "not found"."""
        view = projection.view
        await projection.feed(*MANY)
        rows = KeySpace(prefix).generation(0, start_of().generation) + ROWS + T + bytes(16)
        assert await client.exists(rows)
        await client.delete(rows)
        with pytest.raises(ViewCorruptedError):
            await latest(view)
        with pytest.raises(ViewCorruptedError):
            await view.threads(0, 0, cursor=None, limit=1)
        for selection in (Selection(), Selection(T), Selection(T, "")):
            with pytest.raises(ViewCorruptedError):
                await view.checkpoints(0, 0, selection, cursor=None, limit=1, with_values=True)
