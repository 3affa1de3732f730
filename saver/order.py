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
    """One call's place in the order of its thread.

    It is over once its call has given it back and all in front of it are over.
    """

    __slots__ = ("_last", "_over", "_previous", "_thread_id")

    def __init__(self, last: dict[str, Turn], thread_id: str) -> None:
        self._last = last
        self._thread_id = thread_id
        # None as soon as nothing is in front of this one.
        self._previous = last.get(thread_id)
        # Made for the one behind, if that has to wait.
        self._over: asyncio.Future[None] | None = None
        last[thread_id] = self

    async def __aenter__(self) -> None:
        """Wait until everything that began earlier was handed over."""
        if self._previous is None:
            return
        try:
            await asyncio.shield(self._previous.over())
        except asyncio.CancelledError:
            self._give_back()
            raise
        self._previous = None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the turn back."""
        self._give_back()

    def over(self) -> asyncio.Future[None]:
        """Return what is done when this turn is over. For the one behind."""
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        return self._over

    def _give_back(self) -> None:
        if self._previous is None:
            self._end()
        else:
            # This one never had its turn: the one behind still waits for those in front.
            self._previous.over().add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._previous = None
        if self._last.get(self._thread_id) is self:
            del self._last[self._thread_id]
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
