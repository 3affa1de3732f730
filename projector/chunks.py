"""Chunks in the view: where they lie, and which of them wait for their manifest. Pure.

A chunk belongs to a thread and an incarnation, whatever else happens to the thread meanwhile: a
copy that is completed changes the scope of everything but that of chunks.
"""

from __future__ import annotations

from eventstore.codec import record_key
from eventstore.events import (
    CheckpointSaved,
    ChunkedPayload,
    ChunkSaved,
    RecordedEvent,
    WritesSaved,
    chunked_payloads,
)

from .layout import CHUNKS, EPOCH_BYTES, HASH_BYTES, PENDING, ThreadRecord, epoch_of, u64
from .pending import Pending
from .state import State
from .values import Piece, StoredVersion


def chunk_scope(thread: bytes, incarnation: int) -> bytes:
    """Return where the chunks of a thread's incarnation lie: behind the letter `CHUNKS`."""
    return thread + epoch_of(incarnation)


def is_live_chunk_scope(scope: bytes, record: ThreadRecord | None) -> bool:
    """Tell whether a thread of this record can still need the chunks of a scope."""
    return record is None or scope[HASH_BYTES:] >= epoch_of(record.incarnation)


def is_chunk_epoch(epoch: bytes) -> bool:
    """Tell whether an epoch is that of an incarnation, and not a copy's or a place."""
    return epoch[: EPOCH_BYTES - 8] == bytes(EPOCH_BYTES - 8)


def hold(
    recorded: RecordedEvent,
    event: ChunkSaved | CheckpointSaved | WritesSaved,
    thread: bytes,
    state: State,
) -> None:
    """Keep a chunk, or the place of a void manifest, until a manifest or a tombstone comes."""
    data = event.data if isinstance(event, ChunkSaved) else b""
    name = u64(recorded.offset)
    state.put(CHUNKS + chunk_scope(thread, event.incarnation), name, data)
    key = record_key(recorded.thread_id or "", recorded.event_id, recorded.part)
    pending = Pending(recorded.offset, thread, event.incarnation, recorded.timestamp_ms, key)
    state.put(PENDING, name, pending.pack())


def settle(event: CheckpointSaved | WritesSaved, state: State) -> None:
    """Keep the chunks of a manifest for as long as the thread is there."""
    if event.chunked_at is None:
        return
    for payload in chunked_payloads(event):
        for offset, _ in payload.chunks:
            state.put(PENDING, u64(offset), None)


def forget(thread: bytes, epoch: bytes, offset: int, state: State) -> None:
    """Forget a chunk, or a void manifest, whose record is tombstoned."""
    name = u64(offset)
    state.put(PENDING, name, None)
    if is_chunk_epoch(epoch):
        state.put(CHUNKS + thread + epoch, name, None)


def pieces_of(payload: ChunkedPayload) -> tuple[Piece, ...]:
    """Return a payload's chunks as pieces."""
    return tuple([Piece(CHUNKS, offset, 0, size) for offset, size in payload.chunks if size])


def version_of(payload: ChunkedPayload, namespace: str) -> StoredVersion:
    """Return a chunked value as an entry of `VALUES`."""
    return StoredVersion(payload.type, payload.digest, b"", namespace, pieces_of(payload))
