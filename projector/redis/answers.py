"""What the scripts reply, as the port's types. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from eventstore.events import EVENT_ID_BYTES
from projector.errors import ViewCorruptedError
from projector.layout import (
    IDS,
    TIMELINE,
    Row,
    StoredWrite,
    ThreadRecord,
    Unresolved,
    namespace_prefix,
    split_newest_member,
    split_timeline_member,
    stored_writes,
)
from projector.view import StoredCheckpoint, StoredHistory, StoredValue

_UNRESOLVED = b"\2"


class MissingRowError(Exception):
    """An index names a checkpoint that has no row. Caught by `read_from`."""


@contextmanager
def read_from(view: str, partition: int) -> Generator[None]:
    """Tell bytes that cannot be read from a view that cannot be reached.

    Raises:
        ViewCorruptedError: What the view holds is not what its layout says.
    """
    try:
        yield
    except (MissingRowError, struct.error, LookupError, ValueError) as error:
        raise ViewCorruptedError(view, partition=partition, reason=repr(error)) from error


def checkpoint_of(
    record: ThreadRecord, namespace: str, checkpoint_id: str, reply: list[Any] | None
) -> StoredCheckpoint:
    """Return a checkpoint of (row, parent is removed), or those and (values, members, writes…)."""
    if reply is None:
        raise MissingRowError(f"checkpoint {checkpoint_id!r} is in an index and has no row")
    row = Row.unpack(reply[0])
    values: dict[str, StoredValue] = {}
    writes: list[StoredWrite] = []
    if len(reply) > 2:  # noqa: PLR2004 - as the docstring says
        found, members, entries = reply[2:5]
        refs = [(name, ref) for name, (_, ref) in row.channels.items() if isinstance(ref, int)]
        for (name, ref), data in zip(refs, found, strict=True):
            values[name] = StoredValue(ref, joined(data))
        writes = writes_of(members, entries)
    return StoredCheckpoint(
        record,
        namespace,
        checkpoint_id,
        row,
        parent_is_removed=bool(reply[1]),
        values=values,
        writes=writes,
    )


def joined(parts: bytes | list[bytes] | None) -> bytes | None:
    """Return an entry that came as a whole, or as parts."""
    return b"".join(parts) if isinstance(parts, list) else parts


def writes_of(members: Sequence[bytes], entries: Sequence[bytes | None]) -> list[StoredWrite]:
    """Return the writes of several tasks."""
    return [
        write
        for member, data in zip(members, entries, strict=True)
        if data is not None
        for write in stored_writes(member, data)
    ]


def listed(
    index: bytes, namespace: str | None, threads: Mapping[bytes, ThreadRecord], entry: list[Any]
) -> StoredCheckpoint:
    """Return a checkpoint of a listing; `namespace` is the one that `IDS` was read for."""
    thread, member, reply = entry
    if index == IDS:
        name = namespace or ""
        checkpoint_id = member[len(namespace_prefix(name)) :].decode()
    elif index == TIMELINE:
        checkpoint_id, name = split_timeline_member(member)
    else:
        checkpoint_id, _, name = split_newest_member(member)
    return checkpoint_of(threads[thread], name, checkpoint_id, reply)


def records_of(flat: Sequence[bytes]) -> dict[bytes, ThreadRecord]:
    """Return thread hash → record of a flat list of both."""
    return {
        thread: ThreadRecord.unpack(data)
        for thread, data in zip(flat[::2], flat[1::2], strict=True)
    }


class Walk:
    """Collects what a walk along ancestors finds, channel by channel."""

    def __init__(self, channels: Sequence[str]) -> None:
        self._found = dict.fromkeys(channels, StoredHistory((), None))
        self._writes: dict[str, list[tuple[bytes, list[StoredWrite]]]] = {
            channel: [] for channel in channels
        }
        self._open = set(channels)
        # Event id and offset of the start and of each ancestor, as the events of one call may share
        # the id.
        self._seen: set[bytes] = set()
        self._state: object = None

    @property
    def open(self) -> list[str]:
        """Return the channels whose walk has not ended."""
        return [channel for channel in self._found if channel in self._open]

    def stays_in(self, state: object) -> bool:
        """Tell whether this is the state that the walk was in from its first call on."""
        if self._state is None:
            self._state = state
        return self._state == state

    def begin(self, event: bytes) -> None:
        """Note where the walk begins: it ends there if it comes back."""
        self._seen.add(event)

    def add(self, ancestors: Iterable[list[Any]]) -> bool:
        """Add ancestors, nearest first. Returns False when one comes for the second time."""
        for event, members, entries, closed in ancestors:
            if event in self._seen:
                return False
            self._seen.add(event)
            if members:
                self._add_writes(event[:EVENT_ID_BYTES], writes_of(members, entries))
            for at in range(0, len(closed), 4):
                self._close(*closed[at : at + 4])
        return True

    def result(self) -> dict[str, StoredHistory]:
        """Return each channel's history."""
        return {
            channel: StoredHistory(self._writes[channel], found.seed, found.unresolved)
            for channel, found in self._found.items()
        }

    def _add_writes(self, event_id: bytes, writes: list[StoredWrite]) -> None:
        by_channel: dict[str, list[StoredWrite]] = {}
        for write in writes:
            if write.channel in self._open:
                by_channel.setdefault(write.channel, []).append(write)
        for channel, own in by_channel.items():
            self._writes[channel].append((event_id, own))

    def _close(
        self, name: bytes, kind: bytes, offset: bytes, parts: bytes | list[bytes] | None
    ) -> None:
        channel, data = name.decode(), joined(parts)
        self._open.discard(channel)
        missing: str | None = None
        if kind == _UNRESOLVED and data is not None:
            ref = Row.unpack(data).channels[channel][1]
            missing = ref.missing if isinstance(ref, Unresolved) else None
        seed = None if missing else StoredValue(int.from_bytes(offset), data)
        self._found[channel] = StoredHistory((), seed, missing)
