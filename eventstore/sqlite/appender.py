"""Appends of one process, committed in groups."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

import apsw

from eventstore.codec import EncodedEvent
from eventstore.errors import AppendOutcomeUnknownError, EventStoreError
from eventstore.log import Appended

from . import records
from .connection import SqliteConnection, writing
from .faults import may_be_stored, translated

GROUP_RECORDS: Final = 256
GROUP_BYTES: Final = 8_000_000
"""A group ends with the append that reaches one of these."""


@dataclass(slots=True)
class _Append:
    row: records.Row
    event_id: bytes
    called_at: float
    acknowledged: asyncio.Future[Appended]
    """Belongs to the event loop; the writer's OS thread only carries it."""
    refused: EventStoreError | ValueError | None = None
    """Set by the writer's OS thread when this append alone cannot be stored."""
    offset: int = -1


class Appender:
    """Queues appends on the event loop; the writer's OS thread commits all that wait at once.

    One transaction and one call back to the loop per group, whatever its size. While one group is
    being committed the next one gathers.
    """

    def __init__(
        self, name: str, writer: SqliteConnection, *, on_commit: Callable[[], None]
    ) -> None:
        self._name = name
        self._writer = writer
        self._on_commit = on_commit
        """Called on the loop after each group that was stored."""
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Append] = deque()
        """The loop appends on the right, the writer's OS thread takes from the left."""
        self._is_scheduled = False
        """A commit is handed in that has not begun to take from the queue. The loop sets it after
        it has queued; the writer clears it before it takes: so no append is left behind."""
        self._group: list[_Append] = []
        """What the running commit has taken. The writer's OS thread only."""
        self._waiting = 0
        """Appends not yet settled. The loop only."""

    def append(self, encoded: EncodedEvent, event_id: bytes) -> asyncio.Future[Appended]:
        """Give an event its place in the order and return its acknowledgement."""
        row = (0, encoded.key, encoded.value, records.packed_headers(encoded.headers))
        append = _Append(row, event_id, time.monotonic(), self._loop.create_future())
        self._queue.append(append)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule()
        self._waiting += 1
        return append.acknowledged

    async def drain(self) -> None:
        """Return when every append that was called is settled."""
        while self._waiting:
            # What a group's commit calls back comes before what a later job calls back.
            await self._writer.run(_nothing)

    def _schedule(self) -> None:
        self._writer.submit(self._commit).add_done_callback(self._committed)

    def _commit(self, connection: apsw.Connection) -> int:
        """Store a group and return its time. On the writer's OS thread."""
        self._is_scheduled = False
        self._group = group = self._take()
        now = records.now_ms()
        rows = [(now, *append.row[1:]) for append in group]
        if not rows:
            return now
        try:
            first = records.insert(connection, rows)
        except apsw.ConstraintError:
            self._commit_one_by_one(connection, group, rows)
        else:
            for offset, append in enumerate(group, first):
                append.offset = offset
        return now

    def _take(self) -> list[_Append]:
        group: list[_Append] = []
        size = 0
        while self._queue and len(group) < GROUP_RECORDS and size < GROUP_BYTES:
            append = self._queue.popleft()
            size += len(append.row[2] or b"") + len(append.row[3])
            group.append(append)
        if self._queue:
            # Behind the jobs that others have handed in meanwhile.
            self._is_scheduled = True
            self._schedule()
        return group

    def _commit_one_by_one(
        self, connection: apsw.Connection, group: list[_Append], rows: list[records.Row]
    ) -> None:
        with writing(connection):
            for append, row in zip(group, rows, strict=True):
                try:
                    append.offset = records.insert(connection, [row])
                except apsw.ConstraintError:
                    append.refused = ValueError(
                        f"event {append.event_id.hex()} is in the log already: an event is "
                        f"appended once"
                    )

    def _committed(self, done: Future[int]) -> None:
        """Carry a group's result to the loop. On the writer's OS thread, also after a failure."""
        group, self._group = self._group, []
        if group:
            # A closed loop has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._settle, group, done)

    def _settle(self, group: list[_Append], done: Future[int]) -> None:
        self._waiting -= len(group)
        failure = done.exception()
        for append in group:
            future = append.acknowledged
            if future.done():  # cancelled by its caller
                continue
            if failure is not None:
                future.set_exception(self._error(append, failure))
            elif append.refused is not None:
                future.set_exception(append.refused)
            else:
                place = Appended(records.PARTITION, append.offset, done.result())
                future.set_result(place)
        if failure is None:
            self._on_commit()

    def _error(self, append: _Append, failure: BaseException) -> BaseException:
        """Return one append's own exception: they are raised, and so changed, separately."""
        cause = failure.__cause__
        if not isinstance(cause, apsw.Error):
            return failure
        if may_be_stored(cause):
            waited = time.monotonic() - append.called_at
            error: EventStoreError = AppendOutcomeUnknownError(
                append.event_id.hex(), partition=records.PARTITION, waited=waited
            )
        else:
            error = translated(cause, self._name)
        error.__cause__ = cause
        return error


def _nothing(_: apsw.Connection) -> None:
    """Take a place in the writer's queue."""
