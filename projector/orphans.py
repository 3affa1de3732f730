"""Erases chunks from the log that no event names, and events that came too late for theirs.

By the log's clock alone: what lies in front of a record that is two lifetimes younger than a chunk
is all that can ever name it. Where nobody appends such a record, a nudge is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, time
from typing import Final

from eventstore.events import CHUNK_LIFETIME_MS, LogNudged, NewEvent
from eventstore.log import EventLog

from .config import ProjectorConfig
from .pending import Pending
from .view import ViewWriter, Wanted

ORPHAN_AGE_MS: Final = 2 * CHUNK_LIFETIME_MS
"""One lifetime is the format's; another one is for a clock that goes back when Kafka's leader
changes."""

ENTRIES_AT_ONCE: Final = 200
"""How many entries make a page."""


@dataclass(slots=True)
class _Walk:
    """The walk over what is pending in one partition."""

    cursor: bytes | None = None
    resume_at: float = 0.0
    """The monotonic time of the next walk."""
    nudge_at: float = 0.0
    """The monotonic time from which on the log's clock may be asked again."""
    clock_ms: int = 0
    """What the log's clock showed last."""
    barrier: int = 0
    """The log's end at that time, or behind what was erased last: the view has to cover it."""


class OrphanReaper:
    """Does a little each time it is asked to."""

    def __init__(self, log: EventLog, view: ViewWriter, config: ProjectorConfig) -> None:
        self._log = log
        self._view = view
        self._config = config
        self._walks: defaultdict[int, _Walk] = defaultdict(_Walk)

    async def reap(self, partition: int) -> None:
        """Look at one page of what is pending."""
        walk = self._walks[partition]
        if monotonic() < walk.resume_at:
            return
        before = await self._view.progress(partition)
        if before is None or before.next_offset < walk.barrier:
            return
        page = await self._view.pending(partition, cursor=walk.cursor, limit=ENTRIES_AT_ONCE)
        after = await self._view.progress(partition)
        if after is None or after.generation != before.generation:
            # It may be a view that has not met the events yet that name the chunks.
            return
        orphans = [entry for entry in page.entries if _is_old(entry, walk.clock_ms)]
        if await self._erase(partition, orphans):
            walk.barrier = (await self._log.end_position([partition])).next_offset(partition)
            return
        seems_old = [entry for entry in page.entries if _is_old(entry, int(time() * 1000))]
        if len(seems_old) > len(orphans) and monotonic() >= walk.nudge_at:
            await self._look_at_the_clock(partition, walk)
            return
        walk.cursor = page.cursor
        if page.cursor is None:
            walk.resume_at = monotonic() + self._config.erase_interval

    async def _look_at_the_clock(self, partition: int, walk: _Walk) -> None:
        walk.nudge_at = monotonic() + self._config.erase_interval
        nudge = await self._log.append(NewEvent(None, LogNudged()), partition=partition)
        walk.barrier = (await self._log.end_position([partition])).next_offset(partition)
        # A log that does not tell is asked again later.
        walk.clock_ms = max(walk.clock_ms, nudge.timestamp_ms or 0)

    async def _erase(self, partition: int, orphans: Sequence[Pending]) -> bool:
        """Tombstone what may be erased; return whether there was any."""
        if not orphans:
            return False
        threads = list(dict.fromkeys([entry.thread for entry in orphans]))
        records = (await self._view.load(partition, Wanted(threads, []))).threads
        keys: list[bytes] = []
        for entry in orphans:
            record = records.get(entry.thread)
            # What waits in a parked thread may be all that an unreadable event is about.
            is_parked = record is not None and record.parked is not None
            if not is_parked and not entry.is_past(record):
                keys.append(entry.key)
        if keys:
            await self._log.erase(partition, keys)
        return bool(keys)


def _is_old(entry: Pending, now_ms: int) -> bool:
    return now_ms - entry.timestamp_ms > ORPHAN_AGE_MS
