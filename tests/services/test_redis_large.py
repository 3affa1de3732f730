"""Answers that Redis gives in several calls are of one state, or are asked for anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from eventstore.codec import digest_of
from eventstore.events import ChannelState, ChunkSaved, Extended, NewEvent
from projector.errors import ViewUnavailableError
from projector.redis import RedisView, scripts
from projector.redis.reader import ATTEMPTS
from projector.values import BLOCK_BYTES
from projector.view import Selection
from tests.contracts.view_history import walk
from tests.contracts.view_large import large
from tests.contracts.view_suite import (
    Projection,
    Tombstone,
    data_of,
    deleted,
    listed,
    saved,
    writes_of,
    wrote,
)
from tests.redis_views import RedisSuite, T

MEGABYTE = bytes(1_000_000)
Between = Callable[[], Awaitable[object]]


async def checkpoint(view: RedisView) -> list[tuple[str, int, str, bytes]]:
    answer = await view.checkpoint(0, 0, thread=T, namespace="", checkpoint_id="1")
    found = answer.value[1]
    return [] if found is None else writes_of(found)


async def listing(view: RedisView) -> list[tuple[str, int, str, bytes]]:
    found, _ = await listed(view, Selection(T), with_values=True)
    return writes_of(found[-1]) if found else []


async def history(view: RedisView) -> list[tuple[str, int, str, bytes]]:
    found = (await walk(view, ["a"], "2"))["a"]
    return sorted(
        (write.task_id, write.index, write.channel, write.payload.data)
        for _, writes in found.writes
        for write in writes
    )


QUESTIONS = pytest.mark.parametrize("ask", [checkpoint, listing, history])
Question = Callable[[RedisView], Awaitable[list[tuple[str, int, str, bytes]]]]


def before_each_fetch(
    monkeypatch: pytest.MonkeyPatch, view: RedisView, between: Between
) -> list[scripts.Script]:
    """Let something happen in front of each call that fetches what was left out; note all calls."""
    call = view.server.call
    calls: list[scripts.Script] = []

    async def watched(script: scripts.Script, *args: Any) -> Any:
        calls.append(script)
        if script is scripts.CELLS:
            await between()
        return await call(script, *args)

    monkeypatch.setattr(view.server, "call", watched)
    return calls


class TestSeveralCalls(RedisSuite):
    """What comes later is of the state that was asked for first."""

    @pytest.fixture
    async def projection(self, view: RedisView) -> Projection:
        """A checkpoint with two tasks whose writes are too large for one answer, and a child."""
        projection = Projection(view)
        await projection.begin()
        await projection.feed(
            saved("t", "1"),
            wrote("t", "1", "x", (0, "a", MEGABYTE)),
            wrote("t", "1", "y", (0, "a", MEGABYTE)),
            saved("t", "2", parent="1"),
        )
        return projection

    @QUESTIONS
    async def test_later_write_never_shows_without_an_earlier_one(
        self,
        monkeypatch: pytest.MonkeyPatch,
        projection: Projection,
        view: RedisView,
        ask: Question,
    ) -> None:
        """A task that goes on meanwhile shows all that was written before, or nothing of it."""
        count = 0

        async def write() -> None:
            nonlocal count
            count += 1
            first, second = ("x", "y") if count % 2 else ("y", "x")
            await projection.feed(wrote("t", "1", first, (count, "a", b"first")))
            await projection.feed(wrote("t", "1", second, (count, "a", b"second")))

        before_each_fetch(monkeypatch, view, write)
        found = await ask(view)
        later = {(index, data) for _, index, _, data in found if index}
        assert len(later) % 2 == 0
        assert later == {(n, data) for n, _ in later for data in (b"first", b"second")}

    @QUESTIONS
    async def test_busy_thread_is_answered(
        self,
        monkeypatch: pytest.MonkeyPatch,
        projection: Projection,
        view: RedisView,
        ask: Question,
    ) -> None:
        """Where each call is followed by a write, the answer comes in one call in the end."""
        count = 0

        async def write() -> None:
            nonlocal count
            count += 1
            await projection.feed(wrote("t", "1", "y", (count, "b", b"%d" % count)))

        calls = before_each_fetch(monkeypatch, view, write)
        found = await ask(view)
        assert len([each for each in found if each[1] == 0]) == 2
        assert calls[-1] is not scripts.CELLS

    async def test_other_threads_and_chunks_do_not_disturb(
        self, monkeypatch: pytest.MonkeyPatch, projection: Projection, view: RedisView
    ) -> None:
        """What changes nothing that is read does not begin it again."""

        async def write() -> None:
            await projection.feed(saved("u", "1"), NewEvent("t", ChunkSaved(0, b"x"), part=1))

        calls = before_each_fetch(monkeypatch, view, write)
        assert len(await checkpoint(view)) == 2
        assert calls.count(scripts.CHECKPOINT) == 1

    @QUESTIONS
    async def test_erased_chunk_hides_no_write(
        self,
        monkeypatch: pytest.MonkeyPatch,
        projection: Projection,
        view: RedisView,
        ask: Question,
    ) -> None:
        """A note that goes away with an orphan does not make up for one that comes."""
        orphans = [NewEvent("t", ChunkSaved(0, b"x"), part=1) for _ in range(2)]
        await projection.feed(*orphans)
        before_each_fetch(monkeypatch, view, self.once(projection, orphans, 0))
        found = {(task, index) for task, index, _, _ in await ask(view)}
        assert found == {("x", 0), ("x", 1), ("y", 0), ("y", 1)}

    @QUESTIONS
    async def test_note_that_goes_hides_none_that_comes(
        self,
        monkeypatch: pytest.MonkeyPatch,
        projection: Projection,
        view: RedisView,
        ask: Question,
    ) -> None:
        """In a thread's second life an answer begins again whatever happens."""
        cut, old = projection.next_offset, [saved("t", "0"), saved("t", "0")]
        await projection.feed(deleted("t"), *old)
        await projection.feed(
            saved("t", "1", incarnation=cut),
            wrote("t", "1", "x", (0, "a", MEGABYTE), incarnation=cut),
            wrote("t", "1", "y", (0, "a", MEGABYTE), incarnation=cut),
            saved("t", "2", parent="1", incarnation=cut),
        )
        before_each_fetch(monkeypatch, view, self.once(projection, old, cut))
        found = {(task, index) for task, index, _, _ in await ask(view)}
        assert found == {("x", 0), ("x", 1), ("y", 0), ("y", 1)}

    @staticmethod
    def once(projection: Projection, gone: list[NewEvent], incarnation: int) -> Between:
        """Let two records go, the first time, and both tasks write once more."""
        steps = [gone]

        async def write() -> None:
            for each in steps:
                await projection.feed(*map(Tombstone, each))
                for task in "xy":
                    new = wrote("t", "1", task, (1, "a", b"new"), incarnation=incarnation)
                    await projection.feed(new)
            steps.clear()

        return write

    @QUESTIONS
    async def test_thread_that_is_deleted_meanwhile_is_gone(
        self,
        monkeypatch: pytest.MonkeyPatch,
        projection: Projection,
        view: RedisView,
        ask: Question,
    ) -> None:
        """Nothing of a life is answered that ended before all of it was there."""

        async def delete() -> None:
            await projection.feed(deleted("t"))

        before_each_fetch(monkeypatch, view, delete)
        assert await ask(view) == []

    async def test_value_that_grows_meanwhile_is_whole(
        self, monkeypatch: pytest.MonkeyPatch, projection: Projection, view: RedisView
    ) -> None:
        """A block that becomes full between two calls is found where it is then."""
        base = projection.next_offset
        size = 2 * len(MEGABYTE)
        await projection.feed(saved("t", "1", {"a": MEGABYTE * 2}))

        def grown(checkpoint_id: str, tail: bytes, version: int) -> NewEvent:
            digest = digest_of(MEGABYTE * 2 + tail)
            value = Extended(None, base, "bytes", b"", 0, size, tail, digest)
            return saved("t", checkpoint_id, {"a": ChannelState(version, value)})

        await projection.feed(grown("2", b"tail", 2))
        steps = [grown("3", bytes(2 * BLOCK_BYTES), 3)]

        async def grow() -> None:
            if steps:
                await projection.feed(steps.pop())

        before_each_fetch(monkeypatch, view, grow)
        answer = await view.checkpoint(0, 0, thread=T, namespace="", checkpoint_id="2")
        found = answer.value[1]
        assert found is not None
        assert data_of(found.values["a"]) == MEGABYTE * 2 + b"tail"

    async def test_thread_that_never_stays_is_told(
        self, monkeypatch: pytest.MonkeyPatch, projection: Projection, view: RedisView
    ) -> None:
        """A large state that is deleted and put again at each try is an error in the end."""

        async def replace() -> None:
            cut = projection.next_offset
            await projection.feed(deleted("t"))
            await projection.feed(*large(projection, "1", incarnation=cut))

        await replace()
        calls = before_each_fetch(monkeypatch, view, replace)
        with pytest.raises(ViewUnavailableError, match=f"{ATTEMPTS} times"):
            await view.checkpoint(0, 0, thread=T, namespace="", checkpoint_id="1")
        assert calls.count(scripts.CHECKPOINT) == ATTEMPTS
