"""The fold of what a thread holds: checkpoints, their writes, and their removal. Pure.

Each function folds one event into the scope that it belongs to.
"""

from __future__ import annotations

from msgspec.structs import replace

from eventstore.events import (
    ChannelState,
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkedPayload,
    Empty,
    Extended,
    Full,
    RecordedEvent,
    Referenced,
    Version,
    WritesSaved,
)

from .chunks import version_of
from .layout import (
    BLOCKS,
    HIDDEN,
    IDS,
    NEWEST,
    REMOVED,
    ROWS,
    RUNS,
    TIMELINE,
    VALUES,
    WRITERS,
    WRITES,
    Row,
    ThreadRecord,
    Unresolved,
    ValueRef,
    checkpoint_field,
    namespace_prefix,
    newest_member,
    pack_removed,
    pack_writes,
    run_member,
    timeline_member,
    unpack_writes,
    value_field,
    write_member,
)
from .payloads import packed_data
from .state import State
from .values import (
    Buffer,
    MissingRangeError,
    StoredVersion,
    block_field,
    extended,
    pack_value,
    tip_field,
)


def checkpoint_saved(
    recorded: RecordedEvent,
    event: CheckpointSaved,
    thread: bytes,
    record: ThreadRecord,
    state: State,
) -> None:
    """A checkpoint was saved, or saved again: the last one of an id is the one that shows."""
    epoch = record.epoch if event.copy_id is None else event.copy_id
    scope = thread + epoch
    name = checkpoint_field(event.namespace, event.checkpoint_id)
    before = state.cell(ROWS + scope, name)
    life, _ = state.removed(scope, name)
    parent = _parent_of(event, scope, state)
    channels: dict[str, tuple[Version, ValueRef]] = {}
    ref: ValueRef
    for channel, has in event.channels.items():
        value = has.value
        if isinstance(value, Full):
            ref = recorded.offset
            stored = pack_value(value.payload, value.digest)
            state.put(VALUES + scope, value_field(ref, channel), stored)
        elif isinstance(value, ChunkedPayload):
            ref = recorded.offset
            stored = version_of(value, event.namespace).pack()
            state.put(VALUES + scope, value_field(ref, channel), stored)
        elif isinstance(value, Extended):
            ref = _extend((event.namespace, channel), recorded.offset, value, scope, state)
        else:
            ref = _resolve(channel, has, event, parent)
        channels[channel] = (has.version, ref)
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
    _show(row, before, event, scope, state)
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


def _resolve(
    channel: str, has: ChannelState, event: CheckpointSaved, parent: Row | None
) -> ValueRef:
    """Return where the value lies that another event has stored, None where there is none."""
    if isinstance(has.value, Empty):
        return None
    if isinstance(has.value, Referenced):
        return has.value.offset
    return _inherited(channel, has.version, event, parent)


def _extend(
    place: tuple[str, str], offset: int, value: Extended, scope: bytes, state: State
) -> ValueRef:
    """Store a value that extends another one of the same namespace and channel.

    Return where it lies now.
    """
    namespace, channel = place
    base = state.cell(VALUES + scope, value_field(value.offset, channel))
    if base is None:
        return Unresolved(value.offset, f"the value that event {_name_of(value)} stored")
    blocks, tip = BLOCKS + scope, tip_field(namespace, channel)
    buffer = Buffer.unpack(state.cell(blocks, tip))
    try:
        version = extended(
            StoredVersion.unpack(base),
            value.offset,
            own=StoredVersion(value.type, value.digest, value.head, namespace),
            span=(value.start, value.stop),
            tail=value.tail,
            buffer=buffer,
        )
    except MissingRangeError as error:
        return Unresolved(value.offset, f"{error}, of event {_name_of(value)}")
    state.put(VALUES + scope, value_field(offset, channel), version.pack())
    for number, block in buffer.full.items():
        state.put(blocks, block_field(namespace, channel, number), block)
    state.put(blocks, tip, buffer.pack())
    return offset


def _name_of(value: Extended) -> str:
    return f"at offset {value.offset}" if value.event_id is None else value.event_id.hex()


def _inherited(
    channel: str, version: Version, event: CheckpointSaved, parent: Row | None
) -> ValueRef:
    inherited = None if parent is None else parent.channels.get(channel)
    if inherited is not None and inherited[0] == version:
        return inherited[1]
    origin = "none" if event.parent_event is None else event.parent_event.hex()
    return Unresolved(0, f"inherited from event {origin}, which is not in the view")


def _show(
    row: Row, before: bytes | None, event: CheckpointSaved, scope: bytes, state: State
) -> None:
    """Put a row in its place and into the indexes; what it replaces stays readable by event id."""
    namespace, checkpoint_id = event.namespace, event.checkpoint_id
    name = checkpoint_field(namespace, checkpoint_id)
    if before is not None:
        replaced = Row.unpack(before)
        state.put(HIDDEN + scope, replaced.event_id, before)
        _index_run(replaced, namespace, checkpoint_id, scope, state, is_in=False)
    state.put(ROWS + scope, name, row.pack())
    members = state.changes.members
    members[IDS + scope, namespace_prefix(namespace) + checkpoint_id.encode()] = True
    members[TIMELINE + scope, timeline_member(checkpoint_id, namespace)] = True
    members[NEWEST, newest_member(checkpoint_id, scope, namespace)] = True
    _index_run(row, namespace, checkpoint_id, scope, state, is_in=True)


def _index_run(
    row: Row, namespace: str, checkpoint_id: str, scope: bytes, state: State, *, is_in: bool
) -> None:
    run_id = row.metadata.get("run_id")
    if isinstance(run_id, str):
        state.changes.members[RUNS, run_member(run_id, scope, namespace, checkpoint_id)] = is_in


def writes_saved(event: WritesSaved, thread: bytes, state: State) -> None:
    """A task's writes were saved, in the present life of the checkpoint's id."""
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
                packed_data(payload),
            )
    if known:
        state.put(WRITES + scope, member, pack_writes(list(known.values())))
        state.changes.members[WRITERS + scope, member] = True


def checkpoints_deleted(
    recorded: RecordedEvent,
    event: CheckpointsDeleted,
    thread: bytes,
    record: ThreadRecord,
    state: State,
) -> None:
    """Checkpoints were removed: their rows stay readable by event id, for their children."""
    scope = state.scope_of(thread, event.copy_id)
    count = record.count
    for namespace, checkpoint_id in event.checkpoints:
        name = checkpoint_field(namespace, checkpoint_id)
        data = state.cell(ROWS + scope, name)
        life, last = state.removed(scope, name)
        if data is not None:
            row = Row.unpack(data)
            last = row.event_id
            count -= 1
            state.put(HIDDEN + scope, last, data)
            state.put(ROWS + scope, name, None)
            members = state.changes.members
            members[IDS + scope, namespace_prefix(namespace) + checkpoint_id.encode()] = False
            members[TIMELINE + scope, timeline_member(checkpoint_id, namespace)] = False
            members[NEWEST, newest_member(checkpoint_id, scope, namespace)] = False
            _index_run(row, namespace, checkpoint_id, scope, state, is_in=False)
        state.put(REMOVED + scope, name, pack_removed(life + 1, last))
    if event.copy_id is None:
        activity = max(record.activity_ms, recorded.timestamp_ms)
        state.set_thread(thread, replace(record, count=count, activity_ms=activity))
