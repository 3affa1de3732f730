"""What the fold takes, and the state that a batch of it needs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from eventstore.codec import thread_hash
from eventstore.events import (
    CheckpointSaved,
    CheckpointsDeleted,
    Event,
    Extended,
    RecordedEvent,
    ThreadCopied,
    ThreadErased,
    WritesSaved,
)

from .layout import (
    BLOCKS,
    HIDDEN,
    NO_EVENT,
    RECORDS,
    REMOVED,
    ROWS,
    VALUES,
    WRITES,
    checkpoint_field,
    value_field,
    write_member,
)
from .noted import record_field
from .state import State
from .values import tip_field
from .view import Cell, Wanted


class Erased(Struct, frozen=True, gc=False):
    """A tombstone: the record with this key is to be forgotten."""

    offset: int
    thread_id: str | None
    event_id: bytes
    part: int


class Unreadable(Struct, frozen=True, gc=False):
    """A record that is not an event of ours."""

    offset: int
    thread_id: str | None
    reason: str
    packed: bytes
    """The record as `pack_record` made it, kept while the thread is parked."""
    event_id: bytes = NO_EVENT
    part: int = 0


class Readable(Struct, frozen=True, gc=False):
    """An event, with its record's bytes made only when the thread turns out to be parked."""

    recorded: RecordedEvent
    packed: Callable[[], bytes]

    @property
    def offset(self) -> int:
        """Return the event's offset."""
        return self.recorded.offset

    @property
    def thread_id(self) -> str | None:
        """Return the event's thread."""
        return self.recorded.thread_id


Entry: TypeAlias = Readable | Erased | Unreadable

_STRUCTURAL = (CheckpointsDeleted, ThreadCopied)


def independent(entries: Sequence[Entry]) -> int:
    """Return how many entries from the front can be folded on one load of state.

    After a copy, or the removal of checkpoints, what later events of that thread need lies
    elsewhere than what was loaded, so they wait for the next load.
    """
    changed: set[bytes] = set()
    for count, entry in enumerate(entries):
        thread = hash_of(entry)
        if thread is None:
            continue
        if thread in changed:
            return count
        if _is_structural(entry):
            changed.add(thread)
    return len(entries)


def wanted_by(entries: Sequence[Entry]) -> Wanted:
    """Return the state that folding these entries reads."""
    threads: dict[bytes, None] = {}
    live: dict[tuple[bytes, bytes, bytes], None] = {}
    cells: dict[Cell, None] = {}
    for entry in entries:
        thread = hash_of(entry)
        if thread is None:
            continue
        threads[thread] = None
        if isinstance(entry, Erased):
            cells[RECORDS + thread, record_field(entry.event_id, entry.part)] = None
        if not isinstance(entry, Readable):
            continue
        event = entry.recorded.event
        copy_id: bytes | None = getattr(event, "copy_id", None)
        staged = None if copy_id is None or isinstance(event, ThreadCopied) else thread + copy_id
        for letter, name in _needs(event):
            if staged is None:
                live[thread, letter, name] = None
            else:
                cells[letter + staged, name] = None
    return Wanted(list(threads), list(live), list(cells))


def _needs(event: Event) -> list[tuple[bytes, bytes]]:
    match event:
        case CheckpointSaved():
            own = checkpoint_field(event.namespace, event.checkpoint_id)
            needs = [(ROWS, own), (REMOVED, own)]
            if event.parent_event is not None:
                if event.parent_id is not None:
                    needs.append((ROWS, checkpoint_field(event.namespace, event.parent_id)))
                needs.append((HIDDEN, event.parent_event))
            for channel, has in event.channels.items():
                if isinstance(has.value, Extended):
                    needs.append((VALUES, value_field(has.value.offset, channel)))
                    needs.append((BLOCKS, tip_field(event.namespace, channel)))
            return needs
        case WritesSaved():
            return [
                (REMOVED, checkpoint_field(event.namespace, event.checkpoint_id)),
                (
                    WRITES,
                    write_member(event.namespace, event.checkpoint_id, 0, event.task_id),
                ),
            ]
        case CheckpointsDeleted():
            names = [checkpoint_field(*pair) for pair in event.checkpoints]
            return [(letter, name) for name in names for letter in (ROWS, REMOVED)]
        case _:
            return []


def wanted_after(entries: Sequence[Entry], state: State) -> Wanted | None:
    """Return what is missing after the first load: writes on ids that were removed before."""
    cells: dict[Cell, None] = {}
    for entry in entries:
        thread = hash_of(entry)
        if thread is None or not isinstance(entry, Readable):
            continue
        event = entry.recorded.event
        if isinstance(event, WritesSaved):
            scope = state.scope_of(thread, event.copy_id)
            name = checkpoint_field(event.namespace, event.checkpoint_id)
            life, _ = state.removed(scope, name)
            if life:
                member = write_member(event.namespace, event.checkpoint_id, life, event.task_id)
                cells[WRITES + scope, member] = None
    return Wanted([], [], list(cells)) if cells else None


def hash_of(entry: Entry) -> bytes | None:
    """Return the thread that an entry belongs to, None for one of no thread."""
    if isinstance(entry, Readable) and isinstance(entry.recorded.event, ThreadErased):
        return entry.recorded.event.thread_hash
    return None if entry.thread_id is None else thread_hash(entry.thread_id)


def _is_structural(entry: Entry) -> bool:
    return isinstance(entry, Readable) and isinstance(entry.recorded.event, _STRUCTURAL)
