"""How the view is laid out, the same for every adapter: keys, fields, members and their bytes.

A view is, per partition, a set of *maps* (key → field → value) and of *sorted sets* (key → members
in byte order). This module names all of them and packs what they hold; it does no I/O. An adapter
puts its own prefix in front of every key and otherwise stores what it is given.

Epochs. All that a thread holds lies in its live *scope*, `thread hash + epoch`. Deleting a thread,
or completing a copy, changes the epoch in the thread's record: one field, however long the history.
What lies in a dead scope is unreachable and swept later in small steps.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgpack
from msgspec import Struct

from eventstore.events import Payload, Version

from .payloads import PackedData, packed_data, payload_of

# Maps of a partition.
THREADS: Final = b"t"
"""thread hash → thread record."""
POISON: Final = b"p"
"""offset → why; records that cannot be read and name no thread."""
PENDING: Final = b"h"
"""offset → record that goes unless a manifest names it in time; see `chunks`."""

# Sorted sets of a partition.
RECENT: Final = b"a"
"""activity + thread hash: threads that hold a checkpoint, by last activity."""
NEWEST: Final = b"n"
"""checkpoint id + scope + namespace: all checkpoints in the order of their ids."""
RUNS: Final = b"r"
"""run id + scope + namespace + checkpoint id."""
DEAD: Final = b"s"
"""Dead scopes that still have entries in `NEWEST`, `RUNS` and keys of their own."""

# Maps and sorted sets of a scope; the scope follows the letter.
ROWS: Final = b"c"
"""checkpoint field → row, of every visible checkpoint."""
HIDDEN: Final = b"o"
"""event id → row of a checkpoint that was replaced or removed."""
REMOVED: Final = b"d"
"""checkpoint field → life (4 bytes) + event id of the last row that was removed under this id."""
VALUES: Final = b"v"
"""value field → stored value; see `values`."""
BLOCKS: Final = b"b"
"""namespace, channel, number → block of what a growing channel has grown by; see `values`."""
WRITES: Final = b"w"
"""write member → one task's writes."""
WRITERS: Final = b"x"
"""write members: finds the tasks that wrote on a checkpoint."""
IDS: Final = b"i"
"""namespace + checkpoint id."""
TIMELINE: Final = b"j"
"""checkpoint id + namespace."""
SCOPE_LETTERS: Final = (ROWS, HIDDEN, REMOVED, VALUES, BLOCKS, WRITES, WRITERS, IDS, TIMELINE)

CHUNKS: Final = b"k"
"""offset → bytes of a chunk. Behind the letter: thread hash, epoch of the incarnation."""

# Maps of a thread; the thread hash follows the letter.
RECORDS: Final = b"l"
"""record field → note: what the log holds of a thread; see `noted`."""
WAITING: Final = b"q"
"""offset → packed record, of a parked thread."""

HASH_BYTES: Final = 16
EPOCH_BYTES: Final = 16
NO_EVENT: Final = b"\0" * 16

_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
u64 = _U64.pack


def epoch_of(incarnation: int) -> bytes:
    """Return the epoch that a thread has since its deletion at offset `incarnation` (0: never)."""
    return bytes(8) + _U64.pack(incarnation)


def placed_epoch(offset: int) -> bytes:
    """Return the epoch of a record that names no incarnation: a deletion, or an unreadable one.

    Its place tells what it belongs to: to the past when the thread was deleted behind it.
    """
    return b"\xff" * 8 + _U64.pack(offset)


def is_copy(epoch: bytes) -> bool:
    """Tell whether an epoch is the id of a copy; ids are random, and no other epoch is like one."""
    return epoch[:8] not in {bytes(8), b"\xff" * 8}


def sized(text: str) -> bytes:
    """Return a text behind its length (4 bytes)."""
    data = text.encode()
    return _U32.pack(len(data)) + data


@lru_cache(maxsize=16_384)  # asked for several times per event, and again by what follows it
def checkpoint_field(namespace: str, checkpoint_id: str) -> bytes:
    """Return the field of `ROWS` and `REMOVED`: both texts, each behind its length (4 bytes)."""
    return sized(namespace) + sized(checkpoint_id)


def split_checkpoint_field(field: bytes) -> tuple[str, str]:
    """Return (namespace, checkpoint id)."""
    (size,) = _U32.unpack_from(field)
    return field[4 : 4 + size].decode(), field[8 + size :].decode()


def write_member(namespace: str, checkpoint_id: str, life: int, task_id: str) -> bytes:
    """Return the field of `WRITES` and member of `WRITERS`.

    The life counts how often the checkpoint id was removed before: writes on a removed checkpoint
    never show on a later one of the same id.
    """
    return checkpoint_field(namespace, checkpoint_id) + _U32.pack(life) + task_id.encode()


def value_field(offset: int, channel: str) -> bytes:
    """Return the field of `VALUES`: the storing event's offset (8 bytes) and the channel."""
    return _U64.pack(offset) + channel.encode()


@lru_cache(maxsize=4_096)
def namespace_prefix(namespace: str) -> bytes:
    """Return what all members of `IDS` of one namespace begin with."""
    return sized(namespace)


def ordered(text: str) -> bytes:
    """Return bytes free of NUL that sort as the text does, so that a NUL may end them.

    They are the text's own bytes but for two characters that no sensible id holds: NUL becomes
    01 01, and 01 becomes 01 02.
    """
    data = text.encode()
    return data.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")


def unordered(data: bytes) -> str:
    """Return the text of `ordered`'s bytes."""
    return data.replace(b"\1\1", b"\0").replace(b"\1\2", b"\1").decode()


def timeline_member(checkpoint_id: str, namespace: str) -> bytes:
    """Return a member of `TIMELINE`: ordered id, NUL, namespace, its length (4 bytes)."""
    ns = namespace.encode()
    return ordered(checkpoint_id) + b"\0" + ns + _U32.pack(len(ns))


def split_timeline_member(member: bytes) -> tuple[str, str]:
    """Return (checkpoint id, namespace)."""
    (size,) = _U32.unpack_from(member, len(member) - 4)
    end = len(member) - 4 - size
    return unordered(member[: end - 1]), member[end : end + size].decode()


def newest_member(checkpoint_id: str, scope: bytes, namespace: str) -> bytes:
    """Return a member of `NEWEST`: ordered id, NUL, scope (32), namespace, its length (4 bytes)."""
    ns = namespace.encode()
    return ordered(checkpoint_id) + b"\0" + scope + ns + _U32.pack(len(ns))


def split_newest_member(member: bytes) -> tuple[str, bytes, str]:
    """Return (checkpoint id, scope, namespace)."""
    (size,) = _U32.unpack_from(member, len(member) - 4)
    start = len(member) - 4 - size
    end = start - HASH_BYTES - EPOCH_BYTES
    return unordered(member[: end - 1]), member[end:start], member[start : start + size].decode()


def run_prefix(run_id: str) -> bytes:
    """Return what all members of `RUNS` of one run begin with."""
    return sized(run_id)


def run_member(run_id: str, scope: bytes, namespace: str, checkpoint_id: str) -> bytes:
    """Return a member of `RUNS`: run id with its length, scope, checkpoint field."""
    return sized(run_id) + scope + checkpoint_field(namespace, checkpoint_id)


def split_run_member(member: bytes) -> tuple[bytes, str, str]:
    """Return (scope, namespace, checkpoint id)."""
    (size,) = _U32.unpack_from(member)
    start = 4 + size
    end = start + HASH_BYTES + EPOCH_BYTES
    return member[start:end], *split_checkpoint_field(member[end:])


class ThreadRecord(Struct, frozen=True, gc=False):
    """What the view knows of a thread.

    Packed: epoch (16 bytes), parked flag (1), incarnation (8), msgpack.
    """

    epoch: bytes
    incarnation: int
    """Offset of the last `thread.deleted`, 0 when there was none."""
    thread_id: str | None
    """None once a deleted thread is erased."""
    count: int
    """How many checkpoints are visible."""
    activity_ms: int
    """When the log stored the last event that changed what is visible."""
    parked: tuple[int, str] | None = None
    """(offset, reason) of the event that the thread waits behind."""
    parked_last: int = 0
    """Offset of the last record of a parked thread that cannot be read."""

    def pack(self) -> bytes:
        """Return the record's bytes."""
        parked = None if self.parked is None else (*self.parked, self.parked_last)
        rest: bytes = msgpack.packb((self.thread_id, self.count, self.activity_ms, parked))
        return self.epoch + (b"\1" if self.parked else b"\0") + u64(self.incarnation) + rest

    @classmethod
    def unpack(cls, data: bytes) -> ThreadRecord:
        """Return the record of `pack`'s bytes."""
        thread_id, count, activity_ms, parked = msgpack.unpackb(data[25:])
        record = (data[:16], int.from_bytes(data[17:25]), thread_id, count, activity_ms)
        if parked is None:
            return cls(*record)
        offset, reason, last = parked
        return cls(*record, (offset, reason), last)


class Unresolved(Struct, frozen=True, gc=False):
    """A reference that the fold could not follow."""

    offset: int
    """Where the missing thing should stand, or 0."""
    missing: str
    """What is missing, for people."""


ValueRef = int | Unresolved | None
"""Offset of the event that stored the value; None for a channel without a value."""

_ROW_HEAD = struct.Struct(">16sQI")
_REF = struct.Struct(">BQ")


@lru_cache(maxsize=4_096)
def _short_sized(text: str) -> bytes:
    data = text.encode()
    return _U16.pack(len(data)) + data


class Row(Struct, frozen=True, gc=False):
    """A checkpoint in the view: references, never values.

    Packed so that a script can follow the references without decoding the rest:
    event id (16), offset (8), life (4), parent (1 byte flag, 4 bytes length, text), count of
    channels (2), per channel: name (2 bytes length, text), kind (1), value offset (8); msgpack.
    """

    event_id: bytes
    offset: int
    life: int
    parent_id: str | None
    channels: dict[str, tuple[Version, ValueRef]]
    timestamp_ms: int
    body: Payload
    metadata: dict[str, Any]
    metadata_payloads: dict[str, Payload]

    def pack(self) -> bytes:
        """Return the row's bytes."""
        parts = [_ROW_HEAD.pack(self.event_id, self.offset, self.life)]
        if self.parent_id is None:
            parts.append(b"\0\0\0\0\0")
        else:
            parts.append(b"\1" + sized(self.parent_id))
        parts.append(_U16.pack(len(self.channels)))
        versions: list[Version] = []
        missing: dict[str, str] = {}
        for name, (version, ref) in self.channels.items():
            versions.append(version)
            if ref is None:
                packed = _REF.pack(0, 0)
            elif isinstance(ref, int):
                packed = _REF.pack(1, ref)
            else:
                packed = _REF.pack(2, ref.offset)
                missing[name] = ref.missing
            parts.append(_short_sized(name) + packed)
        tail: bytes = msgpack.packb(
            (
                self.timestamp_ms,
                versions,
                missing,
                self.body.type,
                packed_data(self.body),
                self.metadata,
                {k: (p.type, packed_data(p)) for k, p in self.metadata_payloads.items()},
            )
        )
        parts.append(tail)
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> Row:
        """Return the row of `pack`'s bytes."""
        event_id, offset, life = _ROW_HEAD.unpack_from(data)
        at = _ROW_HEAD.size + 5
        end: int = at + _U32.unpack_from(data, at - 4)[0]
        parent_id = data[at:end].decode() if data[at - 5] else None
        count: int = _U16.unpack_from(data, end)[0]
        names: list[tuple[str, int, int]] = []
        at = end + 2
        for _ in range(count):
            end = at + 2 + _U16.unpack_from(data, at)[0]
            state, ref = _REF.unpack_from(data, end)
            names.append((data[at + 2 : end].decode(), state, ref))
            at = end + _REF.size
        timestamp_ms, versions, missing, kind, body, metadata, payloads = msgpack.unpackb(data[at:])
        channels: dict[str, tuple[Version, ValueRef]] = {}
        for (name, state, ref), version in zip(names, versions, strict=True):
            value: ValueRef = None
            if state == 1:
                value = ref
            elif state == 2:  # noqa: PLR2004 - the kinds are listed in the class docstring
                value = Unresolved(ref, missing[name])
            channels[name] = (version, value)
        return cls(
            event_id,
            offset,
            life,
            parent_id,
            channels,
            timestamp_ms,
            payload_of(kind, body),
            metadata,
            {key: payload_of(*pair) for key, pair in payloads.items()},
        )


def pack_removed(life: int, event_id: bytes) -> bytes:
    """Return an entry of `REMOVED`."""
    return _U32.pack(life) + event_id


def unpack_removed(data: bytes) -> tuple[int, bytes]:
    """Return (life, event id of the last removed row or `NO_EVENT`)."""
    return _U32.unpack_from(data)[0], data[4:]


class StoredWrite(Struct, frozen=True, gc=False):
    """One pending write as the view holds it."""

    task_path: str
    task_id: str
    index: int
    channel: str
    payload: Payload


PackedWrite: TypeAlias = tuple[int, str, str, str, PackedData]
"""Index, task path, channel, type, data."""


def pack_writes(writes: Sequence[PackedWrite]) -> bytes:
    """Return an entry of `WRITES`."""
    packed: bytes = msgpack.packb(writes)
    return packed


def unpack_writes(data: bytes) -> list[PackedWrite]:
    """Return each of a task's writes."""
    return [tuple(item) for item in msgpack.unpackb(data)]


def stored_writes(member: bytes, data: bytes) -> list[StoredWrite]:
    """Return one task's writes, given its `WRITERS` member and its `WRITES` entry."""
    at = 0
    for _ in range(2):
        (size,) = _U32.unpack_from(member, at)
        at += 4 + size
    task_id = member[at + 4 :].decode()
    return [
        StoredWrite(path, task_id, index, channel, payload_of(kind, payload))
        for index, path, channel, kind, payload in unpack_writes(data)
    ]
