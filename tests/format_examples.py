"""The events whose bytes `tests/format/` pins: one of each version, and of each channel value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from eventstore.codec import EncodedEvent
from eventstore.events import (
    EMPTY,
    INHERITED,
    ChannelState,
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkedPayload,
    ChunkSaved,
    Extended,
    Full,
    LogNudged,
    LogStarted,
    NewEvent,
    Payload,
    Referenced,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    Write,
    WritesSaved,
)
from eventstore.log import LogRecord

FOLDER: Final = Path(__file__).with_name("format")

TIME: Final = b"2026-01-02T03:04:05.678Z"
"""What stands in `ce_time` of every golden record."""

_EVENT_ID = bytes(range(16))
_OTHER_ID = bytes(range(16, 32))
_CHECKPOINT = "1f0a5883-0000-6000-8000-000000000002"
_PARENT = "1f0a5883-0000-6000-8000-000000000001"
_DIGEST = bytes.fromhex("5d9c9a8c6a0b4c1e8f7d6e5f4a3b2c1d")

_CHANNELS: Mapping[str, ChannelState] = {
    "unchanged": ChannelState(3, INHERITED),
    "elsewhere": ChannelState("00000002.0.5", Referenced(_OTHER_ID, 41)),
    "messages": ChannelState(4, Full(Payload("msgpack", b"\x91\xa2hi"), _DIGEST)),
    "branch:to:agent": ChannelState(5, EMPTY),
    "history": ChannelState(
        1.5,
        Extended(_OTHER_ID, 41, "msgpack", b"\xdc\x00\x11", 1, 200, b"\xa3new", _DIGEST, 16),
    ),
}

_SAVED = CheckpointSaved(
    namespace="child:0",
    checkpoint_id=_CHECKPOINT,
    parent_id=_PARENT,
    parent_event=_OTHER_ID,
    incarnation=7,
    channels=dict(_CHANNELS),
    body=Payload("msgpack", b"\x81\xa1v\x04"),
    metadata={"source": "loop", "step": 1, "parents": {"": _PARENT}, "ü": [None, True, 1.5, b"\0"]},
    metadata_payloads={"user": Payload("json", b'{"id": 1}')},
    copy_id=_OTHER_ID,
)

_CHUNKED = ChunkedPayload("msgpack", b"", _DIGEST, ((43, 524_288), (44, 1_000)))
_CHUNKED_AT = 1_767_323_045_000

_MANIFEST = replace(
    _SAVED,
    channels={**_CHANNELS, "documents": ChannelState(6, _CHUNKED)},
    body=_CHUNKED,
    metadata_payloads={**_SAVED.metadata_payloads, "large": _CHUNKED},
    chunked_at=_CHUNKED_AT,
)

EXAMPLES: Final[Mapping[str, NewEvent]] = {
    "checkpoint.saved.v1": NewEvent("thread/1", _SAVED, _EVENT_ID),
    "writes.saved.v1": NewEvent(
        "thread/1",
        WritesSaved(
            "",
            _CHECKPOINT,
            "task",
            "~__pregel_pull, node",
            0,
            (
                Write(0, "messages", Payload("msgpack", b"\xa2hi")),
                Write(-1, "__error__", Payload("null", b"")),
            ),
        ),
        _EVENT_ID,
    ),
    "checkpoint.saved.v2": NewEvent("thread/1", _MANIFEST, _EVENT_ID),
    "writes.saved.v2": NewEvent(
        "thread/1",
        WritesSaved(
            "",
            _CHECKPOINT,
            "task",
            "~__pregel_pull, node",
            0,
            (Write(0, "messages", Payload("msgpack", b"\xa2hi")), Write(1, "documents", _CHUNKED)),
            chunked_at=_CHUNKED_AT,
        ),
        _EVENT_ID,
    ),
    "chunk.saved.v1": NewEvent("thread/1", ChunkSaved(7, b"\x91\xa2hi"), _EVENT_ID, part=1),
    "thread.deleted.v1": NewEvent("thread/1", ThreadDeleted(), _EVENT_ID),
    "checkpoints.deleted.v1": NewEvent(
        "thread/1", CheckpointsDeleted(7, (("", _PARENT), ("child:0", _CHECKPOINT))), _EVENT_ID
    ),
    "thread.copied.v1": NewEvent("thread/1", ThreadCopied(_OTHER_ID, "source", 7, 3), _EVENT_ID),
    "thread.erased.v1": NewEvent(None, ThreadErased(_OTHER_ID, 7), _EVENT_ID),
    "log.started.v1": NewEvent(None, LogStarted(_OTHER_ID, 8), _EVENT_ID),
    "log.nudged.v1": NewEvent(None, LogNudged(), _EVENT_ID),
}

COMPRESSED: Final = "checkpoint.saved.v1.zstd"
"""A record whose body is compressed. zstd's releases differ in their bytes: only read, not made."""

LARGE: Final = NewEvent(
    "thread/1",
    CheckpointSaved(
        "",
        _CHECKPOINT,
        None,
        None,
        0,
        {"text": ChannelState(1, Full(Payload("bytes", b"abc" * 500), _DIGEST))},
        Payload("msgpack", b"\x80"),
        {"source": "input", "step": -1},
    ),
    _EVENT_ID,
    part=2,
)


def render(encoded: EncodedEvent) -> str:
    """Return a golden file's text: what `golden` reads, in lines that a diff can show."""
    digits = encoded.value.hex()
    lines = [digits[start : start + 64] for start in range(0, len(digits), 64)]
    headers = {name: value.decode() for name, value in encoded.headers}
    stored = {"key": encoded.key.decode(), "headers": headers, "value": lines}
    return json.dumps(stored, indent=1, ensure_ascii=False) + "\n"


def golden(name: str) -> LogRecord:
    """Return the record that a golden file holds."""
    stored: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return LogRecord(
        partition=3,
        offset=42,
        timestamp_ms=1_767_323_045_678,
        key=stored["key"].encode(),
        value=bytes.fromhex("".join(stored["value"])),
        headers=tuple([(key, value.encode()) for key, value in stored["headers"].items()]),
    )
