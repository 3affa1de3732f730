"""The body of each event type: frozen dataclass ↔ msgpack map. Used by `codec` only.

Field names are short written strings, listed in `docs/event-format.md`; fields that a reader does
not know are kept in `unknown` and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from .events import (
    EMPTY,
    EVENT_ID_BYTES,
    INHERITED,
    ChannelState,
    ChannelValue,
    CheckpointSaved,
    CheckpointsDeleted,
    Empty,
    Event,
    Extended,
    Full,
    Inherited,
    LogNudged,
    LogStarted,
    Payload,
    Referenced,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    Write,
    WritesSaved,
)

E = TypeVar("E")
Body = dict[str, Any]

MAX_NATURAL: Final = 1 << 63

KIND_INHERITED: Final = 0
KIND_REFERENCED: Final = 1
KIND_FULL: Final = 2
KIND_EMPTY: Final = 3
KIND_EXTENDED: Final = 4


@dataclass(frozen=True, slots=True)
class BodyCodec(Generic[E]):
    """How one event type is written."""

    type_name: str
    version: int
    dump: Callable[[E], Body]
    load: Callable[[Body], E]
    is_threadless: bool = False
    type_bytes: bytes = b""
    version_bytes: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "type_bytes", self.type_name.encode())
        object.__setattr__(self, "version_bytes", b"%d" % self.version)


def _dump_value(version: Any, value: ChannelValue) -> list[Any]:
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


def _load_value(item: list[Any]) -> ChannelState:
    version, kind = item[0], item[1]
    value: ChannelValue
    if kind == KIND_INHERITED:
        value = INHERITED
    elif kind == KIND_FULL:
        value = Full(Payload(_text(item[2]), _bytes(item[3])), _digest(item[4]))
    elif kind == KIND_EMPTY:
        value = EMPTY
    elif kind == KIND_REFERENCED:
        value = Referenced(_identity_or_none(item[2]), _natural(item[3]))
    elif kind == KIND_EXTENDED:
        value = _load_extended(item)
    else:
        raise ValueError(f"unknown kind of channel value: {kind!r}")
    if not isinstance(version, (int, float, str)):
        raise TypeError(f"bad channel version: {version!r}")
    return ChannelState(version, value)


def _load_extended(item: list[Any]) -> Extended:
    event_id, offset, kind, head, start, stop, tail, digest, kept = item[2:11]
    return Extended(
        _identity_or_none(event_id),
        _natural(offset),
        _text(kind),
        _bytes(head),
        _natural(start),
        _natural(stop),
        _bytes(tail),
        _digest(digest),
        None if kept is None else _natural(kept),
    )


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected an integer, found {type(value).__name__}")
    return value


def _natural(value: Any) -> int:
    """Return an offset, a count or a size."""
    if not isinstance(value, int) or not 0 <= value < MAX_NATURAL:
        raise ValueError(f"expected a number from 0 to 2^63, found {value!r}")
    return value


def _identity(value: Any) -> bytes:
    """Return an event id, or what else is as long."""
    if not isinstance(value, bytes) or len(value) != EVENT_ID_BYTES:
        raise ValueError(f"expected {EVENT_ID_BYTES} bytes, found {value!r:.100}")
    return value


def _identity_or_none(value: Any) -> bytes | None:
    return None if value is None else _identity(value)


_digest = _identity


def _payload(pair: Any) -> Payload:
    kind, data = pair
    return Payload(_text(kind), _bytes(data))


def _dump_checkpoint(event: CheckpointSaved) -> Body:
    body: Body = {
        "ns": event.namespace,
        "id": event.checkpoint_id,
        "parent": event.parent_id,
        "parent_event": event.parent_event,
        "incarnation": event.incarnation,
        "channels": {
            name: _dump_value(state.version, state.value) for name, state in event.channels.items()
        },
        "body": [event.body.type, event.body.data],
        "metadata": event.metadata,
    }
    if event.metadata_payloads:
        body["metadata_payloads"] = {
            key: [payload.type, payload.data] for key, payload in event.metadata_payloads.items()
        }
    return _with_rest(body, event.copy_id, event.unknown)


def _load_checkpoint(body: Body) -> CheckpointSaved:
    parent_id, parent_event = body.pop("parent"), body.pop("parent_event")
    return CheckpointSaved(
        namespace=_text(body.pop("ns")),
        checkpoint_id=_text(body.pop("id")),
        parent_id=None if parent_id is None else _text(parent_id),
        parent_event=None if parent_event is None else _identity(parent_event),
        incarnation=_natural(body.pop("incarnation")),
        channels={_text(k): _load_value(v) for k, v in body.pop("channels").items()},
        body=_payload(body.pop("body")),
        metadata=dict(body.pop("metadata")),
        metadata_payloads={
            _text(k): _payload(v) for k, v in body.pop("metadata_payloads", _NOTHING).items()
        },
        copy_id=_copy_id(body),
        unknown=body,
    )


_NOTHING: Mapping[str, Any] = {}


def _copy_id(body: Body) -> bytes | None:
    copy_id = body.pop("copy", None)
    return None if copy_id is None else _identity(copy_id)


def _dump_writes(event: WritesSaved) -> Body:
    body: Body = {
        "ns": event.namespace,
        "id": event.checkpoint_id,
        "task": event.task_id,
        "path": event.task_path,
        "incarnation": event.incarnation,
        "writes": [[w.index, w.channel, w.payload.type, w.payload.data] for w in event.writes],
    }
    return _with_rest(body, event.copy_id, event.unknown)


def _load_writes(body: Body) -> WritesSaved:
    return WritesSaved(
        namespace=_text(body.pop("ns")),
        checkpoint_id=_text(body.pop("id")),
        task_id=_text(body.pop("task")),
        task_path=_text(body.pop("path")),
        incarnation=_natural(body.pop("incarnation")),
        writes=tuple([_load_write(item) for item in body.pop("writes")]),
        copy_id=_copy_id(body),
        unknown=body,
    )


def _load_write(item: list[Any]) -> Write:
    index, channel, kind, data = item[:4]
    # One condition where all is as it should be: this is the hottest place of a rebuild.
    if not (
        isinstance(index, int)
        and isinstance(channel, str)
        and isinstance(kind, str)
        and isinstance(data, bytes)
    ):
        raise TypeError(f"bad write: {item!r:.100}")
    return Write(index, channel, Payload(kind, data))


def _load_checkpoints_deleted(body: Body) -> CheckpointsDeleted:
    return CheckpointsDeleted(
        incarnation=_natural(body.pop("incarnation")),
        checkpoints=tuple((_text(ns), _text(id_)) for ns, id_, *_ in body.pop("checkpoints")),
        copy_id=_copy_id(body),
        unknown=body,
    )


def _with_rest(body: Body, copy_id: bytes | None, unknown: Mapping[str, Any]) -> Body:
    if copy_id is not None:
        body["copy"] = copy_id
    if unknown:
        body.update(unknown)
    return body


BODIES: Mapping[type[Event], BodyCodec[Any]] = {
    CheckpointSaved: BodyCodec("checkpoint.saved", 1, _dump_checkpoint, _load_checkpoint),
    WritesSaved: BodyCodec("writes.saved", 1, _dump_writes, _load_writes),
    ThreadDeleted: BodyCodec(
        "thread.deleted",
        1,
        lambda event: dict(event.unknown),
        lambda body: ThreadDeleted(unknown=body),
    ),
    CheckpointsDeleted: BodyCodec(
        "checkpoints.deleted",
        1,
        lambda event: _with_rest(
            {
                "incarnation": event.incarnation,
                "checkpoints": [list(pair) for pair in event.checkpoints],
            },
            event.copy_id,
            event.unknown,
        ),
        _load_checkpoints_deleted,
    ),
    ThreadCopied: BodyCodec(
        "thread.copied",
        1,
        lambda event: _with_rest(
            {
                "source": event.source_thread_id,
                "incarnation": event.incarnation,
                "checkpoints": event.checkpoints,
            },
            event.copy_id,
            event.unknown,
        ),
        lambda body: ThreadCopied(
            copy_id=_identity(body.pop("copy")),
            source_thread_id=_text(body.pop("source")),
            incarnation=_natural(body.pop("incarnation")),
            checkpoints=_natural(body.pop("checkpoints")),
            unknown=body,
        ),
    ),
    ThreadErased: BodyCodec(
        "thread.erased",
        1,
        lambda event: {
            **event.unknown,
            "thread": event.thread_hash,
            "incarnation": event.incarnation,
        },
        lambda body: ThreadErased(
            thread_hash=_identity(body.pop("thread")),
            incarnation=_natural(body.pop("incarnation")),
            unknown=body,
        ),
        is_threadless=True,
    ),
    LogStarted: BodyCodec(
        "log.started",
        1,
        lambda event: {**event.unknown, "log": event.log_id, "partitions": event.partitions},
        lambda body: LogStarted(
            log_id=_bytes(body.pop("log")),
            partitions=_integer(body.pop("partitions")),
            unknown=body,
        ),
        is_threadless=True,
    ),
    LogNudged: BodyCodec(
        "log.nudged",
        1,
        lambda event: dict(event.unknown),
        lambda body: LogNudged(unknown=body),
        is_threadless=True,
    ),
}
