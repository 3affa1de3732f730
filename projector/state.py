"""The state of a view while a batch is folded onto it. Pure."""

from __future__ import annotations

from .layout import (
    NO_EVENT,
    RECENT,
    REMOVED,
    THREADS,
    Row,
    ThreadRecord,
    epoch_of,
    u64,
    unpack_removed,
)
from .view import Cell, Changes


class State:
    """What was loaded, overlaid with what the batch has changed so far."""

    def __init__(self, threads: dict[bytes, ThreadRecord], cells: dict[Cell, bytes | None]) -> None:
        self._loaded = threads
        self._touched: dict[bytes, ThreadRecord] = {}
        self._cells = cells
        # Scopes that came into being in this batch: nothing lies in them but what it put there.
        self._fresh: set[bytes] = set()
        self.changes = Changes()

    def add(self, cells: dict[Cell, bytes | None]) -> None:
        """Add what a second load brought."""
        self._cells.update(cells)

    def thread(self, thread: bytes) -> ThreadRecord | None:
        """Return a thread's record as it is after the entries folded so far."""
        return self._touched.get(thread) or self._loaded.get(thread)

    def set_thread(self, thread: bytes, record: ThreadRecord) -> None:
        """Change a thread's record."""
        self._touched[thread] = record

    def begin_scope(self, thread: bytes, record: ThreadRecord) -> None:
        """Let a thread go on in a scope in which nothing lies yet."""
        self._fresh.add(thread + record.epoch)
        self._touched[thread] = record

    def scope_of(self, thread: bytes, copy_id: bytes | None) -> bytes:
        """Return the scope that an event of a thread belongs to."""
        if copy_id is not None:
            return thread + copy_id
        record = self.thread(thread)
        return thread + (epoch_of(0) if record is None else record.epoch)

    def cell(self, key: bytes, name: bytes) -> bytes | None:
        """Return a cell. It is an error of the fold to read one that was not asked for."""
        try:
            return self._cells[key, name]
        except KeyError:
            if key[1:] in self._fresh:
                return None
            raise

    def put(self, key: bytes, name: bytes, value: bytes | None) -> None:
        """Change a cell."""
        self._cells[key, name] = value
        self.changes.cells[key, name] = value

    def drop(self, key: bytes) -> None:
        """Drop a whole map, with what this batch put there."""
        for cell in [cell for cell in self.changes.cells if cell[0] == key]:
            del self.changes.cells[cell]
        self.changes.drops.append(key)

    def row(self, key: bytes, name: bytes) -> Row | None:
        """Return a row."""
        data = self.cell(key, name)
        return None if data is None else Row.unpack(data)

    def removed(self, scope: bytes, name: bytes) -> tuple[int, bytes]:
        """Return (life, last removed row's event id) of a checkpoint's field."""
        data = self.cell(REMOVED + scope, name)
        return (0, NO_EVENT) if data is None else unpack_removed(data)

    def finish(self) -> Changes:
        """Return the changes, with the threads' records and their order by activity."""
        cells, members = self.changes.cells, self.changes.members
        for thread, record in self._touched.items():
            before = self._loaded.get(thread)
            cells[THREADS, thread] = record.pack()
            if before is not None and before.count:
                members[RECENT, u64(before.activity_ms) + thread] = False
            if record.count:
                members[RECENT, u64(record.activity_ms) + thread] = True
        return self.changes
