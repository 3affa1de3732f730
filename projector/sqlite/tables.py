"""The view's tables and what is read from them. Maps and sorted sets as `layout` names them.

Every step of a statement gives Python's global lock away, and a busy event loop hands it back up to
5 ms later. So many cells are one row of scalar subqueries, and many members one aggregated text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import apsw

from eventstore.log import LogIdentity
from eventstore.sqlite.statement import execute, row
from projector.layout import THREADS, ThreadRecord
from projector.view import Cell, Progress

# The number in the tables' names is the version of this schema: a later one begins beside it.
SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS view1 (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        partition INTEGER NOT NULL UNIQUE,
        generation BLOB NOT NULL,
        fold_version INTEGER NOT NULL,
        log_id BLOB NOT NULL,
        partitions INTEGER NOT NULL,
        next_offset INTEGER NOT NULL,
        last_event_id BLOB NOT NULL
    );
    CREATE TABLE IF NOT EXISTS view1_cell (
        view INTEGER NOT NULL,
        key BLOB NOT NULL,
        field BLOB NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (view, key, field)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS view1_member (
        view INTEGER NOT NULL,
        key BLOB NOT NULL,
        member BLOB NOT NULL,
        PRIMARY KEY (view, key, member)
    ) WITHOUT ROWID;
"""
"""`view1`: each partition's progress; its number, never used again, names a generation's rows."""

Range: TypeAlias = tuple[bytes, bytes, bytes]
"""(sorted set key, first member, member in front of which the range ends)."""

END: Final = b"\xff" * 64
"""Greater than every member."""

# Few sizes, so that the statements stay in apsw's cache; unused places are filled with NULL.
SIZES: Final = (1, 4, 16, 64, 128)

_CELL: Final = "(SELECT value FROM view1_cell WHERE view = ?1 AND key = ? AND field = ?)"
_LAST: Final = (
    "(SELECT member FROM view1_member WHERE view = ?1 AND key = ? AND member >= ? AND member < ?"
    " ORDER BY member DESC LIMIT 1)"
)
_ALL: Final = (
    "(SELECT group_concat(hex(member)) FROM view1_member"
    " WHERE view = ?1 AND key = ? AND member >= ? AND member < ?)"
)
_FIRST_PAGE: Final = (
    "SELECT group_concat(hex(member)) FROM (SELECT member FROM view1_member"
    " WHERE view = ? AND key = ? AND member >= ? AND member < ? ORDER BY member LIMIT ?)"
)
_LAST_PAGE: Final = (
    "SELECT group_concat(hex(member)) FROM (SELECT member FROM view1_member"
    " WHERE view = ? AND key = ? AND member >= ? AND member < ? ORDER BY member DESC LIMIT ?)"
)
_PROGRESS: Final = """
    SELECT number, generation, fold_version, log_id, partitions, next_offset, last_event_id
    FROM view1 WHERE partition = ?
"""


class BrokenIndexError(Exception):
    """An index names something that is not there. `SqliteView` says of which view."""


def prefixed(key: bytes, prefix: bytes) -> Range:
    """Return the range of all members that begin with `prefix`."""
    kept = prefix.rstrip(b"\xff")
    return key, prefix, kept[:-1] + bytes([kept[-1] + 1]) if kept else END


def chunks(count: int) -> Iterator[tuple[int, int, int]]:
    """Cut `count` items into (start, stop, size of the statement that takes them)."""
    start = 0
    while start < count:
        left = count - start
        size = next((size for size in SIZES if size >= left), SIZES[-1])
        yield start, min(start + size, count), size
        start += size


@lru_cache(maxsize=64)
def _columns(expression: str, size: int) -> str:
    return "SELECT " + ",".join([expression] * size)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent state of one partition's view, as long as its transaction lasts."""

    connection: apsw.Connection
    partition: int
    number: int
    progress: Progress

    def cells(self, wanted: Sequence[Cell]) -> dict[Cell, bytes | None]:
        """Return each wanted cell, None where there is nothing."""
        distinct = list(dict.fromkeys(wanted))
        return dict(zip(distinct, self._select(_CELL, distinct), strict=True))

    def cell(self, key: bytes, field: bytes) -> bytes | None:
        """Return one cell."""
        data: bytes | None = self._select(_CELL, [(key, field)])[0]
        return data

    def last_members(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Return the greatest member of each range."""
        return self._select(_LAST, ranges)

    def members(self, ranges: Sequence[Range]) -> list[list[bytes]]:
        """Return all members of each range, in order."""
        return [_members_of(text) for text in self._select(_ALL, ranges)]

    def page(self, wanted: Range, *, limit: int, newest_first: bool) -> list[bytes]:
        """Return up to `limit` members of a range from one of its ends."""
        page = _LAST_PAGE if newest_first else _FIRST_PAGE
        found = _members_of(row(self.connection, page, (self.number, *wanted, limit)))
        return found[::-1] if newest_first else found

    def threads(self, hashes: Sequence[bytes]) -> dict[bytes, ThreadRecord]:
        """Return the records of those threads that have one."""
        found = self.cells([(THREADS, thread) for thread in hashes])
        return {
            thread: ThreadRecord.unpack(data)
            for (_, thread), data in found.items()
            if data is not None
        }

    def _select(self, expression: str, wanted: Sequence[tuple[bytes, ...]]) -> list[Any]:
        found: list[Any] = []
        for start, stop, size in chunks(len(wanted)):
            values: list[bytes | int | None] = [self.number]
            for item in wanted[start:stop]:
                values.extend(item)
            values.extend([None] * (len(wanted[start]) * (size - stop + start)))
            columns = row(self.connection, _columns(expression, size), values)
            # A row of a single column comes without its tuple.
            found.extend((columns,) if size == 1 else columns[: stop - start])
        return found


def snapshot(connection: apsw.Connection, partition: int) -> Snapshot | None:
    """Return the state that the transaction under way sees, None without a view."""
    found = row(connection, _PROGRESS, (partition,))
    if found is None:
        return None
    number, generation, fold_version, log_id, partitions, next_offset, last_event_id = found
    progress = Progress(
        generation, fold_version, LogIdentity(log_id, partitions), next_offset, last_event_id
    )
    return Snapshot(connection, partition, number, progress)


@contextlib.contextmanager
def reading(connection: apsw.Connection, partition: int) -> Generator[Snapshot | None]:
    """Hold one consistent state of the file; None without a view of the partition."""
    execute(connection, "BEGIN")
    try:
        yield snapshot(connection, partition)
    finally:
        # After some errors SQLite has ended the transaction by itself.
        if connection.in_transaction:
            execute(connection, "ROLLBACK")


def _members_of(text: str | None) -> list[bytes]:
    return sorted(map(bytes.fromhex, text.split(","))) if text else []
