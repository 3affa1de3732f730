"""Forgetting records: tombstones in their place, and no bytes left behind in the file.

`secure_delete` overwrites what is deleted with zeros. Old copies of a page may still be in the WAL
until it is truncated, and a tombstone's key names its thread until the tombstone goes too.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

import apsw

from . import records
from .connection import SqliteConnection, writing
from .statement import execute, row

KEYS_AT_ONCE: Final = 250
"""Keys per transaction, so that appends wait for no more than these."""

TOMBSTONE_RETENTION: Final = 86_400.0
"""Seconds after which a tombstone is removed: Kafka's default, so that readers may rely on it."""

INTERVAL: Final = 60.0
"""Seconds between two sweeps, when there are commits to set them off."""

_SWEPT_AT_ONCE: Final = 500


def erase(connection: apsw.Connection, keys: Sequence[bytes]) -> None:
    """Replace the records with these keys by tombstones at the end, in one transaction.

    Raises:
        ValueError: One of them is the identity record's; nothing was erased.
    """
    marks = ",".join("?" * len(keys))
    with writing(connection):
        if row(
            connection,
            f"SELECT 1 FROM log_records WHERE offset = 0 AND key IN ({marks})",  # noqa: S608
            keys,
        ):
            raise ValueError("the identity record cannot be erased")
        # Before the newest record may go: its place must not be given to a tombstone.
        end = records.bounds(connection).end
        execute(connection, f"DELETE FROM log_records WHERE key IN ({marks})", keys)  # noqa: S608
        now = records.now_ms()
        records.insert(
            connection, [(now, key, None, records.NO_HEADERS) for key in keys], first=end
        )


class Sweeper:
    """Removes old tombstones and empties the WAL after an erasure, beside the other writes.

    Best effort: what cannot be done because another process reads or writes is tried again after
    the next interval. Used on the writer's OS thread, but for `hurry`.
    """

    def __init__(self, retention: float) -> None:
        self._retention = retention
        self._next = 0.0
        """When to sweep next, on `time.monotonic`'s clock."""
        self._has_erased = True
        """Whether the WAL may hold erased bytes. An earlier process may have left some."""

    def hurry(self) -> None:
        """Make the next look sweep, and empty the WAL. On any OS thread."""
        self._has_erased = True
        self._next = 0.0

    def look(self, writer: SqliteConnection) -> None:
        """Hand in a sweep if it is time. On any OS thread."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL
            writer.submit(self.sweep, timeout=0.0)

    def sweep(self, connection: apsw.Connection) -> None:
        """Do what is due, as far as it can be done at once."""
        with contextlib.suppress(apsw.BusyError):
            while self._remove_tombstones(connection):
                self._has_erased = True
            if self._has_erased:
                is_busy, _, _ = row(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
                self._has_erased = bool(is_busy)

    def _remove_tombstones(self, connection: apsw.Connection) -> bool:
        # The log's last record stays whatever it is: the next offset is its successor.
        old = records.now_ms() - int(self._retention * 1000)
        execute(
            connection,
            "DELETE FROM log_records WHERE offset IN ("
            "SELECT offset FROM log_records WHERE value IS NULL AND timestamp_ms < ? "
            "AND offset < (SELECT max(offset) FROM log_records) LIMIT ?)",
            (old, _SWEPT_AT_ONCE),
        )
        return connection.changes() == _SWEPT_AT_ONCE
