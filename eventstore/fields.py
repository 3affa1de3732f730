"""What stands in bodies: payloads, channel values, plain fields, each checked when it is read."""

from __future__ import annotations

from typing import Any, Final

from .events import (
    EMPTY,
    EVENT_ID_BYTES,
    INHERITED,
    MAX_CHUNKS,
    ChannelState,
    ChannelValue,
    ChunkedPayload,
    Empty,
    Extended,
    Full,
    Inherited,
    Payload,
    Referenced,
    Write,
)

MAX_NATURAL: Final = 1 << 63

KIND_INHERITED: Final = 0
KIND_REFERENCED: Final = 1
KIND_FULL: Final = 2
KIND_EMPTY: Final = 3
KIND_EXTENDED: Final = 4
KIND_CHUNKED: Final = 5


def dump_value(version: Any, value: ChannelValue) -> list[Any]:
    """Return a channel value as it is written."""
    match value:
        case Inherited():
            return [version, KIND_INHERITED]
        case Full(payload, digest):
            return [version, KIND_FULL, payload.type, payload.data, digest]
        case Empty():
            return [version, KIND_EMPTY]
        case Referenced(event_id, offset):
            return [version, KIND_REFERENCED, event_id, offset]
        case Extended():
            return [
                version,
                KIND_EXTENDED,
                value.event_id,
                value.offset,
                value.type,
                value.head,
                value.start,
                value.stop,
                value.tail,
                value.digest,
                value.kept_items,
            ]
        case ChunkedPayload():
            return [version, KIND_CHUNKED, value.type, *_dump_chunks(value)]


def load_value(item: list[Any]) -> ChannelState:
    """Return the channel of a written value."""
    version, kind = item[0], item[1]
    value: ChannelValue
    if kind == KIND_INHERITED:
        value = INHERITED
    elif kind == KIND_FULL:
        value = Full(Payload(text_of(item[2]), bytes_of(item[3])), identity_of(item[4]))
    elif kind == KIND_EMPTY:
        value = EMPTY
    elif kind == KIND_REFERENCED:
        value = Referenced(identity_or_none(item[2]), natural_of(item[3]))
    elif kind == KIND_EXTENDED:
        value = _load_extended(item)
    elif kind == KIND_CHUNKED:
        value = _load_chunked(item[2], item[3:])
    else:
        raise ValueError(f"unknown kind of channel value: {kind!r}")
    if not isinstance(version, (int, float, str)):
        raise TypeError(f"bad channel version: {version!r}")
    return ChannelState(version, value)


def _load_extended(item: list[Any]) -> Extended:
    event_id, offset, kind, head, start, stop, tail, digest, kept = item[2:11]
    return Extended(
        identity_or_none(event_id),
        natural_of(offset),
        text_of(kind),
        bytes_of(head),
        natural_of(start),
        natural_of(stop),
        bytes_of(tail),
        identity_of(digest),
        None if kept is None else natural_of(kept),
    )


def bytes_of(value: Any) -> bytes:
    """Return bytes, and nothing else."""
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return value


def text_of(value: Any) -> str:
    """Return a text, and nothing else."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    return value


def integer_of(value: Any) -> int:
    """Return an integer, and nothing else."""
    if not isinstance(value, int):
        raise TypeError(f"expected an integer, found {type(value).__name__}")
    return value


def natural_of(value: Any) -> int:
    """Return an offset, a count or a size."""
    if not isinstance(value, int) or not 0 <= value < MAX_NATURAL:
        raise ValueError(f"expected a number from 0 to 2^63, found {value!r}")
    return value


def identity_of(value: Any) -> bytes:
    """Return an event id, or what else is as long."""
    if not isinstance(value, bytes) or len(value) != EVENT_ID_BYTES:
        raise ValueError(f"expected {EVENT_ID_BYTES} bytes, found {value!r:.100}")
    return value


def identity_or_none(value: Any) -> bytes | None:
    """Return an event id, or None where there is none."""
    return None if value is None else identity_of(value)


def dump_payload(payload: Payload) -> list[Any]:
    """Return a payload as it is written."""
    if isinstance(payload, ChunkedPayload):
        return [payload.type, None, *_dump_chunks(payload)]
    return [payload.type, payload.data]


def _dump_chunks(payload: ChunkedPayload) -> list[Any]:
    return [payload.digest, [list(chunk) for chunk in payload.chunks]]


def load_payload(item: Any) -> Payload:
    """Return the payload of a written one."""
    kind, data, *rest = item
    if data is None:
        return _load_chunked(kind, rest)
    return Payload(text_of(kind), bytes_of(data))


def _load_chunked(kind: Any, rest: list[Any]) -> ChunkedPayload:
    digest, chunks = rest[:2]
    if len(chunks) > MAX_CHUNKS:
        raise ValueError(f"a payload of {len(chunks)} chunks")
    return ChunkedPayload(
        text_of(kind),
        b"",
        digest=identity_of(digest),
        chunks=tuple([(natural_of(offset), natural_of(size)) for offset, size, *_ in chunks]),
    )


def load_write(item: list[Any]) -> Write:
    """Return a pending write of a written one."""
    index, channel, kind, data = item[:4]
    # One condition where all is as it should be: this is the hottest place of a rebuild.
    if not (
        isinstance(index, int)
        and isinstance(channel, str)
        and isinstance(kind, str)
        and isinstance(data, bytes)
    ):
        if data is None and isinstance(index, int):
            return Write(index, text_of(channel), _load_chunked(kind, item[4:]))
        raise TypeError(f"bad write: {item!r:.100}")
    return Write(index, channel, Payload(kind, data))
