"""What an answer holds that lies in chunks, and the same answer with it. Pure.

Values are no part of it: an entry of the values is a list of pieces, some of which may be chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from msgspec.structs import replace as replaced

from eventstore.events import ChunkedPayload, Payload

from .layout import StoredWrite
from .view import StoredCheckpoint, StoredHistory

Contents: TypeAlias = Mapping[int, bytes | None]
"""Offset of a chunk → its bytes, None when it is missing."""


def chunked_of(checkpoint: StoredCheckpoint, *, with_body: bool) -> list[ChunkedPayload]:
    """Return the payloads of a checkpoint's row and writes that lie in chunks."""
    payloads = list(checkpoint.row.metadata_payloads.values())
    if with_body:
        payloads.append(checkpoint.row.body)
    payloads += [write.payload for write in checkpoint.writes]
    return _chunked(payloads)


def chunked_in(histories: Iterable[StoredHistory]) -> list[ChunkedPayload]:
    """Return the payloads of the writes of some histories that lie in chunks."""
    return _chunked(
        [write.payload for each in histories for _, writes in each.writes for write in writes]
    )


def filled(checkpoint: StoredCheckpoint, contents: Contents) -> StoredCheckpoint:
    """Return a checkpoint with the bytes of `chunked_of`'s payloads, but for missing ones."""
    row = checkpoint.row
    payloads = {key: _filled(each, contents) for key, each in row.metadata_payloads.items()}
    return replace(
        checkpoint,
        row=replaced(row, body=_filled(row.body, contents), metadata_payloads=payloads),
        writes=_filled_writes(checkpoint.writes, contents),
    )


def filled_history(history: StoredHistory, contents: Contents) -> StoredHistory:
    """Return a history with the bytes of `chunked_in`'s payloads, but for missing ones."""
    writes = [(event_id, _filled_writes(each, contents)) for event_id, each in history.writes]
    return replace(history, writes=writes)


def size_of(checkpoint: StoredCheckpoint) -> int:
    """Return about how many bytes a checkpoint has that was read with its values."""
    row = checkpoint.row
    size = len(row.body.data) + sum(len(each.data) for each in row.metadata_payloads.values())
    size += sum(len(value.data or b"") for value in checkpoint.values.values())
    return size + sum(len(write.payload.data) for write in checkpoint.writes)


def _chunked(payloads: Iterable[Payload]) -> list[ChunkedPayload]:
    return [payload for payload in payloads if isinstance(payload, ChunkedPayload)]


def _filled(payload: Payload, contents: Contents) -> Payload:
    if not isinstance(payload, ChunkedPayload):
        return payload
    found: list[bytes] = []
    for offset, size in payload.chunks:
        chunk = contents.get(offset)
        if chunk is None or len(chunk) != size:
            return payload
        found.append(chunk)
    return replaced(payload, data=b"".join(found))


def _filled_writes(writes: Sequence[StoredWrite], contents: Contents) -> list[StoredWrite]:
    return [replaced(write, payload=_filled(write.payload, contents)) for write in writes]
