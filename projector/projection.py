"""The fold: (state that a batch needs, log entries) → changes. Pure, the same for every adapter.

The view at a position is a function of the log below it, so names come from offsets and ids, never
from time or process. What may be missing from the log is allowed for everywhere: a record that was
already tombstoned may be absent, its tombstone too, and the same view results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from eventstore.codec import thread_hash
from eventstore.events import (
    CheckpointSaved,
    CheckpointsDeleted,
    RecordedEvent,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    WritesSaved,
)

from .batch import Entry, Erased, Readable, Unreadable, independent, wanted_after, wanted_by
from .checkpoints import checkpoint_saved, checkpoints_deleted, remember, writes_saved
from .layout import (
    DEAD,
    POISON,
    RECORDS,
    VOID_EPOCH,
    WAITING,
    ThreadRecord,
    epoch_of,
    record_field,
    u64,
)
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

FOLD_VERSION: Final = 1
"""Part of every view's progress; raised whenever the same log would fold to another view."""


def fold(entries: Sequence[Entry], state: State) -> Changes:
    """Fold entries onto the state; they must be `independent`, and the state loaded for them.

    An event from the future is no entry: the caller ends the batch in front of it.
    """
    for entry in entries:
        match entry:
            case Readable():
                _fold_event(entry, state)
            case Erased():
                _fold_tombstone(entry, state)
            case Unreadable():
                _fold_unreadable(entry, state)
    return state.finish()


def _fold_event(entry: Readable, state: State) -> None:
    recorded = entry.recorded
    event = recorded.event
    if isinstance(event, ThreadErased):
        _erased(event, state)
        return
    if recorded.thread_id is None:
        return
    thread = thread_hash(recorded.thread_id)
    record = state.thread(thread)
    if isinstance(event, ThreadDeleted):
        _deleted(recorded, thread, record, state)
        return
    if record is not None and record.parked is not None:
        state.put(WAITING + thread, u64(recorded.offset), entry.packed())
        remember(recorded.event_id, recorded.part, thread, record.epoch, state)
        return
    if isinstance(event, CheckpointSaved | WritesSaved | CheckpointsDeleted | ThreadCopied):
        _fold_append(recorded, event, thread, record, state)


def _fold_append(
    recorded: RecordedEvent,
    event: CheckpointSaved | WritesSaved | CheckpointsDeleted | ThreadCopied,
    thread: bytes,
    record: ThreadRecord | None,
    state: State,
) -> None:
    record = _current(recorded, event.incarnation, thread, record, state)
    if event.incarnation < record.incarnation:
        remember(recorded.event_id, recorded.part, thread, VOID_EPOCH, state)
        return
    match event:
        case CheckpointSaved():
            checkpoint_saved(recorded, event, thread, record, state)
        case WritesSaved():
            writes_saved(recorded, event, thread, state)
        case CheckpointsDeleted():
            checkpoints_deleted(recorded, event, thread, record, state)
        case ThreadCopied():
            _copied(recorded, event, thread, record, state)


def _current(
    recorded: RecordedEvent,
    incarnation: int,
    thread: bytes,
    record: ThreadRecord | None,
    state: State,
) -> ThreadRecord:
    """Return the record of the thread that an event belongs to, made or moved on as needed."""
    if record is None or incarnation > record.incarnation:
        # Where an incarnation is met that no deletion began, the deletion is gone from the log,
        # erased together with what it deleted.
        return _begin(thread, record, incarnation, recorded.thread_id, state)
    if record.thread_id is None and incarnation == record.incarnation:
        record = replace(record, thread_id=recorded.thread_id)
        state.set_thread(thread, record)
    return record


def _begin(
    thread: bytes,
    before: ThreadRecord | None,
    incarnation: int,
    thread_id: str | None,
    state: State,
) -> ThreadRecord:
    """Begin an incarnation; what the one before it held becomes unreachable."""
    record = ThreadRecord(epoch_of(incarnation), incarnation, thread_id, 0, 0)
    if before is not None:
        state.changes.members[DEAD, thread + before.epoch] = True
        if before.parked is not None:
            state.drop(WAITING + thread)
    state.begin_scope(thread, record)
    return record


def _deleted(
    recorded: RecordedEvent, thread: bytes, record: ThreadRecord | None, state: State
) -> None:
    remember(recorded.event_id, recorded.part, thread, VOID_EPOCH, state)
    if record is None or recorded.offset > record.incarnation:
        _begin(thread, record, recorded.offset, recorded.thread_id, state)


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
        remember(recorded.event_id, recorded.part, thread, VOID_EPOCH, state)
        return
    state.changes.members[DEAD, thread + record.epoch] = True
    remember(recorded.event_id, recorded.part, thread, event.copy_id, state)
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
        _begin(thread, record, event.incarnation, None, state)
    elif event.incarnation == record.incarnation and not record.count:
        state.set_thread(thread, replace(record, thread_id=None))


def _fold_tombstone(entry: Erased, state: State) -> None:
    if entry.thread_id is not None:
        thread = thread_hash(entry.thread_id)
        state.changes.cells[RECORDS + thread, record_field(entry.event_id, entry.part)] = None


def _fold_unreadable(entry: Unreadable, state: State) -> None:
    if entry.thread_id is None:
        state.changes.cells[POISON, u64(entry.offset)] = entry.reason.encode()
        return
    thread = thread_hash(entry.thread_id)
    record = state.thread(thread)
    if record is None:
        record = _begin(thread, None, 0, entry.thread_id, state)
    remember(entry.event_id, entry.part, thread, record.epoch, state)
    state.put(WAITING + thread, u64(entry.offset), entry.packed)
    if record.parked is None:
        state.set_thread(thread, replace(record, parked=(entry.offset, entry.reason)))
