"""The view port's contract on a real Redis."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from eventstore.events import NewEvent
from projector.redis import RedisView, scripts
from projector.view import Answer, CheckpointView, StoredHistory

from .checkpoint_view import CheckpointViewContract, ViewStorage
from .view_history import T, steps_of
from .view_suite import Projection, Tombstone, data_of, deleted, saved, wrote

LENGTH = 1_000
"""Of a chain whose walk takes several calls."""


class RedisStorage(ViewStorage):
    def __init__(self, url: str) -> None:
        self._url = url
        self.prefix = f"test-{uuid.uuid4().hex}"

    def new_view(self) -> CheckpointView:
        return RedisView.from_url(self._url, prefix=self.prefix)


def chain(*, incarnation: int = 0) -> list[NewEvent]:
    """Return checkpoints that are each the next one's parent."""
    root = saved("t", "0000", {"a": b"seed"}, incarnation=incarnation)
    ids = [f"{n:04}" for n in range(LENGTH)]
    return [root] + [
        saved("t", own, parent=parent, incarnation=incarnation) for parent, own in pairwise(ids)
    ]


def write_on(number: int, *, task: str = "x", incarnation: int = 0) -> NewEvent:
    """Return a write on one checkpoint of the chain."""
    return wrote("t", f"{number:04}", task, (0, "a", b"w"), incarnation=incarnation)


async def walk(
    view: CheckpointView, between: Callable[[int], Awaitable[None]] | None = None
) -> tuple[Answer[dict[str, StoredHistory]], int]:
    """Return the answer of a walk, and its calls; `between` runs after each, with its number."""
    assert isinstance(view, RedisView)
    server, call = view.server, view.server.call
    calls = 0

    async def counted(script: scripts.Script, *args: Any) -> Any:
        nonlocal calls
        reply = await call(script, *args)
        if script is scripts.HISTORY:
            calls += 1
            if between is not None:
                await between(calls)
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "call", counted)
        answer = await view.history(
            0, 0, thread=T, namespace="", checkpoint_id=None, channels=["a"]
        )
    return answer, calls


def tasks_of(answer: Answer[dict[str, StoredHistory]]) -> list[str]:
    """Return the tasks whose writes an answer shows, the nearest checkpoint's first."""
    return [task for _, writes in steps_of(answer.value["a"]) for task, _, _ in writes]


class TestWalks:
    """A walk of several calls answers from one state, whatever happens between two of them."""

    @pytest.fixture
    async def projection(self, redis_url: str) -> AsyncIterator[Projection]:
        storage = RedisStorage(redis_url)
        view = storage.new_view()
        projection = Projection(view)
        await projection.begin()
        yield projection
        await view.discard(0)
        while await view.sweep(0):
            pass
        await view.close()

    async def test_a_walk_takes_few_calls(self, projection: Projection) -> None:
        """Where nothing happens meanwhile it is walked once."""
        await projection.feed(*chain())
        answer, calls = await walk(projection.view)
        assert (answer.applied, calls) == (LENGTH, 4)
        assert data_of(answer.value["a"].seed) == b"seed"

    async def test_a_later_write_never_shows_without_an_earlier_one(
        self, projection: Projection
    ) -> None:
        """A write that was passed already and one that is ahead come together."""
        await projection.feed(*chain())

        async def write(calls: int) -> None:
            if calls == 1:
                await projection.feed(write_on(LENGTH - 2, task="near"), write_on(0, task="deep"))

        answer, _ = await walk(projection.view, write)
        assert tasks_of(answer) == ["near", "deep"]
        assert answer.applied == LENGTH + 2

    async def test_a_busy_thread_is_answered(self, projection: Projection) -> None:
        """Where each call is followed by a write, the answer is still the state at its position."""
        await projection.feed(*chain())

        async def write(calls: int) -> None:
            number = LENGTH - 2 if calls % 2 else 0
            await projection.feed(write_on(number, task=f"{calls:02}"))

        answer, calls = await walk(projection.view, write)
        assert calls < 10
        assert answer.applied == LENGTH + calls - 1
        assert sorted(tasks_of(answer)) == [f"{number:02}" for number in range(1, calls)]

    async def test_other_threads_do_not_disturb(self, projection: Projection) -> None:
        """What happens in the rest of the partition does not begin a walk again."""
        await projection.feed(*chain(), deleted("v"))

        async def write(_: int) -> None:
            await projection.feed(saved("u", "1"), saved("v", "1", incarnation=LENGTH))

        answer, calls = await walk(projection.view, write)
        assert calls == 4
        assert answer.applied == LENGTH + 1 + 2 * (calls - 1)

    async def test_a_note_that_goes_hides_none_that_comes(self, projection: Projection) -> None:
        """In a thread's second life a walk begins again also when as much is noted as before."""
        old = [saved("t", "1"), saved("t", "2")]
        await projection.feed(*old, deleted("t"), *chain(incarnation=2))

        async def write(calls: int) -> None:
            if calls == 1:
                near = write_on(LENGTH - 2, task="near", incarnation=2)
                deep = write_on(0, task="deep", incarnation=2)
                await projection.feed(*map(Tombstone, old), near, deep)

        answer, _ = await walk(projection.view, write)
        assert tasks_of(answer) == ["near", "deep"]

    @pytest.mark.parametrize("goes_on", [False, True])
    async def test_a_walk_does_not_cross_a_deletion(
        self, projection: Projection, *, goes_on: bool
    ) -> None:
        """A thread that is deleted meanwhile has no history, or that of its new life."""
        await projection.feed(*chain(), write_on(1))

        async def delete(calls: int) -> None:
            if calls == 1:
                at = projection.next_offset
                await projection.feed(deleted("t"))
                if goes_on:
                    await projection.feed(
                        saved("t", "1", {"a": b"new"}, incarnation=at),
                        saved("t", "2", parent="1", incarnation=at),
                    )

        answer, _ = await walk(projection.view, delete)
        assert tasks_of(answer) == []
        assert data_of(answer.value["a"].seed) == (b"new" if goes_on else None)
        assert answer.applied == projection.next_offset

    async def test_a_walk_does_not_cross_a_rebuild(self, projection: Projection) -> None:
        """A view that is made anew meanwhile is walked from the start."""
        await projection.feed(*chain(), write_on(0))

        async def rebuild(calls: int) -> None:
            if calls == 1:
                await projection.view.discard(0)
                await projection.begin(b"gener-02")
                await projection.feed(saved("t", "0", {"a": b"other"}), saved("t", "1", parent="0"))

        answer, _ = await walk(projection.view, rebuild)
        assert (tasks_of(answer), data_of(answer.value["a"].seed)) == ([], b"other")
        assert answer.applied == 2


class TestRedisView(CheckpointViewContract):
    @pytest.fixture
    async def storage(self, redis_url: str) -> AsyncIterator[ViewStorage]:
        storage = RedisStorage(redis_url)
        yield storage
        client: Any = cast("Any", Redis).from_url(redis_url)
        async for key in client.scan_iter(match=f"{{{storage.prefix}:*", count=1_000):
            await client.unlink(key)
        await client.aclose()
