"""Work on several partitions at the same time, and on each one piece after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from projector.waiting import Lanes

Work = Callable[[], Coroutine[Any, Any, None]]


class Told:
    """Counts how often it was told of a failure."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def noted(notes: list[str], name: str, until: asyncio.Event) -> Work:
    """Work that notes when it begins and, once `until` is set, when it ends."""

    async def work() -> None:
        notes.append(f"{name} begins")
        await until.wait()
        notes.append(f"{name} ends")

    return work


def failing(error: Exception) -> Work:
    async def work() -> None:
        raise error

    return work


async def test_pieces_of_one_partition_follow_one_another() -> None:
    """A piece begins when the one before it on the same partition is done."""
    notes: list[str] = []
    lanes, until = Lanes(on_failure=Told()), asyncio.Event()
    await lanes.start(0, noted(notes, "first", until))
    second = asyncio.create_task(lanes.start(0, noted(notes, "second", until)))
    await asyncio.sleep(0)
    assert not second.done()
    until.set()
    await second
    await lanes.drain()
    assert notes == ["first begins", "first ends", "second begins", "second ends"]


async def test_partitions_do_not_wait_for_each_other() -> None:
    """A piece begins at once while other partitions are at work."""
    notes: list[str] = []
    lanes, until = Lanes(on_failure=Told()), asyncio.Event()
    await lanes.start(0, noted(notes, "one", until))
    await lanes.start(1, noted(notes, "other", until))
    await asyncio.sleep(0)
    assert notes == ["one begins", "other begins"]
    until.set()
    await lanes.drain()


async def test_failure_is_told_at_once_and_raised_by_drain() -> None:
    """A piece that fails is told of while others are at work, and its error is not lost."""
    told, until = Told(), asyncio.Event()
    lanes = Lanes(on_failure=told)
    await lanes.start(0, noted([], "long", until))
    await lanes.start(1, failing(ConnectionError("gone")))
    for _ in range(3):
        await asyncio.sleep(0)
    assert told.times == 1
    until.set()
    with pytest.raises(ConnectionError):
        await lanes.drain()


async def test_failure_is_raised_by_the_next_piece() -> None:
    """Nothing is started behind a piece that failed."""
    lanes = Lanes(on_failure=Told())
    await lanes.start(0, failing(ConnectionError("gone")))
    with pytest.raises(ConnectionError):
        await lanes.start(0, failing(AssertionError("started all the same")))
    await lanes.cancel()


async def test_cancelled_lanes_leave_nothing_running() -> None:
    """After `cancel` no piece is at work."""
    notes: list[str] = []
    lanes = Lanes(on_failure=Told())
    await lanes.start(0, noted(notes, "endless", asyncio.Event()))
    await asyncio.sleep(0)
    await lanes.cancel()
    assert notes == ["endless begins"]
    assert [task for task in asyncio.all_tasks() if task.get_name() == "lane 0"] == []
