"""LangGraph's arguments ↔ events, and the view's rows ↔ CheckpointTuple. Pure, no I/O.

Values are serialized here, on the caller's OS thread, before anything is awaited: LangGraph hands
over live objects, and a node may change them as soon as the loop runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    writes_sort_key,
)
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
from projector.layout import StoredWrite, Unresolved
from projector.values import unpack_value
from projector.view import StoredCheckpoint, StoredValue

from .errors import InvalidConfigError
from .lineage import Known
from .metadata import split_metadata
from .opening import body_of, sources_of
from .place import (
    MAX_NAME_BYTES,
    MAX_TASK_ID_BYTES,
    MAX_TASK_PATH_BYTES,
    Place,
    checkpoint_id_of,
    config_of,
    text_of,
)
from .serde import Serde, channel_spot, metadata_spot, write_spot

MAX_CHANNELS: Final = 65_535
_APART: Final = frozenset({"id", "channel_values", "channel_versions"})


class TaskWrites(Struct, frozen=True, gc=False):
    """A task's writes, serialized and not sealed yet."""

    serde: Serde
    task_id: str
    task_path: str
    writes: tuple[Write, ...]

    @property
    def size(self) -> int:
        """Return how many bytes of values they have."""
        return sum(len(write.payload.data) for write in self.writes)


class CheckpointDraft(Struct, frozen=True, gc=False):
    """A checkpoint to save: serialized, not yet told apart from its parent, and not sealed yet."""

    serde: Serde
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
    serde: Serde,
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
            new[channel] = serde.dumped(values[channel]) if channel in values else None
        elif channel in values and not same_version(known.get(channel), version):
            old[channel] = serde.dumped(values[channel])
    plain, payloads = split_metadata(serde, metadata)
    rest = {key: value for key, value in checkpoint.items() if key not in _APART}
    return CheckpointDraft(
        serde,
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
        serde.dumped(rest),
        plain,
        payloads,
    )


def writes_of(
    serde: Serde, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> TaskWrites:
    """Return a task's writes, serialized and with LangGraph's indices."""
    return TaskWrites(
        serde,
        text_of("task_id", task_id, MAX_TASK_ID_BYTES),
        text_of("task_path", task_path, MAX_TASK_PATH_BYTES),
        tuple(
            Write(
                WRITES_IDX_MAP.get(channel, index),
                text_of("channel", channel, MAX_NAME_BYTES),
                serde.dumped(value),
            )
            for index, (channel, value) in enumerate(writes)
        ),
    )


def writes_event(
    place: Place, parts: TaskWrites, *, event_id: bytes, incarnation: int
) -> WritesSaved:
    """Return the event of a task's writes on the checkpoint that `place` names."""
    return WritesSaved(
        place.namespace,
        cast("str", place.checkpoint_id),
        parts.task_id,
        parts.task_path,
        incarnation,
        sealed_writes(parts.serde, place, parts.task_id, parts.writes, event_id),
    )


def sealed_writes(
    serde: Serde, place: Place, task_id: str, writes: Iterable[Write], event_id: bytes
) -> tuple[Write, ...]:
    """Return a task's writes as an event stores them."""
    if serde.sealer is None:
        return tuple(writes)
    sealed: list[Write] = []
    for write in writes:
        spot = write_spot(place, task_id, write.index, write.channel)
        payload = serde.sealed(write.payload, spot, event_id)
        sealed.append(Write(write.index, write.channel, payload))
    return tuple(sealed)


def known_of(stored: StoredCheckpoint, values: Mapping[str, int]) -> Known:
    """Return what a read checkpoint lets its children inherit, and extend."""
    return Known(
        stored.thread.incarnation,
        stored.row.event_id,
        {channel: version for channel, (version, _) in stored.row.channels.items()},
        values,
        is_confirmed=True,
        sources=sources_of(stored),
    )


def tuple_of(
    serde: Serde,
    partition: int,
    thread_id: str,
    stored: StoredCheckpoint,
    opened: dict[str, Payload] | None = None,
) -> CheckpointTuple:
    """Return LangGraph's tuple of a stored checkpoint.

    `opened` is given the channels' values as the serializer made them.

    Raises:
        ValueUnresolvedError: A channel's value is not in the view.
        ValueCorruptedError: A value's digest differs.
        PlainValueError, CipherMissingError, SealedPieceError, UnknownKeyError: As `Serde.opened`.
    """
    row = stored.row
    opened = {} if opened is None else opened
    values: dict[str, Any] = {}
    for channel in row.channels:
        payload = payload_of(partition, thread_id, stored, channel)
        if payload is None:
            continue
        spot = channel_spot(thread_id, stored.namespace, channel)
        opened[channel] = serde.opened(payload, spot)
        values[channel] = serde.restored(opened[channel])
    checkpoint = {
        **serde.restored(body_of(serde, thread_id, stored)),
        "id": stored.checkpoint_id,
        "channel_values": values,
        "channel_versions": {name: version for name, (version, _) in row.channels.items()},
    }
    parent = None if stored.parent_is_removed else row.parent_id
    place = Place(thread_id, stored.namespace, stored.checkpoint_id)
    return CheckpointTuple(
        config=config_of(thread_id, stored.namespace, stored.checkpoint_id),
        checkpoint=cast("Checkpoint", checkpoint),
        metadata=metadata_of(serde, thread_id, stored),
        parent_config=None if parent is None else config_of(thread_id, stored.namespace, parent),
        pending_writes=[
            pending(serde, place, write) for write in sorted(stored.writes, key=write_order)
        ],
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


def metadata_of(serde: Serde, thread_id: str, stored: StoredCheckpoint) -> CheckpointMetadata:
    """Return a checkpoint's metadata, all of it decoded."""
    place = Place(thread_id, stored.namespace, stored.checkpoint_id)
    payloads = {
        key: serde.loaded(value, metadata_spot(place, key))
        for key, value in stored.row.metadata_payloads.items()
    }
    return cast("CheckpointMetadata", {**stored.row.metadata, **payloads})


def pending(serde: Serde, place: Place, write: StoredWrite) -> PendingWrite:
    """Return LangGraph's form of a pending write; the place is that of any checkpoint beside it."""
    spot = write_spot(place, write.task_id, write.index, write.channel)
    return (write.task_id, write.channel, serde.loaded(write.payload, spot))


def write_order(write: StoredWrite) -> tuple[str, str, int]:
    """Sort key of pending writes: task path, task id, index."""
    return writes_sort_key(write.task_path, write.task_id, write.index)


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
