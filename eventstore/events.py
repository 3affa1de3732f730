"""The facts that can happen, as frozen types.

What LangGraph hands over as objects stands here as `Payload`: the serializer's own `(type, bytes)`,
which this package never decodes. How an event becomes bytes is in `codec`.
"""

from __future__ import annotations

import os
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

Version: TypeAlias = int | float | str
"""A channel version as LangGraph keeps it."""

EVENT_ID_BYTES = 16

CHUNK_LIFETIME_MS: Final = 3_600_000
"""How much later than its first chunk, by the log's clock, a manifest may come. Of the format."""

CHUNK_BYTES: Final = 512 * 1024
"""How large writers cut chunks: a view takes one in within about a millisecond."""

MAX_CHUNKS: Final = 1_024
"""How many chunks a payload may have."""


def new_event_id() -> bytes:
    """Return a random event id (16 bytes): made once per call, kept by all that belongs to it."""
    return os.urandom(EVENT_ID_BYTES)


class Payload(Struct, frozen=True, gc=False):
    """A value as LangGraph's serializer made it."""

    type: str
    """The serializer's type name, `msgpack` or `bytes` for instance; `x+cipher` when encrypted."""
    data: bytes
    """The serializer's bytes, unchanged."""


class ChunkedPayload(Payload, frozen=True, gc=False):
    """A payload that lies in chunks, saved in front of the event that it belongs to.

    `data` is empty in the log. A view that has found all chunks answers with it filled.
    """

    digest: bytes
    """BLAKE2b-128 of the whole payload's bytes."""
    chunks: tuple[tuple[int, int], ...]
    """(offset, size) of each chunk, in order; the offset is that of its `ChunkSaved`."""

    @property
    def size(self) -> int:
        """Return how many bytes the whole payload has."""
        return sum([size for _, size in self.chunks])

    @property
    def is_whole(self) -> bool:
        """Tell whether `data` is filled."""
        return len(self.data) == self.size


class Inherited(Struct, frozen=True, gc=False):
    """Whatever the parent has at the same channel version, a value or none."""


class Referenced(Struct, frozen=True, gc=False):
    """The value that another event of the same thread stored for the same channel."""

    event_id: bytes | None
    """The event that stored it; None when the writer knows its offset only."""
    offset: int
    """Where that event stands in the thread's partition, which is what identifies it."""


class Full(Struct, frozen=True, gc=False):
    """The whole value."""

    payload: Payload
    digest: bytes
    """BLAKE2b-128 of the payload's bytes."""


class Empty(Struct, frozen=True, gc=False):
    """A new version without a value."""


class Extended(Struct, frozen=True, gc=False):
    """Head bytes, then a range of the value that another event stored, then tail bytes.

    The other event is of the same thread and namespace, and stored it for the same channel.
    """

    event_id: bytes | None
    """The other event; None when the writer knows its offset only."""
    offset: int
    """Where that event stands in the thread's partition, which is what identifies it."""
    type: str
    head: bytes
    start: int
    """First byte of the range, inclusive."""
    stop: int
    """Last byte of the range, exclusive."""
    tail: bytes
    digest: bytes
    """BLAKE2b-128 of the whole value."""
    kept_items: int | None = None
    """For a top-level list or map: how many items the range holds."""


ChannelValue: TypeAlias = Inherited | Referenced | Full | Empty | Extended | ChunkedPayload

INHERITED = Inherited()
EMPTY = Empty()


class ChannelState(Struct, frozen=True, gc=False):
    """One channel of a checkpoint."""

    version: Version
    value: ChannelValue


class CheckpointSaved(Struct, frozen=True, gc=False):
    """A checkpoint was saved."""

    namespace: str
    checkpoint_id: str
    parent_id: str | None
    """The parent's checkpoint id, whether or not such a checkpoint exists."""
    parent_event: bytes | None
    """The parent's `checkpoint.saved`, by event id, when a channel is inherited from it."""
    incarnation: int
    """The incarnation of what this continues: 0, or the one that a deletion began."""
    channels: dict[str, ChannelState]
    body: Payload
    """The checkpoint without id, channel_values and channel_versions."""
    metadata: dict[str, Any]
    """Metadata values made only of plain msgpack types, readable without a serializer."""
    metadata_payloads: dict[str, Payload] = field(default_factory=dict)
    """All other metadata values."""
    copy_id: bytes | None = None
    """Set while a thread is being copied: invisible until `ThreadCopied` names the same id."""
    unknown: dict[str, Any] = field(default_factory=dict)
    """Fields that this reader does not know, kept as they were read."""
    chunked_at: int | None = None
    """When the log stored the first of this event's chunks; set when a payload lies in some."""


class Write(Struct, frozen=True, gc=False):
    """One pending write of a task."""

    index: int
    """Its place in the task's list, or LangGraph's negative index of a special write."""
    channel: str
    payload: Payload


class WritesSaved(Struct, frozen=True, gc=False):
    """A task's writes on a checkpoint were saved. The checkpoint may arrive later, or never."""

    namespace: str
    checkpoint_id: str
    task_id: str
    task_path: str
    incarnation: int
    writes: tuple[Write, ...]
    copy_id: bytes | None = None
    unknown: dict[str, Any] = field(default_factory=dict)
    chunked_at: int | None = None
    """When the log stored the first of this event's chunks; set when a payload lies in some."""


class ChunkSaved(Struct, frozen=True, gc=False):
    """Some bytes of a payload were saved, for an event that follows: its manifest.

    It has the event id of the manifest and a part of its own, from 1 on; the manifest has part 0.
    """

    incarnation: int
    """That of the manifest."""
    data: bytes
    unknown: dict[str, Any] = field(default_factory=dict)


class ThreadDeleted(Struct, frozen=True, gc=False):
    """A thread was deleted with all that it held; appends of an older incarnation are void."""

    unknown: dict[str, Any] = field(default_factory=dict)


class CheckpointsDeleted(Struct, frozen=True, gc=False):
    """Some checkpoints of a thread were deleted, with their writes."""

    incarnation: int
    checkpoints: tuple[tuple[str, str], ...]
    """(namespace, checkpoint id) of each; ids that do not exist are passed over."""
    copy_id: bytes | None = None
    unknown: dict[str, Any] = field(default_factory=dict)


class ThreadCopied(Struct, frozen=True, gc=False):
    """A copy is complete: all events with its id become visible at once.

    Void unless the target thread held no checkpoint at this place of the log.
    """

    copy_id: bytes
    source_thread_id: str
    incarnation: int
    checkpoints: int
    """How many visible checkpoints the copy holds."""
    unknown: dict[str, Any] = field(default_factory=dict)


class ThreadErased(Struct, frozen=True, gc=False):
    """A deleted thread's records are tombstoned; only this marker stays. Its subject is a hash."""

    thread_hash: bytes
    incarnation: int
    unknown: dict[str, Any] = field(default_factory=dict)


class LogStarted(Struct, frozen=True, gc=False):
    """The identity record: the first record of each partition."""

    log_id: bytes
    """Random, per partition."""
    partitions: int
    """How many partitions the log has, fixed for life."""
    unknown: dict[str, Any] = field(default_factory=dict)


class LogNudged(Struct, frozen=True, gc=False):
    """Housekeeping: changes nothing; makes the broker roll a segment so that compaction can run."""

    unknown: dict[str, Any] = field(default_factory=dict)


Event: TypeAlias = (
    CheckpointSaved
    | WritesSaved
    | ChunkSaved
    | ThreadDeleted
    | CheckpointsDeleted
    | ThreadCopied
    | ThreadErased
    | LogStarted
    | LogNudged
)


def is_void(event: Event, timestamp_ms: int) -> bool:
    """Tell whether an event that the log stored at this time came too late for its own chunks.

    Nothing of it counts then, whether or not the chunks are there still.
    """
    if not isinstance(event, CheckpointSaved | WritesSaved) or event.chunked_at is None:
        return False
    return timestamp_ms - event.chunked_at > CHUNK_LIFETIME_MS


def has_chunks(event: CheckpointSaved | WritesSaved) -> bool:
    """Tell whether payloads of an event lie in chunks. Asked of every event, twice."""
    if isinstance(event, WritesSaved):
        return any(isinstance(write.payload, ChunkedPayload) for write in event.writes)
    for has in event.channels.values():
        if isinstance(has.value, ChunkedPayload):
            return True
    if isinstance(event.body, ChunkedPayload):
        return True
    return any(isinstance(each, ChunkedPayload) for each in event.metadata_payloads.values())


def chunked_payloads(event: Event) -> list[ChunkedPayload]:
    """Return the payloads of an event that lie in chunks."""
    payloads: list[Payload | ChannelValue] = []
    if isinstance(event, CheckpointSaved):
        payloads = [event.body, *event.metadata_payloads.values()]
        payloads += [has.value for has in event.channels.values()]
    elif isinstance(event, WritesSaved):
        payloads = [write.payload for write in event.writes]
    return [payload for payload in payloads if isinstance(payload, ChunkedPayload)]


class NewEvent(Struct, frozen=True, gc=False):
    """An event before it has a place in the log."""

    thread_id: str | None
    """The thread it belongs to; None for `LogStarted`, `LogNudged` and `ThreadErased`."""
    event: Event
    event_id: bytes = field(default_factory=new_event_id)
    part: int = 0
    """Numbers the records of one call that share its event id."""


class RecordedEvent(Struct, frozen=True, gc=False):
    """An event with its place in the log."""

    partition: int
    offset: int
    timestamp_ms: int
    """When the log stored it, in milliseconds since 1970 (the log's clock)."""
    thread_id: str | None
    event: Event
    event_id: bytes
    part: int
