"""Payloads as rows and writes of the view hold them: their bytes, or where these lie. Pure."""

from __future__ import annotations

from typing import TypeAlias

from eventstore.events import ChunkedPayload, Payload

PackedData: TypeAlias = bytes | tuple[bytes, tuple[tuple[int, int], ...]]
"""A payload's bytes; digest and chunks of one that lies in chunks."""


def packed_data(payload: Payload) -> PackedData:
    """Return what msgpack packs of a payload beside its type."""
    if isinstance(payload, ChunkedPayload):
        return payload.digest, payload.chunks
    return payload.data


def payload_of(kind: str, data: PackedData) -> Payload:
    """Return the payload of its type and what `packed_data` gave, through msgpack or not."""
    if isinstance(data, bytes):
        return Payload(kind, data)
    digest, chunks = data
    return ChunkedPayload(kind, b"", digest, tuple([(offset, size) for offset, size in chunks]))
