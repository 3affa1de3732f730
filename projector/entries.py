"""Records of the log as the fold's entries, and batches as chunks that are folded at once.

Pure. What cannot be decoded becomes an entry of its own kind, so that it harms one thread; an event
from the future ends the batch in front of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

import msgpack

from eventstore.codec import decode, decoded_size, split_record_key, thread_of
from eventstore.errors import CorruptEventError, UnknownEventVersionError
from eventstore.log import LogBatch, LogRecord

from .batch import Entry, Erased, Readable, Unreadable, independent
from .errors import ProjectionHaltedError
from .layout import NO_EVENT

MAX_ENTRIES: Final = 250
"""How many entries are applied at once at most: 2,000 block Redis, and its readers, for 15 ms."""

MAX_BYTES: Final = 256 * 1024
"""How many decoded bytes are applied at once at most, for the same reason."""

_offset_of = attrgetter("offset")


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is folded on one load of state and applied in one step."""

    entries: Sequence[Entry]
    """Empty when the log holds nothing more than a gap."""
    next_offset: int
    """What the view has reached once this is applied; passes gaps behind the last entry."""
    last_event_id: bytes | None
    """Event id of the last entry; None without entries."""


class Cutter:
    """Cuts one batch into chunks. Each record is decoded once, however often it is cut."""

    def __init__(
        self, batch: LogBatch, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._batch = batch
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        # Entry by offset, of those records that were wanted so far.
        self._decoded: dict[int, Entry] = {}
        # Offset of the event that folding failed at when it was alone.
        self._suspect = -1

    def chunk(self, start: int) -> Chunk:
        """Return the first chunk of what the batch holds at and behind offset `start`.

        Raises:
            ProjectionHaltedError: An event from the future comes first.
        """
        entries: list[Entry] = []
        size = 0
        next_offset = self._batch.next_offset
        records = self._batch.records
        for record in records[bisect_left(records, start, key=_offset_of) :]:
            size += decoded_size(record)
            is_full = len(entries) >= self._max_entries or size > self._max_bytes
            if entries and is_full:
                next_offset = entries[-1].offset + 1
                break
            try:
                entries.append(self._entry(record))
            except UnknownEventVersionError as error:
                if not entries:
                    raise ProjectionHaltedError(
                        record.partition,
                        record.offset,
                        type_name=error.type_name,
                        version=error.version,
                    ) from error
                next_offset = entries[-1].offset + 1
                break
        count = independent(entries)
        if count < len(entries):
            del entries[count:]
            next_offset = entries[-1].offset + 1
        return Chunk(entries, next_offset, event_id_of(entries[-1]) if entries else None)

    def failed(self, chunk: Chunk, reason: str) -> None:
        """Take note that a chunk could not be folded, so that the next one is another.

        Chunks become single entries, until one of them fails alone and fails so again on a state
        that was loaded anew: that one is not readable then.
        """
        self._max_entries = 1
        if len(chunk.entries) > 1:
            return
        offset = chunk.entries[0].offset
        if self._suspect != offset:
            self._suspect = offset
            return
        records = self._batch.records
        record = records[bisect_left(records, offset, key=_offset_of)]
        self._decoded[offset] = unreadable(record, reason=reason)

    def _entry(self, record: LogRecord) -> Entry:
        entry = self._decoded.get(record.offset)
        if entry is None:
            entry = self._decoded[record.offset] = entry_of(record)
        return entry


def entry_of(record: LogRecord) -> Entry:
    """Return a record as the fold takes it.

    Raises:
        UnknownEventVersionError: It is an event from the future.
    """
    if record.value is None:
        return Erased(record.offset, *_named_by_key(record))
    try:
        return Readable(record.event or decode(record), partial(pack_record, record))
    except CorruptEventError as error:
        return unreadable(record, reason=error.reason)


def unreadable(record: LogRecord, *, reason: str) -> Unreadable:
    """Return a record as one that the fold must not look into: its thread is parked by it."""
    _, event_id, part = _named_by_key(record)
    return Unreadable(record.offset, thread_of(record), reason, pack_record(record), event_id, part)


def event_id_of(entry: Entry) -> bytes:
    """Return the event id that an entry's record names, zeros when it names none."""
    return entry.recorded.event_id if isinstance(entry, Readable) else entry.event_id


def pack_record(record: LogRecord) -> bytes:
    """Return a record's bytes, for an event that waits in a parked thread."""
    packed: bytes = msgpack.packb((record.timestamp_ms, record.key, record.value, record.headers))
    return packed


def unpack_record(partition: int, offset: int, data: bytes) -> LogRecord:
    """Return the record of `pack_record`'s bytes."""
    timestamp_ms, key, value, headers = msgpack.unpackb(data)
    return LogRecord(
        partition, offset, timestamp_ms, key, value, tuple((name, value) for name, value in headers)
    )


def _named_by_key(record: LogRecord) -> tuple[str | None, bytes, int]:
    try:
        return split_record_key(record.key or b"")
    except ValueError:
        return None, NO_EVENT, 0
