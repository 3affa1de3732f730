"""Waking those who follow a log."""

from __future__ import annotations

import asyncio
import contextlib


class Pulse:
    """Beats when there may be new records. Belongs to the event loop that it was made on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiters: set[asyncio.Future[None]] = set()
        self.beats = 0
        """How often it has beaten: read before looking, handed to `wait` afterwards."""

    def beat(self) -> None:
        """Wake whoever waits."""
        self.beats += 1
        for waiter in self._waiters:
            _wake(waiter)

    def beat_from_any_thread(self) -> None:
        """Beat soon."""
        with contextlib.suppress(RuntimeError):  # a closed loop has no tails
            self._loop.call_soon_threadsafe(self.beat)

    async def wait(self, beats: int, *, timeout: float | None) -> None:
        """Return at the first beat after `beats`, or after some seconds."""
        if self.beats != beats:
            return
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        timer = None if timeout is None else self._loop.call_later(timeout, _wake, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            self._waiters.discard(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
