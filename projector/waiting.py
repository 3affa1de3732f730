"""Waiting for one of two things, for longer each time, and for work under way by partition."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def first_of(coming: Awaitable[T], end: asyncio.Future[Any]) -> T | None:
    """Return what comes, or None when `end` is done before that; what was to come is cancelled."""
    task = asyncio.ensure_future(coming)
    try:
        await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Backoff:
    """Pauses that double from the first to the longest."""

    def __init__(self, first: float, longest: float) -> None:
        self._pause = first
        self._longest = longest

    def next(self) -> float:
        """Return the next pause, in seconds."""
        pause = self._pause
        self._pause = min(pause * 2, self._longest)
        return pause


class Lanes:
    """Work on several partitions at the same time, and on each one piece after another.

    A piece that fails tells `on_failure` at once; its error comes from the next `start` on the same
    partition, or from `drain`.
    """

    def __init__(self, *, on_failure: Callable[[], object]) -> None:
        self._on_failure = on_failure
        # The last piece of each partition. Pieces in front of it are done.
        self._last: dict[int, asyncio.Task[None]] = {}

    async def start(self, partition: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a piece of work once the one before it on the partition is done."""
        before = self._last.get(partition)
        if before is not None:
            await asyncio.shield(before)
        task = self._last[partition] = asyncio.create_task(work(), name=f"lane {partition}")
        task.add_done_callback(self._done)

    async def drain(self) -> None:
        """Wait until all is done, also when some of it fails; raise the first failure."""
        tasks = list(self._last.values())
        self._last.clear()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            task.result()

    async def cancel(self) -> None:
        """Cancel what is under way and wait until it has ended."""
        for task in self._last.values():
            task.cancel()
        await asyncio.gather(*self._last.values(), return_exceptions=True)
        self._last.clear()

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._on_failure()
