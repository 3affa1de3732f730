"""The table of records and its statements. All of it runs on a connection's OS thread.

Each function steps through SQL as rarely as it can; `SqliteConnection` says why.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import apsw
import msgpack

from eventstore import codec
from eventstore.errors import CorruptEventError, LogIdentityError, LogTruncatedError
from eventstore.events import LogStarted, NewEvent
from eventstore.log import LogBatch, LogIdentity, LogRecord

from .connection import writing
from .statement import execute, row, rows

PARTITION: Final = 0
LOG_ID_BYTES: Final = 16

BATCH_RECORDS: Final = 500
BATCH_BYTES: Final = 1_000_000
"""A batch ends with the record that reaches this."""

_ONE_BY_ONE: Final = 4
"""Up to so many records are fetched as rows; more, as one row of hexadecimal text."""

_CACHED_ROWS: Final = 16
"""Statements that insert more rows than this are not kept: preparing them costs little."""

# Offsets are SQLite's next row id, the greatest plus one. None is used twice, because the last
# record is never removed: erasing appends its tombstones in the same transaction.
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS log_records (
        offset INTEGER PRIMARY KEY,
        timestamp_ms INTEGER NOT NULL,
        key BLOB NOT NULL UNIQUE,
        value BLOB,
        headers BLOB NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS log_tombstones ON log_records (timestamp_ms) WHERE value IS NULL;
"""

# Sizes first: `length` of a blob reads no more than its header. `ahead` is what the records in
# front of one take, so the first one is always in.
_PAGE: Final = f"""
    SELECT
        (SELECT min(offset) FROM log_records),
        (SELECT max(offset) FROM log_records),
        count(*),
        max(offset)
    FROM (
        SELECT offset, sum(size) OVER (ORDER BY offset) - size AS ahead
        FROM (
            SELECT offset, coalesce(length(value), 0) + length(headers) + length(key) AS size
            FROM log_records WHERE offset >= ? AND offset < ?
            ORDER BY offset LIMIT {BATCH_RECORDS}
        )
    ) WHERE ahead < {BATCH_BYTES}
"""  # noqa: S608 - constants

_ROWS: Final = """
    SELECT offset, timestamp_ms, key, value, headers
    FROM log_records WHERE offset >= ? AND offset <= ? ORDER BY offset
"""

_ROWS_AS_TEXT: Final = """
    SELECT group_concat(
        offset || ',' || timestamp_ms || ',' || hex(key) || ',' || hex(headers) || ','
        || CASE WHEN value IS NULL THEN '-' ELSE hex(value) END,
        ';' ORDER BY offset
    )
    FROM log_records WHERE offset >= ? AND offset <= ?
"""

StoredRow: TypeAlias = tuple[int, int, bytes, bytes | None, bytes]
"""offset, timestamp_ms, key, value, headers: the table's columns."""

Row: TypeAlias = tuple[int, bytes, bytes | None, bytes]
"""timestamp_ms, key, value, headers: what an append hands to SQLite."""


class Bounds(NamedTuple):
    """What of the log is there: `[first, end)`."""

    first: int
    end: int


# msgpack has no annotations.
_pack: Final[Callable[[object], bytes]] = cast("Any", msgpack).packb
_unpack: Final[Callable[[bytes], list[Any]]] = cast("Any", msgpack).unpackb

NO_HEADERS: Final = _pack([])


def now_ms() -> int:
    """Return the time that records are stamped with."""
    return time.time_ns() // 1_000_000


def packed_headers(headers: Sequence[tuple[str, bytes]]) -> bytes:
    """Return headers as one blob."""
    return _pack([part for header in headers for part in header])


def create(connection: apsw.Connection, name: str) -> None:
    """Create the table with its identity record, unless they are there; check the identity.

    Raises:
        LogIdentityError: The first record is not an identity record of one partition.
    """
    # Asked first without the write lock: opening an old log waits for nobody.
    if not row(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'log_records'"):
        with writing(connection):
            execute(connection, _SCHEMA)
            if not row(connection, "SELECT 1 FROM log_records LIMIT 1"):
                started = codec.encode(NewEvent(None, LogStarted(os.urandom(LOG_ID_BYTES), 1)))
                execute(
                    connection,
                    "INSERT INTO log_records VALUES (0, ?, ?, ?, ?)",
                    (now_ms(), started.key, started.value, packed_headers(started.headers)),
                )
    if bounds(connection).first == 0:
        found = identity(connection, name)
        if found.partitions != 1:
            raise LogIdentityError(
                PARTITION,
                expected=f"{name} to be a log of 1 partition",
                found=f"an identity record of {found.partitions}",
            )


def insert(connection: apsw.Connection, new: Sequence[Row], *, first: int | None = None) -> int:
    """Append rows, at least one, in one statement; return the first one's offset.

    `first` gives the first one's offset, where it is not the greatest one's successor. Outside of a
    transaction the statement is one, which takes the write lock before it reads.
    """
    values = [value for columns in new for value in columns]
    execute(
        connection,
        _insert_sql(len(new), has_offset=first is not None),
        values if first is None else [first, *values],
        can_cache=len(new) <= _CACHED_ROWS,
    )
    return connection.last_insert_rowid() - len(new) + 1


def bounds(connection: apsw.Connection) -> Bounds:
    """Return what of the log is there, as of now."""
    first, last = row(
        connection,
        "SELECT (SELECT min(offset) FROM log_records), (SELECT max(offset) FROM log_records)",
    )
    return Bounds(0, 0) if last is None else Bounds(first, last + 1)


def read(connection: apsw.Connection, start: int, stop: int | None) -> LogBatch:
    """Return a batch of `[start, stop)`, or of all that is there; empty when that is nothing.

    Raises:
        LogTruncatedError: `start` is in front of the first record.
        ValueError: `start` or `stop` is beyond the end.
    """
    limit = (1 << 62) if stop is None else stop
    while True:
        first, last, count, page_last = row(connection, _PAGE, (start, limit))
        first, end = (0, 0) if last is None else (first, last + 1)
        if start < first:
            raise LogTruncatedError(PARTITION, wanted=start, first=first)
        if start > end or (stop is not None and stop > end):
            raise ValueError(f"[{start}, {stop}) reaches beyond the log's end, {end}")
        records = _fetch(connection, start, page_last, count) if count else []
        # Fewer when some were erased, or the front removed, since they were counted.
        if len(records) == count:
            break
    # A gap behind the page is the next call's.
    next_offset = page_last + 1 if records else min(limit, end)
    return LogBatch(PARTITION, start, records, next_offset)


def identity(connection: apsw.Connection, name: str) -> LogIdentity:
    """Read the identity record.

    Raises:
        LogIdentityError: The log does not begin with one.
        LogTruncatedError: The front is gone.
    """
    first = bounds(connection).first
    if first > 0:
        raise LogTruncatedError(PARTITION, wanted=0, first=first)
    expected = f"{name} to begin with an identity record"
    found = _rows(connection, 0, 0)
    if not found:
        raise LogIdentityError(PARTITION, expected=expected, found="no record")
    record = _record(found[0])
    if record.value is None:
        raise LogIdentityError(PARTITION, expected=expected, found="a tombstone")
    try:
        event = codec.decode(record).event
    except CorruptEventError as error:
        raise LogIdentityError(PARTITION, expected=expected, found=error.reason) from error
    if not isinstance(event, LogStarted):
        raise LogIdentityError(PARTITION, expected=expected, found=type(event).__name__)
    return LogIdentity(event.log_id, event.partitions)


@functools.cache
def _insert_sql(count: int, *, has_offset: bool) -> str:
    # NULL is the greatest offset's successor, also after rows of the same statement.
    marks = [f"({'?' if has_offset and not n else 'NULL'},?,?,?,?)" for n in range(count)]
    return (
        "INSERT INTO log_records (offset, timestamp_ms, key, value, headers) "  # noqa: S608
        f"VALUES {','.join(marks)}"
    )


def _fetch(connection: apsw.Connection, start: int, last: int, count: int) -> list[LogRecord]:
    if count <= _ONE_BY_ONE:
        return [_record(stored) for stored in _rows(connection, start, last)]
    text: str | None = row(connection, _ROWS_AS_TEXT, (start, last))
    return [_record_of_text(line) for line in text.split(";")] if text else []


def _rows(connection: apsw.Connection, start: int, last: int) -> list[StoredRow]:
    return rows(connection, _ROWS, (start, last))


def _record_of_text(line: str) -> LogRecord:
    offset, timestamp_ms, key, headers, value = line.split(",")
    return _record(
        (
            int(offset),
            int(timestamp_ms),
            bytes.fromhex(key),
            None if value == "-" else bytes.fromhex(value),
            bytes.fromhex(headers),
        )
    )


def _record(stored: StoredRow) -> LogRecord:
    offset, timestamp_ms, key, value, headers = stored
    parts = _unpack(headers)
    pairs = tuple(zip(parts[::2], parts[1::2], strict=True))
    return LogRecord(PARTITION, offset, timestamp_ms, key, value, pairs)
