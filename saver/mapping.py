"""LangGraph's arguments ↔ events, and the view's rows ↔ CheckpointTuple. Pure, no I/O.

Values are serialized here, on the caller's OS thread, before anything is awaited: LangGraph hands
over live objects, and a node may change them as soon as the loop runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import msgpack
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import Struct

from eventstore.codec import digest_of
from eventstore.errors import ValueCorruptedError
from eventstore.events import (
    Payload,
    Version,
    Write,
    WritesSaved,
)
from projector.errors import ValueUnresolvedError
from projector.layout import Row, StoredWrite, Unresolved
from projector.values import unpack_value
from projector.view import StoredCheckpoint, StoredValue

from .errors import InvalidConfigError
from .lineage import Known
from .place import (
    MAX_TASK_ID_BYTES,
    MAX_TASK_PATH_BYTES,
    Place,
    checkpoint_id_of,
    config_of,
    text_of,
)

MAX_CHANNELS: Final = 65_535
MAX_NAME_BYTES: Final = 65_535
"""Of a channel or of a serializer's type: what a row's two-byte counts can hold."""

MAX_PLAIN_BYTES: Final = 64 * 1024
"""Longer metadata is left to the serializer too: as a payload it may lie in chunks of its own."""

MAX_PLAIN_DEPTH: Final = 32
"""Metadata nested deeper than this is left to the serializer."""

_NOT_PLAIN: Final = object()
_SCALARS: Final = frozenset({bool, float, bytes, type(None)})
_APART: Final = frozenset({"id", "channel_values", "channel_versions"})


TaskWrites: TypeAlias = tuple[str, str, tuple[Write, ...]]
"""Task id, task path, writes."""


class CheckpointDraft(Struct, frozen=True, gc=False):
    """A checkpoint to save: serialized, and not yet told apart from its parent."""

    place: Place
    """Where it goes; the checkpoint id is its own."""
    parent_id: str | None
    parent: Known | None
    """What was known of the parent when this was made."""
    versions: Mapping[str, Version]
    new_channels: Mapping[str, Payload | None]
    """Channels with a new version: the value, None for a version without one."""
    old_channels: Mapping[str, Payload | None]
    """All others; only those serialized that no known parent stands for."""
    body: Payload
    metadata: dict[str, Any]
    metadata_payloads: dict[str, Payload]

    @property
    def checkpoint_id(self) -> str:
        """Return its own id."""
        return cast("str", self.place.checkpoint_id)

    @property
    def size(self) -> int:
        """Return how many bytes of values it has."""
        payloads = [*self.new_channels.values(), *self.old_channels.values()]
        return sum(len(payload.data) for payload in payloads if payload is not None)

    @property
    def is_self_contained(self) -> bool:
        """Whether every channel's value is here, so that nothing has to be inherited."""
        return len(self.new_channels) + len(self.old_channels) == len(self.versions)


def draft_of(
    serde: SerializerProtocol,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    *,
    place: Place,
    new_versions: ChannelVersions,
    parent: Known | None,
) -> CheckpointDraft:
    """Serialize a checkpoint and its whole metadata.

    `place` is where its parent is, `parent` what is known of that.

    Raises:
        InvalidConfigError: An id, a channel's name or version cannot be stored.
        TypeError: The serializer cannot serialize a value (its own error, unchanged).
    """
    values = checkpoint["channel_values"]
    checkpoint_id = checkpoint_id_of(checkpoint["id"])
    if checkpoint_id is None:
        raise InvalidConfigError("checkpoint_id", reason="the checkpoint to save has none")
    # A copy: LangGraph goes on with its own while this one waits for its turn.
    versions = dict(checkpoint["channel_versions"])
    if len(versions) > MAX_CHANNELS:
        raise InvalidConfigError(
            "channel_versions", reason=f"{len(versions)} channels, the limit is {MAX_CHANNELS}"
        )
    new: dict[str, Payload | None] = {}
    old: dict[str, Payload | None] = {}
    known: Mapping[str, Version] = {}
    if parent is not None and parent.is_confirmed:
        known = parent.versions
    for channel, version in versions.items():
        _check_channel(channel, version)
        if channel in new_versions:
            new[channel] = _payload(serde, values[channel]) if channel in values else None
        elif channel in values and not same_version(known.get(channel), version):
            old[channel] = _payload(serde, values[channel])
    plain, payloads = _split_metadata(serde, metadata)
    rest = {key: value for key, value in checkpoint.items() if key not in _APART}
    return CheckpointDraft(
        Place(
            place.thread_id,
            place.namespace,
            checkpoint_id,
        ),
        place.checkpoint_id,
        parent,
        versions,
        new,
        old,
        _payload(serde, rest),
        plain,
        payloads,
    )


def writes_of(
    serde: SerializerProtocol, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> TaskWrites:
    """Return a task's writes, serialized and with LangGraph's indices."""
    return (
        text_of("task_id", task_id, MAX_TASK_ID_BYTES),
        text_of("task_path", task_path, MAX_TASK_PATH_BYTES),
        tuple(
            Write(
                WRITES_IDX_MAP.get(channel, index),
                text_of("channel", channel, MAX_NAME_BYTES),
                _payload(serde, value),
            )
            for index, (channel, value) in enumerate(writes)
        ),
    )


def writes_event(place: Place, parts: TaskWrites, *, incarnation: int) -> WritesSaved:
    """Return the event of `writes_of`'s parts on the checkpoint that `place` names."""
    task_id, task_path, writes = parts
    return WritesSaved(
        place.namespace,
        cast("str", place.checkpoint_id),
        task_id,
        task_path,
        incarnation,
        writes,
    )


def known_of(stored: StoredCheckpoint, values: Mapping[str, int]) -> Known:
    """Return what a read checkpoint lets its children inherit, and extend."""
    return Known(
        stored.thread.incarnation,
        stored.row.event_id,
        {channel: version for channel, (version, _) in stored.row.channels.items()},
        values,
        is_confirmed=True,
    )


def tuple_of(
    serde: SerializerProtocol, partition: int, thread_id: str, stored: StoredCheckpoint
) -> CheckpointTuple:
    """Return LangGraph's tuple of a stored checkpoint.

    Raises:
        ValueUnresolvedError: A channel's value is not in the view.
        ValueCorruptedError: A value's digest differs.
    """
    row = stored.row
    values: dict[str, Any] = {}
    for channel in row.channels:
        payload = payload_of(partition, thread_id, stored, channel)
        if payload is not None:
            values[channel] = loaded(serde, payload)
    checkpoint = {
        **loaded(serde, row.body),
        "id": stored.checkpoint_id,
        "channel_values": values,
        "channel_versions": {name: version for name, (version, _) in row.channels.items()},
    }
    parent = None if stored.parent_is_removed else row.parent_id
    return CheckpointTuple(
        config=config_of(thread_id, stored.namespace, stored.checkpoint_id),
        checkpoint=cast("Checkpoint", checkpoint),
        metadata=metadata_of(serde, row),
        parent_config=None if parent is None else config_of(thread_id, stored.namespace, parent),
        pending_writes=[pending(serde, write) for write in sorted(stored.writes, key=write_order)],
    )


def payload_of(
    partition: int, thread_id: str, stored: StoredCheckpoint, channel: str
) -> Payload | None:
    """Return the checked payload of a channel, None where it has no value."""
    version, ref = stored.row.channels[channel]
    if ref is None:
        return None
    if isinstance(ref, Unresolved):
        raise ValueUnresolvedError(
            thread_id,
            channel=channel,
            partition=partition,
            offset=stored.row.offset,
            missing=ref.missing,
        )
    return checked(partition, thread_id, channel, version, stored.values.get(channel))


def checked(
    partition: int, thread_id: str, channel: str, version: object, value: StoredValue | None
) -> Payload:
    """Return a stored value's payload once its digest is verified."""
    if value is None or value.data is None:
        offset = 0 if value is None else value.offset
        raise ValueUnresolvedError(
            thread_id,
            channel=channel,
            partition=partition,
            offset=offset,
            missing="the value that this event stored is not in the view",
        )
    payload, digest = unpack_value(value.data)
    if digest_of(payload.data) != digest:
        raise ValueCorruptedError(
            thread_id, channel=channel, version=version, partition=partition, offset=value.offset
        )
    return payload


def metadata_of(serde: SerializerProtocol, row: Row) -> CheckpointMetadata:
    """Return a row's metadata, all of it decoded."""
    payloads = {key: loaded(serde, value) for key, value in row.metadata_payloads.items()}
    return cast("CheckpointMetadata", {**row.metadata, **payloads})


def pending(serde: SerializerProtocol, write: StoredWrite) -> PendingWrite:
    """Return LangGraph's form of a pending write."""
    return (write.task_id, write.channel, loaded(serde, write.payload))


def write_order(write: StoredWrite) -> tuple[str, str, int]:
    """Sort key of pending writes: task path, task id, index."""
    return writes_sort_key(write.task_path, write.task_id, write.index)


def _payload(serde: SerializerProtocol, value: Any) -> Payload:
    kind, data = serde.dumps_typed(value)
    if len(kind) > MAX_NAME_BYTES:
        raise InvalidConfigError("serde", reason=f"a type name of {len(kind)} characters")
    # Serializers may hand out bytearrays and memoryviews that live on.
    return Payload(kind, data if type(data) is bytes else bytes(data))


def loaded(serde: SerializerProtocol, payload: Payload) -> Any:
    """Return the object of a payload."""
    return serde.loads_typed((payload.type, payload.data))


def same_version(known: Version | None, version: Version) -> bool:
    """Tell whether two versions are one; 1 and 1.0 are two."""
    return known == version and type(known) is type(version)


def _check_channel(channel: object, version: object) -> None:
    text_of("channel", channel, MAX_NAME_BYTES)
    if isinstance(version, bool) or not isinstance(version, int | float | str):
        raise InvalidConfigError(
            f"channel_versions[{channel!r}]",
            reason=f"expected an int, float or str, got {type(version).__name__}",
        )
    if isinstance(version, int) and not -(1 << 63) <= version < 1 << 64:
        raise InvalidConfigError(
            f"channel_versions[{channel!r}]", reason=f"{version} does not fit into 64 bits"
        )


def _split_metadata(
    serde: SerializerProtocol, metadata: CheckpointMetadata
) -> tuple[dict[str, Any], dict[str, Payload]]:
    plain: dict[str, Any] = {}
    payloads: dict[str, Payload] = {}
    for key, value in cast("dict[object, Any]", metadata).items():
        if not isinstance(key, str):
            raise InvalidConfigError(
                "metadata", reason=f"expected text keys, got {type(key).__name__}"
            )
        if not _is_encodable(key):
            raise InvalidConfigError("metadata", reason=f"{key!r} is not encodable as UTF-8")
        copied = _plain_copy(value)
        if copied is _NOT_PLAIN or _is_long(copied):
            payloads[key] = _payload(serde, value)
        else:
            plain[key] = copied
    return plain, payloads


def _is_long(value: object) -> bool:
    if isinstance(value, str | bytes):
        return len(value) > MAX_PLAIN_BYTES
    return (
        bool(value)
        and isinstance(value, list | dict)
        and (len(msgpack.packb(value)) > MAX_PLAIN_BYTES)
    )


def _plain_copy(value: object, depth: int = 0) -> object:
    """Return a copy of what msgpack gives back exactly as it is, or `_NOT_PLAIN`."""
    kind = type(value)
    if kind is str:
        return value if _is_encodable(cast("str", value)) else _NOT_PLAIN
    if kind in _SCALARS:
        return value
    if kind is int:
        return value if -(1 << 63) <= cast("int", value) < 1 << 64 else _NOT_PLAIN
    if depth >= MAX_PLAIN_DEPTH:
        return _NOT_PLAIN
    items: Iterable[object]
    copied: object
    if kind is list:
        items = copied = [_plain_copy(item, depth + 1) for item in cast("list[Any]", value)]
    elif kind is dict and all(map(_is_plain_key, cast("dict[Any, Any]", value))):
        pairs = cast("dict[str, Any]", value).items()
        copied = {key: _plain_copy(item, depth + 1) for key, item in pairs}
        items = copied.values()
    else:
        return _NOT_PLAIN
    return _NOT_PLAIN if _NOT_PLAIN in items else copied


def _is_plain_key(key: object) -> bool:
    return type(key) is str and _is_encodable(key)


def _is_encodable(text: str) -> bool:
    """Tell whether a text has a form in UTF-8; one with a lone surrogate has none."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
