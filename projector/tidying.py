"""Tidies up an idle partition: sweeps the view, and erases from the log what was deleted.

Erasing a thread goes in this order, and each step is taken when the view shows that the one before
is done, so that any process may go on where another one stopped:

1. the records of the thread's earlier lives are tombstoned;
2. a marker is appended, which names the thread by its hash only, and then the deletion's own record
   is tombstoned. Without the marker nothing in the log would make a late append void.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, time
from typing import Final

from eventstore.codec import decode, record_key
from eventstore.errors import (
    CorruptEventError,
    LogTruncatedError,
    UnknownEventVersionError,
)
from eventstore.events import LogNudged, NewEvent, ThreadErased
from eventstore.log import EventLog, LogRecord

from .config import ProjectorConfig
from .noted import Noted
from .orphans import OrphanReaper
from .view import DeletedThread, ViewWriter

SWEEPS_AT_ONCE: Final = 20
"""How many steps of sweeping follow one another before another partition has its turn."""

NUDGES: Final = 3
"""How many nudges in a row a quiet partition gets: one for what was erased, others for what erased
it, whose turn comes a day after the compaction at the earliest."""

NUDGE_INTERVAL: Final = 3600.0
"""How often, in seconds, the last records of a partition are looked at."""

PAGES_AT_ONCE: Final = 5
"""How many pages of threads are looked at before another partition has its turn."""

THREADS_AT_ONCE: Final = 200
"""How many threads, and notes of each, make a page."""

logger = logging.getLogger("langgraph_checkpoint_kafka.projector")


@dataclass(slots=True)
class _Walk:
    """The walk over the deleted threads of one partition."""

    cursor: bytes | None = None
    """Where it goes on; None at its beginning."""
    begun_at: int = -1
    """The view's next offset when it began; -1 before the first one."""
    is_over: bool = False
    """Whether it met its end, without anything to erase on the last page."""
    resume_at: float = 0.0
    """The monotonic time of the next walk."""
    nudge_at: float = 0.0
    """The monotonic time of the next look at the log's last records."""
    barrier: int = 0
    """The log's end behind what was erased last. Below it the view still shows what is erased, and
    it would be erased once more."""


class Tidier:
    """Does a little of what is left to do, each time it is asked to."""

    def __init__(self, log: EventLog, view: ViewWriter, config: ProjectorConfig) -> None:
        self._log = log
        self._view = view
        self._config = config
        self._walks: defaultdict[int, _Walk] = defaultdict(_Walk)
        self._orphans = OrphanReaper(log, view, config)

    async def tidy(self, partition: int, *, is_idle: Callable[[], bool]) -> None:
        """Do some steps, as long as the partition is idle.

        Raises:
            LogUnavailableError, ViewUnavailableError, AppendOutcomeUnknownError: Something is not
                done, or not known to be; it is looked at again the next time.
        """
        for _ in range(SWEEPS_AT_ONCE):
            if not is_idle():
                return
            if not await self._view.sweep(partition, limit=self._config.sweep_limit):
                break
        if not self._config.erase:
            return
        for _ in range(PAGES_AT_ONCE):
            if not is_idle():
                return
            if not await self._walk(partition, self._walks[partition]):
                break
        if is_idle():
            await self._orphans.reap(partition)
        if is_idle():
            await self._nudge(partition, self._walks[partition])

    async def _walk(self, partition: int, walk: _Walk) -> bool:
        """Look at one page of threads; return whether the next one may follow at once."""
        progress = await self._view.progress(partition)
        if progress is None or progress.next_offset < walk.barrier:
            return False
        if walk.cursor is None:
            is_unchanged = walk.begun_at == progress.next_offset
            if walk.is_over and (is_unchanged or monotonic() < walk.resume_at):
                return False
            walk.begun_at, walk.is_over = progress.next_offset, False
        page = await self._view.deleted_threads(
            partition, cursor=walk.cursor, limit=THREADS_AT_ONCE
        )
        erased = [await self._erase_thread(partition, deleted) for deleted in page.threads]
        if any(erased):
            # The same page again, once the view has seen it.
            ends = await self._log.end_position([partition])
            walk.barrier = ends.next_offset(partition)
            return False
        walk.cursor = page.cursor
        if page.cursor is None:
            walk.is_over = True
            walk.resume_at = monotonic() + self._config.erase_interval
        return not walk.is_over

    async def _nudge(self, partition: int, walk: _Walk) -> None:
        """Append something behind old records if nobody else does.

        Kafka compacts closed segments only, and closes one when something is appended to it.
        """
        if monotonic() < walk.nudge_at:
            return
        walk.nudge_at = monotonic() + min(NUDGE_INTERVAL, self._config.nudge_after)
        first = (await self._log.first_position([partition])).next_offset(partition)
        end = (await self._log.end_position([partition])).next_offset(partition)
        if end - NUDGES < first:
            # Too little is left to be worth it.
            return
        batch = await self._log.read(partition, end - NUDGES, end)
        last = [record for record in batch.records if record.offset >= end - NUDGES]
        newest_ms = max((record.timestamp_ms for record in last), default=0)
        is_old = time() * 1000 - newest_ms > self._config.nudge_after * 1000
        if is_old and not all(map(_is_nudge, last)):
            await self._log.append(NewEvent(None, LogNudged()), partition=partition)

    async def _erase_thread(self, partition: int, deleted: DeletedThread) -> bool:
        """Take the next step for one thread; return whether there was one to take."""
        incarnation = deleted.record.incarnation
        dead = [note for note in deleted.noted if note.is_dead(incarnation)]
        if dead:
            return await self._erase_records(partition, deleted, dead)
        deletion = [note for note in deleted.noted if note.offset == incarnation]
        if not deletion or not deleted.is_complete:
            return False
        marker = NewEvent(None, ThreadErased(deleted.thread, incarnation))
        await self._log.append(marker, partition=partition)
        is_erased = await self._erase_records(partition, deleted, deletion)
        logger.info("partition %d: a thread deleted at offset %d is erased", partition, incarnation)
        return is_erased

    async def _erase_records(
        self, partition: int, deleted: DeletedThread, notes: Sequence[Noted]
    ) -> bool:
        """Tombstone records; return whether there was any."""
        thread_id = deleted.record.thread_id
        if thread_id is None:
            found = [await self._key_at(partition, note.offset) for note in notes]
            keys = [key for key in found if key is not None]
        else:
            keys = [record_key(thread_id, note.event_id, note.part) for note in notes]
        await self._log.erase(partition, keys)
        return bool(keys)

    async def _key_at(self, partition: int, offset: int) -> bytes | None:
        """Return a record's key, which names the thread when nothing else does any more."""
        try:
            batch = await self._log.read(partition, offset, offset + 1)
        except LogTruncatedError:
            return None
        return next((record.key for record in batch.records if record.offset == offset), None)


def _is_nudge(record: LogRecord) -> bool:
    try:
        return record.value is not None and isinstance(decode(record).event, LogNudged)
    except (CorruptEventError, UnknownEventVersionError):
        return False
