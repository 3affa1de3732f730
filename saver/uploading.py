"""Uploading: events of any size. Payloads too large for one record go in front of it, in chunks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Final

from msgspec.structs import replace

from eventstore.codec import digest_of
from eventstore.errors import EventTooLargeError, LogUnavailableError
from eventstore.events import (
    CHUNK_BYTES,
    MAX_CHUNKS,
    ChannelState,
    CheckpointSaved,
    ChunkedPayload,
    ChunkSaved,
    Extended,
    Full,
    NewEvent,
    Payload,
    WritesSaved,
    is_void,
)
from eventstore.log import Appended, EventLog

MAX_INLINE_BYTES: Final = 640 * 1024
"""So many bytes of payloads an event holds itself. With what else it says, it fits into a record of
a broker with default limits, which is 1 MB, and into a call of a few milliseconds to the view."""

MAX_PAYLOAD_BYTES: Final = CHUNK_BYTES * MAX_CHUNKS
"""How large a value, a write or what metadata holds may be: 512 MB, serialized."""

_WINDOW: Final = 16
"""Chunks that are under way at the same time: 8 MB."""


def inline_size(event: CheckpointSaved | WritesSaved) -> int:
    """Return how many bytes of payloads an event holds itself."""
    if isinstance(event, WritesSaved):
        return sum(len(write.payload.data) for write in event.writes)
    size = len(event.body.data) + sum(len(p.data) for p in event.metadata_payloads.values())
    for state in event.channels.values():
        if isinstance(state.value, Full):
            size += len(state.value.payload.data)
        elif isinstance(state.value, Extended):
            size += len(state.value.head) + len(state.value.tail)
    return size


async def upload(
    log: EventLog, thread_id: str, event: CheckpointSaved | WritesSaved, event_id: bytes
) -> Awaitable[Appended]:
    """Append an event that is too large for one record: its chunks, then the event itself.

    Returns when all chunks are acknowledged and the event is handed over; the awaitable ends when
    that is acknowledged too. Nothing shows of an event of which only chunks are there.

    Raises:
        EventTooLargeError: A payload is larger than `MAX_PAYLOAD_BYTES`; nothing was appended.
        LogUnavailableError: (awaiting) It came so late after its chunks that it is void.
    """
    chosen = _chosen(event)
    for payload in chosen:
        if len(payload.data) > MAX_PAYLOAD_BYTES:
            what = f"a payload of {type(event).__name__}"
            raise EventTooLargeError(what, size=len(payload.data), limit=MAX_PAYLOAD_BYTES)
    chunks = _Chunks(log, thread_id, event.incarnation, event_id)
    known = _digests(event)
    # By identity: equal payloads may be chosen or not.
    moved = {
        id(payload): await chunks.append(payload, known.get(id(payload))) for payload in chosen
    }
    manifest = _with(event, moved, chunks.first_time())
    appending = log.append(NewEvent(thread_id, manifest, event_id))
    return asyncio.ensure_future(_verified(manifest, appending))


async def _verified(
    manifest: CheckpointSaved | WritesSaved, appending: Awaitable[Appended]
) -> Appended:
    place = await appending
    if place.timestamp_ms is not None and is_void(manifest, place.timestamp_ms):
        reason = "it came more than an hour after the first of its chunks, and is void"
        raise LogUnavailableError("saving a large value", reason=reason)
    return place


class _Chunks:
    """Appends the chunks of one event, some at a time."""

    def __init__(self, log: EventLog, thread_id: str, incarnation: int, event_id: bytes) -> None:
        self._log = log
        self._thread_id = thread_id
        self._incarnation = incarnation
        self._event_id = event_id
        self._part = 0
        self._first_time: int | None = None

    async def append(self, payload: Payload, digest: bytes | None) -> ChunkedPayload:
        """Append a payload's chunks, and return it as it stands in the event."""
        if digest is None:
            digest = await asyncio.to_thread(digest_of, payload.data)
        under_way: deque[asyncio.Task[tuple[int, int]]] = deque()
        chunks: list[tuple[int, int]] = []
        try:
            for start in range(0, len(payload.data), CHUNK_BYTES):
                if len(under_way) >= _WINDOW:
                    chunks.append(await under_way[0])
                    under_way.popleft()
                data = payload.data[start : start + CHUNK_BYTES]
                under_way.append(asyncio.create_task(self._append(data)))
                # One at a time: compressing takes a millisecond, and others want the loop too.
                await asyncio.sleep(0)
            while under_way:
                chunks.append(await under_way[0])
                under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        return ChunkedPayload(payload.type, b"", digest, tuple(chunks))

    def first_time(self) -> int:
        """Return when the log stored the first chunk, in its own milliseconds."""
        if self._first_time is None:
            raise AssertionError("no chunk was appended")
        return self._first_time

    async def _append(self, data: bytes) -> tuple[int, int]:
        while True:
            self._part += 1
            chunk = ChunkSaved(self._incarnation, data)
            place = await self._log.append(
                NewEvent(self._thread_id, chunk, self._event_id, self._part)
            )
            if place.offset is None or place.timestamp_ms is None:
                # Stored, and the log did not tell where. One more does no harm.
                continue
            if self._first_time is None or place.timestamp_ms < self._first_time:
                self._first_time = place.timestamp_ms
            return place.offset, len(data)


def _chosen(event: CheckpointSaved | WritesSaved) -> list[Payload]:
    """Return the payloads to put into chunks, the largest first, until the rest fits."""
    left = inline_size(event)
    chosen: list[Payload] = []
    for payload in sorted(_payloads(event), key=lambda each: len(each.data), reverse=True):
        if left <= MAX_INLINE_BYTES:
            break
        chosen.append(payload)
        left -= len(payload.data)
    return chosen


def _payloads(event: CheckpointSaved | WritesSaved) -> list[Payload]:
    if isinstance(event, WritesSaved):
        return [write.payload for write in event.writes]
    full = [has.value.payload for has in event.channels.values() if isinstance(has.value, Full)]
    return [event.body, *event.metadata_payloads.values(), *full]


def _digests(event: CheckpointSaved | WritesSaved) -> dict[int, bytes]:
    """Return the digests that an event already has, by the identity of the payload."""
    if isinstance(event, WritesSaved):
        return {}
    values = [has.value for has in event.channels.values()]
    return {id(value.payload): value.digest for value in values if isinstance(value, Full)}


def _with(
    event: CheckpointSaved | WritesSaved, moved: dict[int, ChunkedPayload], chunked_at: int
) -> CheckpointSaved | WritesSaved:
    def of(payload: Payload) -> Payload:
        return moved.get(id(payload), payload)

    if isinstance(event, WritesSaved):
        writes = tuple([replace(write, payload=of(write.payload)) for write in event.writes])
        return replace(event, writes=writes, chunked_at=chunked_at)
    channels: dict[str, ChannelState] = {}
    for channel, has in event.channels.items():
        value = has.value
        if isinstance(value, Full) and id(value.payload) in moved:
            value = moved[id(value.payload)]
        channels[channel] = ChannelState(has.version, value)
    return replace(
        event,
        channels=channels,
        body=of(event.body),
        metadata_payloads={key: of(each) for key, each in event.metadata_payloads.items()},
        chunked_at=chunked_at,
    )
