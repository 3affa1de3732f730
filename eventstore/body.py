"""The body of each event type: frozen dataclass ↔ msgpack map. Used by `codec` only.

Field names are short written strings, listed in `docs/event-format.md`; fields that a reader does
not know are kept in `unknown` and written back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .events import (
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkSaved,
    Event,
    LogNudged,
    LogStarted,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    WritesSaved,
    has_chunks,
)
from .fields import (
    bytes_of,
    dump_payload,
    dump_value,
    identity_of,
    integer_of,
    load_payload,
    load_value,
    load_write,
    natural_of,
    text_of,
)

E = TypeVar("E")
M = TypeVar("M", CheckpointSaved, WritesSaved)
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BodyCodec(Generic[E]):
    """How one event type is written."""

    type_name: str
    version: int
    """The newest one."""
    dump: Callable[[E], Body]
    load: Callable[[Body], E]
    is_threadless: bool = False
    version_of: Callable[[E], int] | None = None
    """The oldest version that can say what an event says: readers of it need no upgrade.

    None: always the newest one.
    """
    type_bytes: bytes = b""
    newest_bytes: bytes = b""

    def __post_init__(self) -> None:
        object.__setattr__(self, "type_bytes", self.type_name.encode())
        object.__setattr__(self, "newest_bytes", b"%d" % self.version)

    def version_bytes(self, event: E) -> bytes:
        """Return the version that an event is written as."""
        return self.newest_bytes if self.version_of is None else b"%d" % self.version_of(event)


def _load_chunked_at(body: Body) -> int | None:
    chunked_at = body.pop("chunked_at", None)
    return None if chunked_at is None else natural_of(chunked_at)


def _checked(event: M) -> M:
    """Return a manifest, or any other event of its type, unless it hides that it is one."""
    if event.chunked_at is None and has_chunks(event):
        raise ValueError("a payload lies in chunks, and `chunked_at` is missing")
    return event


def _manifest_version(event: CheckpointSaved | WritesSaved) -> int:
    """Return 2 for an event whose payloads lie in chunks, which nobody may pass over."""
    return 1 if event.chunked_at is None else 2


def _dump_checkpoint(event: CheckpointSaved) -> Body:
    body: Body = {
        "ns": event.namespace,
        "id": event.checkpoint_id,
        "parent": event.parent_id,
        "parent_event": event.parent_event,
        "incarnation": event.incarnation,
        "channels": {
            name: dump_value(state.version, state.value) for name, state in event.channels.items()
        },
        "body": dump_payload(event.body),
        "metadata": event.metadata,
    }
    if event.metadata_payloads:
        body["metadata_payloads"] = {
            key: dump_payload(payload) for key, payload in event.metadata_payloads.items()
        }
    if event.chunked_at is not None:
        body["chunked_at"] = event.chunked_at
    return _with_rest(body, event.copy_id, _checked(event).unknown)


def _load_checkpoint(body: Body) -> CheckpointSaved:
    parent_id, parent_event = body.pop("parent"), body.pop("parent_event")
    event = CheckpointSaved(
        namespace=text_of(body.pop("ns")),
        checkpoint_id=text_of(body.pop("id")),
        parent_id=None if parent_id is None else text_of(parent_id),
        parent_event=None if parent_event is None else identity_of(parent_event),
        incarnation=natural_of(body.pop("incarnation")),
        channels={text_of(k): load_value(v) for k, v in body.pop("channels").items()},
        body=load_payload(body.pop("body")),
        metadata=dict(body.pop("metadata")),
        metadata_payloads={
            text_of(k): load_payload(v) for k, v in body.pop("metadata_payloads", _NOTHING).items()
        },
        copy_id=_copy_id(body),
        chunked_at=_load_chunked_at(body),
        unknown=body,
    )
    return _checked(event)


_NOTHING: Mapping[str, Any] = {}


def _copy_id(body: Body) -> bytes | None:
    copy_id = body.pop("copy", None)
    return None if copy_id is None else identity_of(copy_id)


def _dump_writes(event: WritesSaved) -> Body:
    body: Body = {
        "ns": event.namespace,
        "id": event.checkpoint_id,
        "task": event.task_id,
        "path": event.task_path,
        "incarnation": event.incarnation,
        "writes": [[w.index, w.channel, *dump_payload(w.payload)] for w in event.writes],
    }
    if event.chunked_at is not None:
        body["chunked_at"] = event.chunked_at
    return _with_rest(body, event.copy_id, _checked(event).unknown)


def _load_writes(body: Body) -> WritesSaved:
    event = WritesSaved(
        namespace=text_of(body.pop("ns")),
        checkpoint_id=text_of(body.pop("id")),
        task_id=text_of(body.pop("task")),
        task_path=text_of(body.pop("path")),
        incarnation=natural_of(body.pop("incarnation")),
        writes=tuple([load_write(item) for item in body.pop("writes")]),
        copy_id=_copy_id(body),
        chunked_at=_load_chunked_at(body),
        unknown=body,
    )
    return _checked(event)


def _load_checkpoints_deleted(body: Body) -> CheckpointsDeleted:
    return CheckpointsDeleted(
        incarnation=natural_of(body.pop("incarnation")),
        checkpoints=tuple((text_of(ns), text_of(id_)) for ns, id_, *_ in body.pop("checkpoints")),
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
    CheckpointSaved: BodyCodec(
        "checkpoint.saved",
        2,
        _dump_checkpoint,
        _load_checkpoint,
        version_of=_manifest_version,
    ),
    WritesSaved: BodyCodec(
        "writes.saved", 2, _dump_writes, _load_writes, version_of=_manifest_version
    ),
    ChunkSaved: BodyCodec(
        "chunk.saved",
        1,
        lambda event: {**event.unknown, "incarnation": event.incarnation, "data": event.data},
        lambda body: ChunkSaved(
            incarnation=natural_of(body.pop("incarnation")),
            data=bytes_of(body.pop("data")),
            unknown=body,
        ),
    ),
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
            copy_id=identity_of(body.pop("copy")),
            source_thread_id=text_of(body.pop("source")),
            incarnation=natural_of(body.pop("incarnation")),
            checkpoints=natural_of(body.pop("checkpoints")),
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
            thread_hash=identity_of(body.pop("thread")),
            incarnation=natural_of(body.pop("incarnation")),
            unknown=body,
        ),
        is_threadless=True,
    ),
    LogStarted: BodyCodec(
        "log.started",
        1,
        lambda event: {**event.unknown, "log": event.log_id, "partitions": event.partitions},
        lambda body: LogStarted(
            log_id=bytes_of(body.pop("log")),
            partitions=integer_of(body.pop("partitions")),
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
