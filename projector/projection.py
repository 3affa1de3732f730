"""The fold: (state that a batch needs, log entries) → changes. Pure, the same for every adapter.

The view at a position is a function of the log below it, so names come from offsets and ids, never
from time or process. What may be missing from the log is allowed for everywhere: a record that was
already tombstoned may be absent, its tombstone too, and the same view results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from eventstore.codec import thread_hash
from eventstore.events import (
    ChannelValue,
    CheckpointsDeleted,
    CheckpointSaved,
    Empty,
    Event,
    Extended,
    Full,
    Inherited,
    RecordedEvent,
    Referenced,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    WritesSaved,
)

from .layout import (
    DEAD,
    HIDDEN,
    IDS,
    NEWEST,
    NO_EVENT,
    POISON,
    RECENT,
    RECORDS,
    REMOVED,
    ROWS,
    RUNS,
    THREADS,
    TIMELINE,
    VALUES,
    VOID_EPOCH,
    WAITING,
    WRITERS,
    WRITES,
    Row,
    ThreadRecord,
    Unresolved,
    ValueRef,
    checkpoint_field,
    epoch_of,
    namespace_prefix,
    newest_member,
    pack_removed,
    pack_value,
    pack_writes,
    record_field,
    run_member,
    timeline_member,
    u64,
    unpack_removed,
    unpack_writes,
    value_field,
    write_member,
)
from .view import Cell, Changes, Wanted

FOLD_VERSION: Final = 1
"""Part of every view's progress; raised whenever the same log would fold to another view."""


@dataclass(frozen=True, slots=True)
class Erased:
    """A tombstone: the record with this key is to be forgotten."""

    offset: int
    thread_id: str | None
    event_id: bytes
    part: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that is not an event of ours."""

    offset: int
    thread_id: str | None
    reason: str
    packed: bytes
    """The record as `pack_record` made it, kept while the thread is parked."""
    event_id: bytes = NO_EVENT
    part: int = 0


@dataclass(frozen=True, slots=True)
class Readable:
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
        thread = _hash_of(entry)
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
        thread = _hash_of(entry)
        if thread is None:
            continue
        threads[thread] = None
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
        if isinstance(entry, Readable) and isinstance(entry.recorded.event, WritesSaved):
            event = entry.recorded.event
            thread = _hash_of(entry)
            assert thread is not None
            scope = state.scope_of(thread, event.copy_id)
            name = checkpoint_field(event.namespace, event.checkpoint_id)
            life, _ = state.removed(scope, name)
            if life:
                member = write_member(event.namespace, event.checkpoint_id, life, event.task_id)
                cells[WRITES + scope, member] = None
    return Wanted([], [], list(cells)) if cells else None


class State:
    """What was loaded, overlaid with what the batch has changed so far."""

    def __init__(
        self, threads: dict[bytes, ThreadRecord], cells: dict[Cell, bytes | None]
    ) -> None:
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
        _remember(recorded.event_id, recorded.part, thread, record.epoch, state)
        return
    if not isinstance(event, CheckpointSaved | WritesSaved | CheckpointsDeleted | ThreadCopied):
        return
    record = _current(recorded, event.incarnation, thread, record, state)
    if event.incarnation < record.incarnation:
        _remember(recorded.event_id, recorded.part, thread, VOID_EPOCH, state)
        return
    match event:
        case CheckpointSaved():
            _checkpoint(recorded, event, thread, record, state)
        case WritesSaved():
            _writes(recorded, event, thread, state)
        case CheckpointsDeleted():
            _checkpoints_deleted(recorded, event, thread, record, state)
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


def _remember(event_id: bytes, part: int, thread: bytes, epoch: bytes, state: State) -> None:
    state.changes.cells[RECORDS + thread, record_field(event_id, part)] = epoch


def _checkpoint(
    recorded: RecordedEvent,
    event: CheckpointSaved,
    thread: bytes,
    record: ThreadRecord,
    state: State,
) -> None:
    epoch = record.epoch if event.copy_id is None else event.copy_id
    scope = thread + epoch
    name = checkpoint_field(event.namespace, event.checkpoint_id)
    before = state.row(ROWS + scope, name)
    life, _ = state.removed(scope, name)
    parent = _parent_of(event, scope, state)
    channels: dict[str, Any] = {}
    for channel, has in event.channels.items():
        ref, stored = _resolve(recorded.offset, channel, has.version, has.value, event, parent)
        channels[channel] = (has.version, ref)
        if stored is not None:
            state.changes.cells[VALUES + scope, value_field(recorded.offset, channel)] = stored
    row = Row(
        recorded.event_id,
        recorded.offset,
        life,
        event.parent_id,
        channels,
        recorded.timestamp_ms,
        event.body,
        event.metadata,
        event.metadata_payloads,
    )
    _show(row, before, event.namespace, event.checkpoint_id, scope, state)
    _remember(recorded.event_id, recorded.part, thread, epoch, state)
    if event.copy_id is None:
        state.set_thread(
            thread,
            replace(
                record,
                count=record.count + (before is None),
                activity_ms=max(record.activity_ms, recorded.timestamp_ms),
            ),
        )


def _parent_of(event: CheckpointSaved, scope: bytes, state: State) -> Row | None:
    """Return the row that `parent_event` names: the present one, or one that was replaced."""
    if event.parent_event is None:
        return None
    if event.parent_id is not None:
        name = checkpoint_field(event.namespace, event.parent_id)
        row = state.row(ROWS + scope, name)
        if row is not None and row.event_id == event.parent_event:
            return row
    return state.row(HIDDEN + scope, event.parent_event)


def _resolve(  # noqa: PLR0913 - one argument per fact
    offset: int,
    channel: str,
    version: Any,
    value: ChannelValue,
    event: CheckpointSaved,
    parent: Row | None,
) -> tuple[ValueRef, bytes | None]:
    """Return where a channel's value lies, and the bytes to store when it lies in this event."""
    match value:
        case Full(payload, digest):
            return offset, pack_value(payload, digest)
        case Empty():
            return None, None
        case Referenced():
            return value.offset, None
        case Extended():
            missing = f"a range of what event {value.event_id.hex()} stored"
            return Unresolved(value.offset, missing), None
        case Inherited():
            inherited = None if parent is None else parent.channels.get(channel)
            if inherited is not None and inherited[0] == version:
                return inherited[1], None
            origin = "none" if event.parent_event is None else event.parent_event.hex()
            return Unresolved(0, f"inherited from event {origin}, which is not in the view"), None


def _show(  # noqa: PLR0913 - one argument per fact
    row: Row, before: Row | None, namespace: str, checkpoint_id: str, scope: bytes, state: State
) -> None:
    """Put a row in its place and into the indexes; what it replaces stays readable by event id."""
    name = checkpoint_field(namespace, checkpoint_id)
    if before is not None:
        state.put(HIDDEN + scope, before.event_id, before.pack())
        _index_run(before, namespace, checkpoint_id, scope, state, is_in=False)
    state.put(ROWS + scope, name, row.pack())
    members = state.changes.members
    members[IDS + scope, namespace_prefix(namespace) + checkpoint_id.encode()] = True
    members[TIMELINE + scope, timeline_member(checkpoint_id, namespace)] = True
    members[NEWEST, newest_member(checkpoint_id, scope, namespace)] = True
    _index_run(row, namespace, checkpoint_id, scope, state, is_in=True)


def _index_run(  # noqa: PLR0913 - one argument per fact
    row: Row, namespace: str, checkpoint_id: str, scope: bytes, state: State, *, is_in: bool
) -> None:
    run_id = row.metadata.get("run_id")
    if isinstance(run_id, str):
        state.changes.members[RUNS, run_member(run_id, scope, namespace, checkpoint_id)] = is_in


def _writes(recorded: RecordedEvent, event: WritesSaved, thread: bytes, state: State) -> None:
    scope = state.scope_of(thread, event.copy_id)
    name = checkpoint_field(event.namespace, event.checkpoint_id)
    life, _ = state.removed(scope, name)
    member = write_member(event.namespace, event.checkpoint_id, life, event.task_id)
    data = state.cell(WRITES + scope, member)
    known = {} if data is None else {item[0]: item for item in unpack_writes(data)}
    for write in event.writes:
        # The first one wins for regular writes, the last one for special writes.
        if write.index < 0 or write.index not in known:
            payload = write.payload
            known[write.index] = (
                write.index,
                event.task_path,
                write.channel,
                payload.type,
                payload.data,
            )
    if known:
        state.put(WRITES + scope, member, pack_writes(list(known.values())))
        state.changes.members[WRITERS + scope, member] = True
    _remember(recorded.event_id, recorded.part, thread, scope[len(thread) :], state)


def _checkpoints_deleted(
    recorded: RecordedEvent,
    event: CheckpointsDeleted,
    thread: bytes,
    record: ThreadRecord,
    state: State,
) -> None:
    scope = state.scope_of(thread, event.copy_id)
    count = record.count
    for namespace, checkpoint_id in event.checkpoints:
        name = checkpoint_field(namespace, checkpoint_id)
        row = state.row(ROWS + scope, name)
        life, last = state.removed(scope, name)
        if row is not None:
            last = row.event_id
            count -= 1
            state.put(HIDDEN + scope, row.event_id, row.pack())
            state.put(ROWS + scope, name, None)
            members = state.changes.members
            members[IDS + scope, namespace_prefix(namespace) + checkpoint_id.encode()] = False
            members[TIMELINE + scope, timeline_member(checkpoint_id, namespace)] = False
            members[NEWEST, newest_member(checkpoint_id, scope, namespace)] = False
            _index_run(row, namespace, checkpoint_id, scope, state, is_in=False)
        state.put(REMOVED + scope, name, pack_removed(life + 1, last))
    _remember(recorded.event_id, recorded.part, thread, scope[len(thread) :], state)
    if event.copy_id is None:
        activity = max(record.activity_ms, recorded.timestamp_ms)
        state.set_thread(thread, replace(record, count=count, activity_ms=activity))


def _deleted(
    recorded: RecordedEvent, thread: bytes, record: ThreadRecord | None, state: State
) -> None:
    _remember(recorded.event_id, recorded.part, thread, VOID_EPOCH, state)
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
        _remember(recorded.event_id, recorded.part, thread, VOID_EPOCH, state)
        return
    state.changes.members[DEAD, thread + record.epoch] = True
    _remember(recorded.event_id, recorded.part, thread, event.copy_id, state)
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
    _remember(entry.event_id, entry.part, thread, record.epoch, state)
    state.put(WAITING + thread, u64(entry.offset), entry.packed)
    if record.parked is None:
        state.set_thread(thread, replace(record, parked=(entry.offset, entry.reason)))


def _hash_of(entry: Entry) -> bytes | None:
    if isinstance(entry, Readable) and isinstance(entry.recorded.event, ThreadErased):
        return entry.recorded.event.thread_hash
    return None if entry.thread_id is None else thread_hash(entry.thread_id)


def _is_structural(entry: Entry) -> bool:
    return isinstance(entry, Readable) and isinstance(entry.recorded.event, _STRUCTURAL)
