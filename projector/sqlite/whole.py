"""Reading without a question: the state that a batch needs, and everything there is."""

from __future__ import annotations

from typing import cast

from projector.chunks import is_live_chunk_scope
from projector.layout import (
    CHUNKS,
    DEAD,
    NEWEST,
    PENDING,
    RUNS,
    SCOPE_LETTERS,
    THREADS,
    ThreadRecord,
    epoch_of,
    split_newest_member,
    split_run_member,
)
from projector.pending import unpack_pending
from projector.view import Loaded, Wanted

from .tables import Snapshot


def load(view: Snapshot | None, *, wanted: Wanted) -> Loaded:
    """Return wanted state; a thread without a record lives in the scope that it would begin in."""
    threads = {} if view is None else view.threads(wanted.threads)
    cells = list(wanted.cells)
    for thread, letter, field in wanted.live:
        record = threads.get(thread)
        epoch = epoch_of(0) if record is None else record.epoch
        cells.append((letter + thread + epoch, field))
    if view is None:
        return Loaded(None, {}, dict.fromkeys(cells))
    return Loaded(view.progress, threads, view.cells(cells))


def dump(view: Snapshot) -> dict[bytes, dict[bytes, bytes]]:
    """Return everything reachable: key → field → value, members with empty values."""
    everything: dict[bytes, dict[bytes, bytes]] = {}
    for statement in (
        "SELECT key, field, value FROM view1_cell WHERE view = ?",
        "SELECT key, member, x'' FROM view1_member WHERE view = ?",
    ):
        for row in view.connection.execute(statement, (view.number,)):
            key, field, value = cast("tuple[bytes, bytes, bytes]", row)
            everything.setdefault(key, {})[field] = value
    threads = everything.get(THREADS, {})
    records = {thread: ThreadRecord.unpack(data) for thread, data in threads.items()}
    live = {thread + record.epoch for thread, record in records.items()}
    everything.pop(DEAD, None)
    pending = everything.pop(PENDING, {})
    entries = {name: unpack_pending(name, data) for name, data in pending.items()}
    kept = {n: pending[n] for n, e in entries.items() if not e.is_past(records.get(e.thread))}
    if kept:
        everything[PENDING] = kept
    for index, scope_of in ((NEWEST, _newest_scope), (RUNS, _run_scope)):
        members = everything.pop(index, {})
        in_live = {member: b"" for member in members if scope_of(member) in live}
        if in_live:
            everything[index] = in_live
    return {
        key: fields
        for key, fields in everything.items()
        if (key[:1] not in SCOPE_LETTERS or key[1:] in live)
        and (key[:1] != CHUNKS or is_live_chunk_scope(key[1:], records.get(key[1:17])))
    }


def _newest_scope(member: bytes) -> bytes:
    return split_newest_member(member)[1]


def _run_scope(member: bytes) -> bytes:
    return split_run_member(member)[0]
