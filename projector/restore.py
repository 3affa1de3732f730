"""Brings one partition's view from wherever it is to the log's end, telling how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from eventstore.log import EventLog

from .applier import Applier
from .metrics import RestoreProgress

STEP: Final = 5_000
"""How many offsets lie between two looks at `is_wanted`, about a quarter of a second's work."""


async def restore(
    log: EventLog,
    applier: Applier,
    partition: int,
    *,
    on_progress: Callable[[RestoreProgress], None],
    is_wanted: Callable[[], bool] = lambda: True,
) -> RestoreProgress:
    """Bring a partition's view to where the log ends now; begin it, or make it anew, as needed.

    Ends early when `is_wanted` says no, with what is applied by then in order.

    Raises:
        ProjectionHaltedError, LogIdentityError, LogTruncatedError, ViewVersionError: As
            `Applier.advance`; what could be applied is.
    """
    started = monotonic()
    start = await applier.open(partition, may_replace=True)
    target = (await log.end_position([partition])).next_offset(partition)

    def told(next_offset: int) -> RestoreProgress:
        progress = RestoreProgress(partition, start, next_offset, target, monotonic() - started)
        on_progress(progress)
        return progress

    progress = told(start)
    while not progress.is_done and is_wanted():
        bound = min(progress.next_offset + STEP, target)
        reached = await applier.advance(partition, bound, may_replace=True, on_progress=told)
        progress = told(reached)
    return progress
