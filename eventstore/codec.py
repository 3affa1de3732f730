"""Event ↔ record: CloudEvents headers, a msgpack body, versions and their upcasters.

`docs/event-format.md` specifies what this module writes. Nothing here does I/O, and nothing here
decodes a payload.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Any, Final, cast

import msgpack
import zstandard

from .body import BODIES, BodyCodec
from .errors import CorruptEventError, UnknownEventVersionError
from .events import (
    EVENT_ID_BYTES,
    Event,
    LogStarted,
    NewEvent,
    RecordedEvent,
    ThreadErased,
)
from .log import LogRecord

SPEC_VERSION: Final = b"1.0"
CONTENT_TYPE: Final = b"application/msgpack"
SOURCE: Final = b"langgraph-checkpoint-kafka"
ZSTD: Final = b"zstd"

COMPRESS_FROM_BYTES: Final = 256
"""Bodies below this size are stored as they are: zstd saves nothing worth its time there."""

MAX_BODY_BYTES: Final = 1 << 30
"""What a reader is willing to decompress; a record that claims more is corrupt."""

DIGEST_BYTES: Final = 16
THREAD_HASH_BYTES: Final = 16

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _unchanged(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a body that means the same in the next version."""
    return fields


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    # Version 2 adds payloads that lie in chunks.
    ("checkpoint.saved", 1): _unchanged,
    ("writes.saved", 1): _unchanged,
}
"""(type name, version) → a pure function to the body of the next version."""

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"

_SPEC_VERSION_HEADER: Final = ("ce_specversion", SPEC_VERSION)
_SOURCE_HEADER: Final = ("ce_source", SOURCE)
_CONTENT_TYPE_HEADER: Final = ("content-type", CONTENT_TYPE)
_ZSTD_HEADER: Final = ("content-encoding", ZSTD)

# 21 bytes are the most that varints of a record's frame take, 10 those of one header.
_FRAME_SIZE: Final = 21 + sum(
    len(name) + len(value) + 10
    for name, value in (
        _SPEC_VERSION_HEADER,
        _SOURCE_HEADER,
        _CONTENT_TYPE_HEADER,
        *((name, b"") for name in ("ce_type", "ce_id", "ce_time", "ce_subject", "ce_eventversion")),
    )
)
"""What `encode` adds to every record, whatever it says."""
_ZSTD_HEADER_SIZE: Final = len("content-encoding") + len(ZSTD) + 10


def digest_of(data: bytes) -> bytes:
    """Return the digest that values carry: BLAKE2b with 16 bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=65_536)
def thread_hash(thread_id: str) -> bytes:
    """Return the name under which a thread is filed: the first 16 bytes of SHA-256 of its id."""
    return sha256(thread_id.encode()).digest()[:THREAD_HASH_BYTES]


@dataclass(slots=True)
class EncodedEvent:
    """An event as a record's key, headers and value. Made by `encode`, changed by nobody."""

    # Not frozen: one is made per append, and frozen ones take three times as long to make.
    key: bytes
    headers: list[tuple[str, bytes]]
    value: bytes
    size: int
    """An upper bound of the record's size in bytes, before the log's own compression."""
    body_size: int
    """Bytes of the body before it was compressed: about what the event takes in memory."""


def record_key(thread_id: str, event_id: bytes, part: int = 0) -> bytes:
    """Return the key of one record: `<thread id>/<event id in hex>/<part>`, unique for ever."""
    return f"{thread_id}/{event_id.hex()}/{part}".encode()


def split_record_key(key: bytes) -> tuple[str, bytes, int]:
    """Return (thread id, event id, part) of a record's key.

    Raises:
        ValueError: It is not a key of ours.
    """
    try:
        thread_id, event_id, part = key.decode().rsplit("/", 2)
        identity = bytes.fromhex(event_id)
        number = int(part)
    except ValueError as error:
        raise ValueError(f"not a record key: {key!r}") from error
    if len(identity) != EVENT_ID_BYTES or number < 0:
        raise ValueError(f"not a record key: {key!r}")
    return thread_id, identity, number


def encode(new: NewEvent) -> EncodedEvent:
    """Return the record of an event.

    Raises:
        ValueError, TypeError: Something in the event is not encodable; the message names it.
    """
    event = new.event
    codec = BODIES[type(event)]
    try:
        subject = _subject(new).encode()
        body: bytes = msgpack.packb(codec.dump(event))
    except (UnicodeEncodeError, OverflowError) as error:
        raise ValueError(f"{codec.type_name} cannot be encoded: {error}") from error
    event_id = new.event_id.hex().encode()
    now, version = _now(), codec.version_bytes(event)
    headers = [
        _SPEC_VERSION_HEADER,
        ("ce_type", codec.type_bytes),
        ("ce_id", event_id),
        _SOURCE_HEADER,
        ("ce_time", now),
        ("ce_subject", subject),
        ("ce_eventversion", version),
        _CONTENT_TYPE_HEADER,
    ]
    size, body_size = _FRAME_SIZE, len(body)
    if body_size >= COMPRESS_FROM_BYTES:
        packed = _zstd.compressor.compress(body)
        if len(packed) < body_size:
            body = packed
            headers.append(_ZSTD_HEADER)
            size += _ZSTD_HEADER_SIZE
    key = b"%b/%b/%d" % (subject, event_id, new.part)
    size += len(key) + len(body) + len(subject) + len(event_id) + len(now)
    size += len(codec.type_bytes) + len(version)
    return EncodedEvent(key, headers, body, size, body_size)


def decode(record: LogRecord) -> RecordedEvent:
    """Return the event of a record that is not a tombstone.

    Raises:
        CorruptEventError: It is not an event of ours.
        UnknownEventVersionError: Its type or version is newer than this reader.
    """
    try:
        headers = dict(record.headers)
        type_name = headers["ce_type"].decode()
        version = int(headers["ce_eventversion"])
        subject, event_id, part = split_record_key(record.key or b"")
    except (KeyError, ValueError) as error:
        raise CorruptEventError(
            record.partition, record.offset, reason=f"bad headers or key: {error!r}"
        ) from error
    codec = _BY_NAME.get(type_name)
    if codec is None or version > codec.version:
        raise UnknownEventVersionError(
            record.partition, record.offset, type_name=type_name, version=version
        )
    try:
        fields = _unpack(record.value or b"", headers.get("content-encoding"))
        for step in range(version, codec.version):
            fields = UPCASTERS[type_name, step](fields)
        event = codec.load(fields)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise CorruptEventError(
            record.partition, record.offset, reason=f"bad body of {type_name}: {error!r}"
        ) from error
    return RecordedEvent(
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        thread_id=None if isinstance(event, _THREADLESS) else subject,
        event=event,
        event_id=event_id,
        part=part,
    )


def decoded_size(record: LogRecord) -> int:
    """Return about how many bytes a record's event takes once it is decoded."""
    value = record.value
    if value is None:
        return 0
    if value[:4] == _ZSTD_MAGIC:
        try:
            return max(len(value), int(zstandard.frame_content_size(value)))
        except zstandard.ZstdError:
            pass
    return len(value)


def thread_of(record: LogRecord) -> str | None:
    """Return the thread that a record names by its key or else its subject, decodable or not.

    None for events of no thread, whose key names what they are.
    """
    if any(name == "ce_type" and value in _THREADLESS_TYPES for name, value in record.headers):
        return None
    if record.key is not None:
        try:
            return split_record_key(record.key)[0]
        except ValueError:
            pass
    for name, value in record.headers:
        if name == "ce_subject":
            try:
                return value.decode()
            except UnicodeDecodeError:
                return None
    return None


def _unpack(value: bytes, encoding: bytes | None) -> dict[str, Any]:
    if encoding == ZSTD:
        try:
            size = zstandard.frame_content_size(value)
            if size > MAX_BODY_BYTES:
                raise ValueError(f"the body claims {size} bytes")
            value = _zstd.decompressor.decompress(value)
        except zstandard.ZstdError as error:
            raise ValueError(f"bad zstd frame: {error}") from error
    elif encoding is not None:
        raise ValueError(f"unknown content-encoding {encoding!r}")
    try:
        fields = msgpack.unpackb(value)
    except (msgpack.UnpackException, RecursionError) as error:
        raise ValueError(f"bad msgpack: {error!r}") from error
    if not isinstance(fields, dict):
        raise TypeError("the body is no map")
    return cast("dict[str, Any]", fields)


class _Zstd(threading.local):
    """Contexts per OS thread: zstd works without the interpreter's lock, one caller at a time."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def _subject(new: NewEvent) -> str:
    if isinstance(new.event, ThreadErased):
        return new.event.thread_hash.hex()
    if new.thread_id is not None:
        return new.thread_id
    return "log" if isinstance(new.event, LogStarted) else "housekeeping"


_last_second = (-1, b"")


def _now() -> bytes:
    # Milliseconds of one second share the formatted prefix: formatting costs more than packing.
    global _last_second  # noqa: PLW0603 - a cache of one entry, replaced as a whole
    now = time.time()
    second = int(now)
    known, prefix = _last_second
    if known != second:
        prefix = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.").encode()
        _last_second = (second, prefix)
    return b"%b%03dZ" % (prefix, int((now - second) * 1000))


_BY_NAME: Mapping[str, BodyCodec[Any]] = {codec.type_name: codec for codec in BODIES.values()}
_THREADLESS: tuple[type[Event], ...] = tuple(
    kind for kind, codec in BODIES.items() if codec.is_threadless
)
_THREADLESS_TYPES = frozenset(codec.type_bytes for codec in BODIES.values() if codec.is_threadless)
