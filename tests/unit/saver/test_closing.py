"""Calls that are under way while a saver, or its event loop, ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from eventstore.errors import EventStoreError
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from langgraph.checkpoint.kafka import AsyncKafkaSaver, KafkaSaver, SaverClosedError
from projector.sqlite import SqliteView

THREAD: Any = {"configurable": {"thread_id": "t"}}
CALLERS = 8


class Stuck:
    """A log's `end_position` that never answers, and tells when it was asked."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()

    async def __call__(self, _: Any) -> Any:
        self.is_asked.set()
        await asyncio.Event().wait()


def calling_until_it_raises(saver: Any, raised: list[BaseException]) -> Callable[[], None]:
    def run() -> None:
        try:
            while True:
                saver.get_tuple(THREAD)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
            raised.append(error)

    return run


@pytest.mark.parametrize("pause", [0.0, 0.01, 0.05])
def test_closing_under_sync_calls_hangs_nobody(pause: float) -> None:
    """Each OS thread gets an error of ours, in whatever step of its call the saver was closed."""
    raised: list[BaseException] = []
    with KafkaSaver.from_conn_string("sqlite:///:memory:", projector=None) as saver:
        callers = [
            threading.Thread(target=calling_until_it_raises(saver, raised)) for _ in range(CALLERS)
        ]
        for caller in callers:
            caller.start()
        threading.Event().wait(pause)
    for caller in callers:
        caller.join(timeout=10)
    assert len(raised) == CALLERS
    assert all(isinstance(error, EventStoreError) for error in raised), raised


def test_a_sync_call_that_is_cut_off_says_that_the_saver_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not that it was cancelled, which nobody did."""
    raised: list[BaseException] = []
    stuck = Stuck()
    with KafkaSaver.from_conn_string("sqlite:///:memory:", projector=None) as saver:
        monkeypatch.setattr(saver._engine.log, "end_position", stuck)
        caller = threading.Thread(target=calling_until_it_raises(saver, raised))
        caller.start()
        assert stuck.is_asked.wait(5)
    caller.join(timeout=10)
    assert [type(error) for error in raised] == [SaverClosedError]


async def test_an_async_call_from_another_loop_is_not_taken_for_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`KafkaSaver`'s loop stops: the caller's task goes on with an error."""
    stuck = Stuck()
    opened = KafkaSaver.from_conn_string("sqlite:///:memory:", projector=None)
    saver = await asyncio.to_thread(opened.__enter__)
    monkeypatch.setattr(saver._engine.log, "end_position", stuck)
    call = asyncio.create_task(saver.aget_tuple(THREAD))
    cancelled = asyncio.create_task(saver.aget_tuple(THREAD))
    assert await asyncio.to_thread(stuck.is_asked.wait, 5)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await asyncio.to_thread(opened.__exit__, None, None, None)
    with pytest.raises(SaverClosedError):
        await call
    with pytest.raises(SaverClosedError):
        await saver.aget_tuple(THREAD)


def test_a_loop_that_ends_under_sync_calls_hangs_nobody() -> None:
    """The loop of an `AsyncKafkaSaver` is its user's, and may end while others wait for it."""
    raised: list[BaseException] = []
    callers: list[threading.Thread] = []

    async def main() -> None:
        async with AsyncKafkaSaver.from_conn_string("sqlite:///:memory:", projector=None) as saver:
            for _ in range(CALLERS):
                run = calling_until_it_raises(saver, raised)
                callers.append(threading.Thread(target=run))
                callers[-1].start()
            await asyncio.sleep(0.01)

    asyncio.run(main())
    for caller in callers:
        caller.join(timeout=10)
    assert len(raised) == CALLERS
    assert all(isinstance(error, EventStoreError) for error in raised), raised


async def test_closing_during_the_set_up_leaves_nothing_behind() -> None:
    """In whatever step of it: the set-up is done before, or says that the saver is closed."""
    async with SqliteDatabase(":memory:") as database:
        for steps in range(40):
            saver = AsyncKafkaSaver(SqliteEventLog(database), SqliteView(database))
            setting_up = asyncio.create_task(saver.setup())
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            await saver.aclose()
            (error,) = await asyncio.gather(setting_up, return_exceptions=True)
            assert error is None or isinstance(error, SaverClosedError)
            assert asyncio.all_tasks() == {asyncio.current_task()}
