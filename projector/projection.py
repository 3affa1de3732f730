"""The fold: (state that a batch needs, log entries) → changes. Pure, the same for every adapter.

The view at a position is a function of the log below it, so names come from offsets and ids, never
from time or process. What may be missing from the log is allowed for everywhere: a record that was
already tombstoned may be absent, its tombstone too, and the same view results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from eventstore.codec import thread_hash
from eventstore.events import (
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkSaved,
    RecordedEvent,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    WritesSaved,
    is_void,
)

from .batch import Entry, Erased, Readable, Unreadable, independent, wanted_after, wanted_by
from .checkpoints import checkpoint_saved, checkpoints_deleted, writes_saved
from .chunks import chunk_scope, forget, hold, settle
from .layout import (
    DEAD,
    NO_EVENT,
    POISON,
    RECORDS,
    WAITING,
    ThreadRecord,
    epoch_of,
    is_copy,
    placed_epoch,
    u64,
)
from .noted import pack_noted, record_field, unpack_noted
from .state import State
from .view import Changes

__all__ = [
    "FOLD_VERSION",
    "Entry",
    "Erased",
    "Readable",
    "State",
    "Unreadable",
    "fold",
    "independent",
    "wanted_after",
    "wanted_by",
]

Append = CheckpointSaved | WritesSaved | CheckpointsDeleted | ThreadCopied
"""What continues an incarnation of a thread, and is void in a later one."""

FOLD_VERSION: Final = 2
"""Part of every view's progress; raised whenever the same log would fold to another view."""


def fold(entries: Sequence[Entry], state: State) -> Changes:
    """Fold entries onto the state; they must be `independent`, and the state loaded for them.

    An event from the future is no entry: the caller ends the batch in front of it.
    """
    for entry in entries:
        if isinstance(entry, Readable):
            _fold_event(entry, state)
        elif isinstance(entry, Erased):
            _fold_tombstone(entry, state)
        else:
            _fold_unreadable(entry, state)
    return state.finish()


def _fold_event(entry: Readable, state: State) -> None:
    recorded = entry.recorded
    event, thread_id = recorded.event, recorded.thread_id
    if isinstance(event, ThreadErased):
        _erased(event, state)
    elif thread_id is not None:
        if isinstance(event, ThreadDeleted):
            _deleted(recorded, thread_id, state)
        elif isinstance(event, ChunkSaved):
            _fold_transient(entry, event, thread_id, state)
        elif isinstance(event, CheckpointSaved | WritesSaved) and event.chunked_at is not None:
            if is_void(event, recorded.timestamp_ms):
                _fold_transient(entry, event, thread_id, state)
            else:
                settle(event, state)
                _fold_append(entry, event, thread_id, state)
        elif isinstance(event, Append):
            _fold_append(entry, event, thread_id, state)


def _fold_transient(
    entry: Readable,
    event: ChunkSaved | CheckpointSaved | WritesSaved,
    thread_id: str,
    state: State,
) -> None:
    """Fold a chunk or a void manifest, which may be erased from a thread that lives on.

    So it leaves nothing that its tombstone does not remove: no record of a thread that has none.
    """
    recorded = entry.recorded
    thread = thread_hash(thread_id)
    record = state.thread(thread)
    if event.incarnation > (0 if record is None else record.incarnation):
        record = _begin(thread, event.incarnation, thread_id, state)
    _remember(thread, recorded, epoch_of(event.incarnation), state)
    if record is not None and record.parked is not None:
        state.put(WAITING + thread, u64(recorded.offset), entry.packed())
    elif record is None or event.incarnation == record.incarnation:
        hold(recorded, event, thread, state)


def _fold_append(entry: Readable, event: Append, thread_id: str, state: State) -> None:
    recorded = entry.recorded
    thread = thread_hash(thread_id)
    record = _current(thread_id, event.incarnation, state)
    epoch = epoch_of(event.incarnation) if event.copy_id is None else event.copy_id
    _remember(thread, recorded, epoch, state)
    if record.parked is not None:
        state.put(WAITING + thread, u64(recorded.offset), entry.packed())
        return
    if event.incarnation < record.incarnation:
        if event.copy_id is not None:
            state.changes.members[DEAD, thread + event.copy_id] = True
        return
    if isinstance(event, CheckpointSaved):
        checkpoint_saved(recorded, event, thread, record, state)
    elif isinstance(event, WritesSaved):
        writes_saved(event, thread, state)
    elif isinstance(event, CheckpointsDeleted):
        checkpoints_deleted(recorded, event, thread, record, state)
    else:
        _copied(recorded, event, thread, record, state)


def _current(thread_id: str, incarnation: int, state: State) -> ThreadRecord:
    """Return the record of the thread that an event belongs to, made or moved on as needed."""
    thread = thread_hash(thread_id)
    record = state.thread(thread)
    if record is None or incarnation > record.incarnation:
        # Where an incarnation is met that no deletion began, the deletion is gone from the log,
        # erased together with what it deleted.
        return _begin(thread, incarnation, thread_id, state)
    if record.thread_id is None and incarnation == record.incarnation:
        record = replace(record, thread_id=thread_id)
        state.set_thread(thread, record)
    return record


def _begin(thread: bytes, incarnation: int, thread_id: str | None, state: State) -> ThreadRecord:
    """Begin an incarnation; what the one before it held becomes unreachable."""
    before = state.thread(thread)
    record = ThreadRecord(epoch_of(incarnation), incarnation, thread_id, 0, 0)
    if incarnation:
        # Chunks may be there before there is a record, and stay where they are behind a copy.
        chunks = chunk_scope(thread, 0 if before is None else before.incarnation)
        state.changes.members[DEAD, chunks] = True
    if before is not None:
        state.changes.members[DEAD, thread + before.epoch] = True
        if before.parked is not None:
            record = _still_parked(thread, before, record, state)
    state.begin_scope(thread, record)
    return record


def _still_parked(
    thread: bytes, before: ThreadRecord, record: ThreadRecord, state: State
) -> ThreadRecord:
    """Clear what the deletion cleared; a record behind it that cannot be read parks on.

    A deletion that is in the log stands behind all that was folded. One that is gone is noticed
    late, when records behind it have been folded already.
    """
    if before.parked is None or before.parked_last < record.incarnation:
        state.drop(WAITING + thread)
        return record
    offset, reason = before.parked
    if offset < record.incarnation:
        # What was parked on both sides waits in one map; its front stays there until the next
        # deletion, and nobody looks at it.
        offset = before.parked_last
    return replace(
        record,
        thread_id=record.thread_id or before.thread_id,
        parked=(offset, reason),
        parked_last=before.parked_last,
    )


def _deleted(recorded: RecordedEvent, thread_id: str, state: State) -> None:
    thread = thread_hash(thread_id)
    _remember(thread, recorded, placed_epoch(recorded.offset), state)
    record = state.thread(thread)
    if record is None or recorded.offset > record.incarnation:
        _begin(thread, recorded.offset, thread_id, state)


def _copied(
    recorded: RecordedEvent,
    event: ThreadCopied,
    thread: bytes,
    record: ThreadRecord,
    state: State,
) -> None:
    if record.count:
        # A put won the race for the target: the copy is void, and its scope unreachable for ever.
        state.changes.members[DEAD, thread + event.copy_id] = True
        return
    state.changes.members[DEAD, thread + record.epoch] = True
    copied = replace(
        record,
        epoch=event.copy_id,
        count=event.checkpoints,
        activity_ms=recorded.timestamp_ms,
    )
    state.set_thread(thread, copied)


def _erased(event: ThreadErased, state: State) -> None:
    thread = event.thread_hash
    record = state.thread(thread)
    if record is None or event.incarnation > record.incarnation:
        record = _begin(thread, event.incarnation, None, state)
    if event.incarnation == record.incarnation and not record.count and record.parked is None:
        state.set_thread(thread, replace(record, thread_id=None))


def _fold_tombstone(entry: Erased, state: State) -> None:
    if entry.thread_id is None:
        return
    thread = thread_hash(entry.thread_id)
    key, field = RECORDS + thread, record_field(entry.event_id, entry.part)
    note, record = state.cell(key, field), state.thread(thread)
    if note is None:
        return
    state.put(key, field, None)
    noted = unpack_noted(field, note)
    forget(thread, noted.epoch, noted.offset, state)
    if record is None:
        return
    if is_copy(noted.epoch) and noted.epoch != record.epoch:
        # A copy that never became visible is erased; its scope may be swept.
        state.changes.members[DEAD, thread + noted.epoch] = True
    if record.parked is not None:
        # A void event may wait too. Erased, it waits no more.
        state.put(WAITING + thread, u64(noted.offset), None)


def _fold_unreadable(entry: Unreadable, state: State) -> None:
    if entry.thread_id is None:
        state.changes.cells[POISON, u64(entry.offset)] = entry.reason.encode()
        return
    thread = thread_hash(entry.thread_id)
    record = state.thread(thread) or _begin(thread, 0, entry.thread_id, state)
    if entry.event_id != NO_EVENT:
        _remember(thread, entry, placed_epoch(entry.offset), state)
    state.put(WAITING + thread, u64(entry.offset), entry.packed)
    parked = record.parked or (entry.offset, entry.reason)
    state.set_thread(
        thread,
        replace(record, thread_id=entry.thread_id, parked=parked, parked_last=entry.offset),
    )


def _remember(
    thread: bytes, record: RecordedEvent | Unreadable, epoch: bytes, state: State
) -> None:
    """Note that the log holds a record of a thread."""
    field = record_field(record.event_id, record.part)
    state.put(RECORDS + thread, field, pack_noted(epoch, record.offset))
