"""Soundness: what an answer holds that lay in chunks is whole, and what was put, or it is an error.

Channel values are checked where they are decoded; this is for all other payloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eventstore.codec import digest_of
from eventstore.errors import ValueCorruptedError
from eventstore.events import ChunkedPayload, Payload
from projector.errors import ValueUnresolvedError
from projector.view import StoredCheckpoint, StoredHistory


def check(partition: int, stored: StoredCheckpoint) -> None:
    """Raise unless a checkpoint's body, metadata and writes are whole.

    Raises:
        ValueUnresolvedError: A chunk is not in the view.
        ValueCorruptedError: The bytes are not those that were put.
    """
    thread_id = stored.thread.thread_id or ""
    for name, payload in _payloads(stored):
        if isinstance(payload, ChunkedPayload):
            _check(partition, thread_id, name, payload)


def check_history(partition: int, thread_id: str, found: Mapping[str, StoredHistory]) -> None:
    """Raise unless the writes of a delta channel's history are whole; as `check`."""
    for channel, history in found.items():
        for _, writes in history.writes:
            for write in writes:
                if isinstance(write.payload, ChunkedPayload):
                    _check(partition, thread_id, channel, write.payload)


def _payloads(stored: StoredCheckpoint) -> Iterator[tuple[str, Payload]]:
    yield "the checkpoint's body", stored.row.body
    for key, payload in stored.row.metadata_payloads.items():
        yield f"metadata {key!r}", payload
    for write in stored.writes:
        yield write.channel, write.payload


def _check(partition: int, thread_id: str, name: str, payload: ChunkedPayload) -> None:
    offset = payload.chunks[0][0] if payload.chunks else 0
    if len(payload.data) != payload.size:
        missing = "a chunk of it"
        raise ValueUnresolvedError(
            thread_id, channel=name, partition=partition, offset=offset, missing=missing
        )
    if digest_of(payload.data) != payload.digest:
        raise ValueCorruptedError(
            thread_id, channel=name, version=None, partition=partition, offset=offset
        )
