"""CallOrder: calls on one thread reach the log in the order in which they began.

A call may have to wait before it knows what to append; those that began after it wait behind it,
until it has handed its event to the log (not until that is acknowledged).
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class CallOrder:
    """Gives turns per thread. Used on one event loop."""

    def __init__(self) -> None:
        # The last turn of each thread that is still taken. Changed by `Turn` only.
        self._last: dict[str, Turn] = {}

    def enter(self, thread_id: str) -> Turn:
        """Take the next turn of a thread, at once. `async with` waits for it and gives it back."""
        return Turn(self._last, thread_id)


class Turn:
    """One call's place in the order of its thread."""

    __slots__ = ("_done", "_last", "_previous", "_thread_id")

    def __init__(self, last: dict[str, Turn], thread_id: str) -> None:
        self._last = last
        self._thread_id = thread_id
        self._previous = last.get(thread_id)
        self._done: asyncio.Future[None] | None = None
        last[thread_id] = self

    async def __aenter__(self) -> None:
        """Wait until everything that began earlier was handed over."""
        if self._previous is not None:
            try:
                await asyncio.shield(self._previous.finished())
            except asyncio.CancelledError:
                self.leave()
                raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the turn back."""
        self.leave()

    def leave(self) -> None:
        """Let the next one go on; if this one never had its turn, once the one before it left."""
        done = self.finished()
        previous = self._previous
        if previous is not None and not (earlier := previous.finished()).done():
            earlier.add_done_callback(lambda _: self._end(done))
        else:
            self._end(done)

    def _end(self, done: asyncio.Future[None]) -> None:
        self._previous = None
        if self._last.get(self._thread_id) is self:
            del self._last[self._thread_id]
        if not done.done():
            done.set_result(None)

    def finished(self) -> asyncio.Future[None]:
        """Return what is done when this one, and all in front of it, were given back."""
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
        return self._done
