"""Reads at a bound: ask the view, wait briefly for whoever applies the log, then help.

A read is answered from a view that has applied what the read wants, or it raises: never from an
older one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, TypeVar

from .applier import Applier
from .errors import ProjectionLagError
from .view import ViewBehindError

T = TypeVar("T")

DEFAULT_PATIENCE: Final = 0.05
"""How long, in seconds, a read waits for a projector before it applies the log itself."""

DEFAULT_DEADLINE: Final = 10.0
"""After how long, in seconds, a read gives up."""

FAR_BEHIND: Final = 2_000
"""From how many missing offsets on a read helps at once: no projector works them off in time."""

_FIRST_POLL: Final = 0.002  # seconds; a tailing projector needs one or two
_LAST_POLL: Final = 0.02


class CatchUp:
    """Brings reads and the view together. One per saver and its clones."""

    def __init__(
        self,
        applier: Applier,
        *,
        patience: float = DEFAULT_PATIENCE,
        deadline: float = DEFAULT_DEADLINE,
    ) -> None:
        self._applier = applier
        self._patience = patience
        self._deadline = deadline
        # Partitions whose view nobody else moved while the last read waited in vain. Reads of them
        # wait for a single look only, until one finds the view moved.
        self._unattended: set[int] = set()
        # How often reads of this process began or ended helping, by partition: tells a view that
        # they moved from one that somebody else moved.
        self._helps: defaultdict[int, int] = defaultdict(int)
        # Reads that wait, by partition: (the next offset that they want, what wakes them).
        self._waiting: defaultdict[int, set[_Waiter]] = defaultdict(set)

    def notify(self, partition: int, next_offset: int) -> None:
        """Wake the reads that want no more than a partition's view has now applied.

        For whoever applies in this process; others are found by looking.
        """
        for waiter in self._waiting[partition]:
            if waiter.bound <= next_offset:
                waiter.woken.set()

    async def read(self, partition: int, bound: int, query: Callable[[int], Awaitable[T]]) -> T:
        """Return the answer of `query(bound)`, from a view that has applied all below `bound`.

        `query` raises `ViewBehindError` while the view is behind. Cancelling a read, in whatever it
        waits for, leaves the others as they are.

        Raises:
            ProjectionLagError: The view did not get there in time.
            ProjectionHaltedError, LogIdentityError, LogTruncatedError, ViewVersionError: It cannot
                get there; see `Applier.advance`.
        """
        try:
            return await query(bound)
        except ViewBehindError as behind:
            lag = _Lag(partition, bound, behind.applied)
        scope = asyncio.timeout(self._deadline)
        try:
            async with scope:
                return await self._read_behind(lag, query)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise lag.error() from error

    async def _read_behind(self, lag: _Lag, query: Callable[[int], Awaitable[T]]) -> T:
        if lag.applied > 0 and lag.wanted - lag.applied < FAR_BEHIND:
            try:
                return await self._wait(lag, query)
            except ViewBehindError as behind:
                lag.applied = behind.applied
        if lag.applied == 0:
            # An empty view answers nothing, whatever was asked for: it would look like "not there".
            lag.wanted = max(lag.wanted, await self._applier.end(lag.partition))
        while True:
            self._helps[lag.partition] += 1
            try:
                lag.applied = await self._applier.advance(
                    lag.partition, lag.wanted, on_progress=lag.reached
                )
            finally:
                self._helps[lag.partition] += 1
            self.notify(lag.partition, lag.applied)
            try:
                return await query(lag.wanted)
            except ViewBehindError as behind:
                # The view was lost between the two.
                lag.applied = behind.applied

    async def _wait(self, lag: _Lag, query: Callable[[int], Awaitable[T]]) -> T:
        """Ask again when woken and now and then; raise `ViewBehindError` when patience ends."""
        is_attended = lag.partition not in self._unattended
        helps = self._helps[lag.partition]
        until = monotonic() + (self._patience if is_attended else _FIRST_POLL)
        pause = _FIRST_POLL
        waiter = _Waiter(lag.wanted)
        self._applier.hurry()
        self._waiting[lag.partition].add(waiter)
        try:
            while True:
                left = until - monotonic()
                await waiter.wait(min(pause, left))
                try:
                    answer = await query(lag.wanted)
                except ViewBehindError as behind:
                    if monotonic() >= until:
                        if behind.applied <= lag.applied:
                            self._unattended.add(lag.partition)
                        lag.applied = behind.applied
                        raise
                    lag.applied = behind.applied
                else:
                    if self._helps[lag.partition] == helps:
                        self._unattended.discard(lag.partition)
                    return answer
                pause = min(pause * 2, _LAST_POLL)
        finally:
            self._waiting[lag.partition].discard(waiter)


class _Waiter:
    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.woken = asyncio.Event()

    async def wait(self, timeout: float) -> None:
        """Return when woken or after `timeout` seconds."""
        try:
            async with asyncio.timeout(max(timeout, 0)):
                await self.woken.wait()
        except TimeoutError:
            return
        self.woken.clear()


class _Lag:
    """How far one read is from what it wants, for the error it may end with."""

    def __init__(self, partition: int, wanted: int, applied: int) -> None:
        self.partition = partition
        self.wanted = wanted
        self.applied = applied
        self._applied_at_first = applied
        self._started = monotonic()

    def reached(self, next_offset: int) -> None:
        self.applied = next_offset

    def error(self) -> ProjectionLagError:
        waited = monotonic() - self._started
        rate = max(self.applied - self._applied_at_first, 0) / max(waited, 1e-9)
        return ProjectionLagError(
            self.partition, wanted=self.wanted, applied=self.applied, waited=waited, rate=rate
        )
