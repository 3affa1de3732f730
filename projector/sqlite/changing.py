"""What changes the view's tables. Each function is one transaction of the writer's connection."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Final

import apsw

from eventstore.sqlite import writing
from eventstore.sqlite.statement import execute, row, rows
from projector.layout import (
    CHUNKS,
    DEAD,
    HASH_BYTES,
    NEWEST,
    ROWS,
    RUNS,
    SCOPE_LETTERS,
    TIMELINE,
    Row,
    ThreadRecord,
    checkpoint_field,
    epoch_of,
    newest_member,
    run_member,
    split_timeline_member,
)
from projector.view import Cell, Changes, Progress

from .tables import END, SCHEMA, Snapshot, chunks, snapshot

BEGIN: Final = """
    INSERT INTO view1 (partition, generation, fold_version, log_id, partitions, next_offset,
        last_event_id)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING RETURNING number
"""

ADVANCE: Final = """
    UPDATE view1 SET next_offset = ?, last_event_id = ?
    WHERE partition = ? AND generation = ? AND fold_version = ? AND next_offset = ?
    RETURNING number
"""

# Statements for many rows: what stands in front of them, each row, what stands behind.
PUT_CELLS: Final = (
    "INSERT INTO view1_cell (view, key, field, value) VALUES ",
    "(?1, ?, ?, ?)",
    " ON CONFLICT DO UPDATE SET value = excluded.value",
)
REMOVE_CELLS: Final = (
    "DELETE FROM view1_cell WHERE view = ?1 AND (key, field) IN (VALUES ",
    "(?, ?)",
    ")",
)
PUT_MEMBERS: Final = (
    "INSERT INTO view1_member (view, key, member) VALUES ",
    "(?1, ?, ?)",
    " ON CONFLICT DO NOTHING",
)
REMOVE_MEMBERS: Final = (
    "DELETE FROM view1_member WHERE view = ?1 AND (key, member) IN (VALUES ",
    "(?, ?)",
    ")",
)

DROP: Final = """
    DELETE FROM view1_cell WHERE view = ? AND key = ?;
    DELETE FROM view1_member WHERE view = ? AND key = ?;
"""

# The next view that has rows: one step in the table's index, however many rows each view has.
NEXT_VIEWS: Final = (
    "SELECT view FROM view1_cell WHERE view > ? ORDER BY view LIMIT 1",
    "SELECT view FROM view1_member WHERE view > ? ORDER BY view LIMIT 1",
)
CLEAR_VIEW: Final = (
    """
    DELETE FROM view1_cell WHERE (view, key, field) IN
        (SELECT view, key, field FROM view1_cell WHERE view = ? LIMIT ?)
    """,
    """
    DELETE FROM view1_member WHERE (view, key, member) IN
        (SELECT view, key, member FROM view1_member WHERE view = ? LIMIT ?)
    """,
)
CLEAR_KEY: Final = (
    """
    DELETE FROM view1_cell WHERE (view, key, field) IN
        (SELECT view, key, field FROM view1_cell WHERE view = ? AND key = ? LIMIT ?)
    """,
    """
    DELETE FROM view1_member WHERE (view, key, member) IN
        (SELECT view, key, member FROM view1_member WHERE view = ? AND key = ? LIMIT ?)
    """,
)


CHUNK_WEIGHT: Final = 32
"""How many other rows a chunk counts for when rows are removed: so much longer does it take."""


@contextlib.contextmanager
def _unsynced(connection: apsw.Connection) -> Generator[None]:
    """Commit without waiting for the disk.

    Log and view share the file's WAL, and a WAL survives a crash up to some frame: what is lost is
    a tail of it. The log's commits wait for the disk, for all frames in front of theirs too. So a
    crash can set the view back behind the log, never in front of it, and it is brought up again.
    """
    execute(connection, "PRAGMA synchronous = NORMAL")
    try:
        with writing(connection):
            yield
    finally:
        execute(connection, "PRAGMA synchronous = FULL")


def create(connection: apsw.Connection) -> None:
    """Create the tables that are missing."""
    with writing(connection):
        execute(connection, SCHEMA)


def begin(connection: apsw.Connection, partition: int, start: Progress) -> bool:
    """Begin a partition's view if it has none; return whether it did."""
    values = (
        partition,
        start.generation,
        start.fold_version,
        start.identity.log_id,
        start.identity.partitions,
        start.next_offset,
        start.last_event_id,
    )
    with _unsynced(connection):
        return bool(rows(connection, BEGIN, values))


def apply(
    connection: apsw.Connection,
    partition: int,
    *,
    expected: Progress,
    changes: Changes,
    reached: Progress,
) -> bool:
    """Apply changes if the progress still is `expected`; return whether it was."""
    values = (
        reached.next_offset,
        reached.last_event_id,
        partition,
        expected.generation,
        expected.fold_version,
        expected.next_offset,
    )
    with _unsynced(connection):
        advanced = rows(connection, ADVANCE, values)
        for (number,) in advanced:
            _change(connection, number, changes)
    return bool(advanced)


def _change(connection: apsw.Connection, number: int, changes: Changes) -> None:
    for key in changes.drops:
        execute(connection, DROP, (number, key) * 2)
    put: list[tuple[bytes, ...]] = []
    removed: list[Cell] = []
    for (key, field), value in changes.cells.items():
        if value is None:
            removed.append((key, field))
        else:
            put.append((key, field, value))
    _execute(connection, REMOVE_CELLS, number, removed)
    _execute(connection, PUT_CELLS, number, put)
    members = changes.members.items()
    _execute(connection, REMOVE_MEMBERS, number, [name for name, is_in in members if not is_in])
    _execute(connection, PUT_MEMBERS, number, [name for name, is_in in members if is_in])


def _execute(
    connection: apsw.Connection,
    statement: tuple[str, str, str],
    number: int,
    items: Sequence[tuple[bytes, ...]],
) -> None:
    """Run a statement over many rows in as few steps as possible (see `tables`)."""
    for start, stop, size in chunks(len(items)):
        values: list[bytes | int] = [number]
        for item in items[start:stop]:
            values.extend(item)
        # A statement's unused places take the last row again: the same change twice is one.
        values.extend(items[stop - 1] * (size - stop + start))
        execute(connection, _filled(statement, size), values)


@lru_cache(maxsize=64)
def _filled(statement: tuple[str, str, str], size: int) -> str:
    head, item, tail = statement
    return head + ",".join([item] * size) + tail


def forget(connection: apsw.Connection, partition: int) -> None:
    """Remove a partition's progress: its rows belong to nobody from then on."""
    with writing(connection):
        execute(connection, "DELETE FROM view1 WHERE partition = ?", (partition,))


def clear(connection: apsw.Connection, *, limit: int) -> bool:
    """Remove up to `limit` rows of discarded views; return whether there are more."""
    with _unsynced(connection):
        return _clear_views(connection, limit) >= limit


def sweep(connection: apsw.Connection, partition: int, *, limit: int) -> bool:
    """Remove up to about `limit` unreachable rows; return whether there are more."""
    with _unsynced(connection):
        left = limit - _clear_views(connection, limit)
        view = snapshot(connection, partition)
        while left > 0 and view is not None:
            dead = view.page((DEAD, b"", END), limit=1, newest_first=False)
            if not dead:
                return False
            left -= _sweep_scope(view, dead[0], left)
        # With nothing left to spend there may be more; the next call finds out.
        return left <= 0


def _clear_views(connection: apsw.Connection, limit: int) -> int:
    removed = 0
    for next_view, clear_view in zip(NEXT_VIEWS, CLEAR_VIEW, strict=True):
        number = 0
        while removed < limit and (found := row(connection, next_view, (number,))) is not None:
            number = found
            if row(connection, "SELECT 1 FROM view1 WHERE number = ?", (number,)) is None:
                execute(connection, clear_view, (number, limit - removed))
                removed += connection.changes()
    return removed


def _sweep_scope(view: Snapshot, scope: bytes, limit: int) -> int:
    """Remove up to about `limit` rows of a dead scope, its mark at last; return how many."""
    thread = view.threads([scope[:HASH_BYTES]]).get(scope[:HASH_BYTES])
    if thread is not None and scope[HASH_BYTES:] == thread.epoch:
        # No fold marks the scope that a thread lives in; whoever did, the thread keeps it.
        _execute(view.connection, REMOVE_MEMBERS, view.number, [(DEAD, scope)])
        return 1
    removed = _unindex(view, scope, limit)
    for letter in SCOPE_LETTERS:
        for clear_key in CLEAR_KEY:
            if removed < limit:
                values = (view.number, letter + scope, limit - removed)
                execute(view.connection, clear_key, values)
                removed += view.connection.changes()
    if removed < limit and not _needs_chunks(thread, scope):
        some = (limit - removed) // CHUNK_WEIGHT + 1
        execute(view.connection, CLEAR_KEY[0], (view.number, CHUNKS + scope, some))
        removed += view.connection.changes() * CHUNK_WEIGHT
    if removed < limit:
        _execute(view.connection, REMOVE_MEMBERS, view.number, [(DEAD, scope)])
        removed += 1
    return removed


def _needs_chunks(thread: ThreadRecord | None, scope: bytes) -> bool:
    """Tell whether a thread still refers to chunks of a scope: a copy has another one for them."""
    return thread is not None and scope[HASH_BYTES:] == epoch_of(thread.incarnation)


def _unindex(view: Snapshot, scope: bytes, limit: int) -> int:
    """Remove a dead scope's checkpoints from the indexes of the partition; return how many rows.

    The scope's own timeline finds them, so its members go together with what they lead to.
    """
    members = view.page((TIMELINE + scope, b"", END), limit=limit // 4 + 1, newest_first=False)
    names = [(split_timeline_member(member), member) for member in members]
    cells = view.cells([(ROWS + scope, checkpoint_field(ns, cid)) for (cid, ns), _ in names])
    gone: list[tuple[bytes, bytes]] = []
    for (checkpoint_id, namespace), member in names:
        gone.extend(
            ((NEWEST, newest_member(checkpoint_id, scope, namespace)), (TIMELINE + scope, member))
        )
        data = cells[ROWS + scope, checkpoint_field(namespace, checkpoint_id)]
        run_id = None if data is None else Row.unpack(data).metadata.get("run_id")
        if isinstance(run_id, str):
            gone.append((RUNS, run_member(run_id, scope, namespace, checkpoint_id)))
    _execute(view.connection, REMOVE_MEMBERS, view.number, gone)
    _execute(view.connection, REMOVE_CELLS, view.number, list(cells))
    return len(gone) + len(cells)
