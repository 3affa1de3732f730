"""Waiting for one of two things, and for longer each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
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
