"""What a projector tells of itself: lag, rates, restore progress.

Facts only; `measure` asks the log and the view for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Final

from eventstore.log import EventLog

from .projection import FOLD_VERSION
from .view import Progress, ViewWriter

RATE_WINDOW: Final = 10.0
"""Over how many seconds a rate is taken."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far the view of one partition is from the log's end."""

    partition: int
    end: int
    """The log's end when it was asked."""
    progress: Progress | None
    """None when the partition has no view."""

    @property
    def next_offset(self) -> int:
        """Return the view's next offset, 0 without a view."""
        return 0 if self.progress is None else self.progress.next_offset

    @property
    def lag(self) -> int:
        """Return how many offsets the view lacks, gaps included."""
        return max(self.end - self.next_offset, 0)

    @property
    def problem(self) -> str | None:
        """Return what is wrong with the view beyond lag, None when nothing is."""
        if self.progress is None:
            return "no view"
        if self.progress.fold_version != FOLD_VERSION:
            return f"fold version {self.progress.fold_version}, expected {FOLD_VERSION}"
        if self.progress.next_offset > self.end:
            return "ahead of the log: the view of another log"
        return None


async def measure(log: EventLog, view: ViewWriter, partitions: Sequence[int]) -> list[PartitionLag]:
    """Return the lag of each partition.

    Raises:
        LogUnavailableError, ViewUnavailableError: One of them does not answer.
    """
    # The views first: one that is ahead of an end asked later was built from another log.
    progress = [await view.progress(partition) for partition in partitions]
    ends = await log.end_position(partitions)
    return [
        PartitionLag(partition, ends.next_offset(partition), progress[index])
        for index, partition in enumerate(partitions)
    ]


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far the restore of one partition has come."""

    partition: int
    start: int
    """Where the view was when the restore began."""
    next_offset: int
    target: int
    """The log's end when the restore began."""
    seconds: float
    """Since the restore began."""

    @property
    def rate(self) -> float:
        """Return offsets per second since the restore began."""
        return max(self.next_offset - self.start, 0) / self.seconds if self.seconds > 0 else 0.0

    @property
    def is_done(self) -> bool:
        """Tell whether the view has reached the target."""
        return self.next_offset >= self.target


class PartitionState(Enum):
    """What a worker does with a partition that it holds."""

    RESTORING = "restoring"
    FOLLOWING = "following"
    HALTED = "halted"
    """Stopped with an error, and tried again now and then."""


class WorkerState(Enum):
    """What a worker as a whole does."""

    IDLE = "idle"
    """Not started yet."""
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    """Stopped by an error that it has no answer to."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition as the worker that holds it sees it."""

    partition: int
    state: PartitionState
    next_offset: int
    """What this worker knows the view to have applied."""
    lag: int | None
    """At the last look; None before the first one."""
    error: str | None = None
    """Why it halted."""
    restore: RestoreProgress | None = None


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker as a whole."""

    state: WorkerState
    partitions: Sequence[PartitionStatus]
    """Those that it holds, and those that it could not go on with."""
    applied: int
    """Offsets that it has passed since it was started, by its own work or with others' help."""
    rate: float
    """Offsets per second, over the last seconds."""
    error: str | None = None
    """Why it failed."""


class Meter:
    """Counts, and tells the rate over the last seconds."""

    def __init__(self) -> None:
        self.total = 0
        # (time, total then), the oldest first; one entry per second at most.
        self._marks: deque[tuple[float, int]] = deque([(monotonic(), 0)])

    def add(self, count: int) -> None:
        """Count something."""
        self.total += count
        now = monotonic()
        if now - self._marks[-1][0] >= 1.0:
            self._marks.append((now, self.total))
        while len(self._marks) > 1 and now - self._marks[0][0] > RATE_WINDOW:
            self._marks.popleft()

    @property
    def rate(self) -> float:
        """Return counts per second over the last `RATE_WINDOW` seconds or since the beginning."""
        since, total = self._marks[0]
        elapsed = monotonic() - since
        return (self.total - total) / elapsed if elapsed > 0 else 0.0
