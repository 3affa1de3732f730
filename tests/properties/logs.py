"""Random logs of valid records, as savers, copies and the housekeeper append them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore.codec import digest_of, thread_hash
from eventstore.events import (
    EMPTY,
    INHERITED,
    ChannelState,
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkSaved,
    Extended,
    LogStarted,
    NewEvent,
    Referenced,
    ThreadCopied,
    ThreadErased,
)
from projector.projection import Entry, Erased
from tests.contracts.view_suite import Poison, deleted, entry_of, full, saved, wrote

from .uploads import Upload

THREADS = ("t", "u")
NAMESPACES = ("", "n")
IDS = ("1", "10", "2")
CHANNELS = ("a", "b")

Step: TypeAlias = tuple[str, str, str, str, int, int]
"""What is done; thread, namespace and checkpoint id; two numbers that settle the rest."""

OFTEN = ["put"] * 6 + ["write"] * 4 + ["remove"] * 2 + ["stage"] * 2 + ["erase"] * 2 + ["mark"] * 2
RARE = ["delete", "complete", "poison", "lost poison"]
LARGE = ["chunk"] * 4 + ["manifest"] * 2 + ["reap"]


def steps(*, without: tuple[str, ...] = ()) -> st.SearchStrategy[list[Step]]:
    """Return random steps, to be given to `LogBuilder.build`."""
    kinds = [kind for kind in OFTEN + RARE + LARGE if kind not in without]
    return st.lists(
        st.tuples(
            st.sampled_from(kinds),
            st.sampled_from(THREADS),
            st.sampled_from(NAMESPACES),
            st.sampled_from(IDS),
            st.integers(0, 7),
            st.integers(0, 7),
        ),
        max_size=40,
    )


@dataclass(frozen=True)
class Put:
    """A put that stands in the log."""

    event: NewEvent
    offset: int
    namespace: str
    checkpoint_id: str


@dataclass
class Thread:
    """What a writer and the housekeeper know of a thread."""

    incarnations: list[int] = field(default_factory=lambda: [0])
    puts: list[Put] = field(default_factory=list[Put])
    records: dict[int, int] = field(default_factory=dict[int, int])
    """Offset of each record that is not erased → the incarnation that it belongs to."""
    events: dict[int, tuple[bytes, int]] = field(default_factory=dict[int, tuple[bytes, int]])
    """Offset → event id and part."""
    unreadable: list[int] = field(default_factory=list[int])
    markers: list[int] = field(default_factory=list[int])
    """Offsets of those that are not erased."""
    copies: int = 0
    copy_incarnation: int | None = None
    staged: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    upload: Upload | None = None
    orphans: list[int] = field(default_factory=list[int])
    """Offsets of void manifests, and of chunks that no other manifest will name."""


@dataclass
class LogBuilder:
    """A log that grows by steps; those that make no sense in their place do nothing."""

    entries: list[Entry] = field(default_factory=list[Entry])
    threads: dict[str, Thread] = field(default_factory=lambda: {name: Thread() for name in THREADS})
    tombstones: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Offset of each erased record → the offsets of its tombstones."""

    @classmethod
    def build(cls, chosen: list[Step]) -> LogBuilder:
        """Return the log of some steps."""
        log = cls()
        log._append(NewEvent(None, LogStarted(b"l" * 16, 1)))
        actions: dict[str, Callable[[Thread, Step], None]] = {
            "put": log._put,
            "write": log._write,
            "remove": log._remove,
            "stage": log._stage,
            "complete": log._complete,
            "delete": log._delete,
            "poison": log._poison,
            "lost poison": log._lost_poison,
            "erase": log._erase,
            "mark": log._mark,
            "chunk": log._chunk,
            "manifest": log._manifest,
            "reap": log._reap,
        }
        for step in chosen:
            actions[step[0]](log.threads[step[1]], step)
        return log

    def without(self, dropped: set[int], *, dropped_tombstones: set[int]) -> list[Entry]:
        """Return what compaction may have left, given which erased records it removed.

        A tombstone goes only with, or after, its record. The cleaner works from the front: where a
        deletion is gone, so are the thread's older records that could not be read.
        """
        gone = set(dropped)
        for thread in self.threads.values():
            for cut in gone.intersection(thread.incarnations):
                gone.update(offset for offset in thread.unreadable if offset < cut)
        for offset in dropped & dropped_tombstones:
            gone.update(self.tombstones[offset])
        return [entry for entry in self.entries if entry.offset not in gone]

    def _append(self, new: NewEvent | Poison, upload: Upload | None = None) -> int:
        offset = len(self.entries)
        event_id, stored_at = _event_id(offset), None
        if upload is not None:
            event_id, stored_at = upload.event_id, upload.stored_at
        entry = entry_of(replace(new, event_id=event_id), offset, timestamp_ms=stored_at)
        self.entries.append(entry)
        return offset

    def _append_poison(self, name: str | None) -> int:
        return self._append(Poison(name, f"bad {len(self.entries)}"))

    def _record(
        self, thread: Thread, new: NewEvent, incarnation: int, upload: Upload | None = None
    ) -> int:
        offset = self._append(new, upload)
        thread.records[offset] = incarnation
        thread.events[offset] = (_event_id(offset) if upload is None else upload.event_id, new.part)
        return offset

    def _incarnation(self, thread: Thread, number: int) -> int:
        """Return the present incarnation; of a late writer's, the one before it."""
        is_late = number == 7 and len(thread.incarnations) > 1
        return thread.incarnations[-2 if is_late else -1]

    def _life_of(
        self, thread: Thread, number: int, copy_id: bytes | None, upload: Upload | None
    ) -> int:
        if upload is not None:
            return upload.incarnation
        if copy_id is not None and thread.copy_incarnation is not None:
            return thread.copy_incarnation
        return self._incarnation(thread, number)

    def _put(
        self,
        thread: Thread,
        step: Step,
        copy_id: bytes | None = None,
        upload: Upload | None = None,
    ) -> None:
        _, name, namespace, checkpoint_id, x, y = step
        incarnation = self._life_of(thread, x, copy_id, upload)
        before = [put for put in thread.puts if put.namespace == namespace]
        parent = before[-1 - y % len(before)] if before and y < 6 else None
        channels = {
            channel: self._channel(thread, channel, parent, (x + y * number) % 7)
            for number, channel in enumerate(CHANNELS)
        }
        new = saved(
            name,
            checkpoint_id,
            channels,
            namespace=namespace,
            parent=None if parent is None else parent.checkpoint_id,
            incarnation=incarnation,
            metadata={"run_id": "rs"[x % 2]} if y % 2 else {},
            copy_id=copy_id,
        )
        if parent is not None:
            event = new.event
            assert isinstance(event, CheckpointSaved)
            new = replace(new, event=replace(event, parent_event=parent.event.event_id))
        if upload is not None:
            new = replace(new, event=upload.manifest(new.event, CHANNELS[0]))
        offset = self._record(thread, new, incarnation, upload)
        new = replace(new, event_id=thread.events[offset][0])
        thread.puts.append(Put(new, offset, namespace, checkpoint_id))

    def _channel(self, thread: Thread, channel: str, parent: Put | None, kind: int) -> ChannelState:
        offset = len(self.entries)
        if kind == 0:
            return ChannelState(offset, EMPTY)
        if kind == 1 and thread.puts:
            other = thread.puts[offset % len(thread.puts)]
            return ChannelState(offset, Referenced(other.event.event_id, other.offset))
        if kind <= 3 and parent is not None:
            event = parent.event.event
            assert isinstance(event, CheckpointSaved)
            return ChannelState(event.channels[channel].version, INHERITED)
        if kind >= 5 and parent is not None:
            return ChannelState(offset, _extended(parent, offset))
        return ChannelState(offset, full(b"%s at %d" % (channel.encode(), offset)))

    def _write(
        self,
        thread: Thread,
        step: Step,
        copy_id: bytes | None = None,
        upload: Upload | None = None,
    ) -> None:
        _, name, namespace, checkpoint_id, x, y = step
        incarnation = self._life_of(thread, x, copy_id, upload)
        data = b"write at %d" % len(self.entries)
        new = wrote(
            name,
            checkpoint_id,
            "xy"[x % 2],
            ((0, 1, -1, -2)[y % 4], CHANNELS[y % 2], data),
            namespace=namespace,
            incarnation=incarnation,
            copy_id=copy_id,
        )
        if upload is not None:
            new = replace(new, event=upload.manifest(new.event, CHANNELS[0]))
        self._record(thread, new, incarnation, upload)

    def _remove(self, thread: Thread, step: Step) -> None:
        _, name, namespace, checkpoint_id, x, y = step
        names = ((namespace, checkpoint_id), (NAMESPACES[y % 2], IDS[y % 3]))[: 1 + x % 2]
        incarnation = self._incarnation(thread, x)
        self._record(thread, NewEvent(name, CheckpointsDeleted(incarnation, names)), incarnation)

    def _delete(self, thread: Thread, step: Step) -> None:
        # A deletion belongs to the incarnation that it begins: a later one makes it the past.
        offset = self._record(thread, deleted(step[1]), len(self.entries))
        thread.incarnations.append(offset)

    def _stage(self, thread: Thread, step: Step) -> None:
        if thread.copy_incarnation is None:
            thread.copy_incarnation = thread.incarnations[-1]
        if step[4] % 2:
            self._write(thread, step, _copy_id(step[1], thread.copies))
            return
        self._put(thread, step, _copy_id(step[1], thread.copies))
        thread.staged.add((step[2], step[3]))

    def _complete(self, thread: Thread, step: Step) -> None:
        if thread.copy_incarnation is None:
            return
        copy_id = _copy_id(step[1], thread.copies)
        if thread.upload is not None and thread.upload.copy_id is not None:
            self._abandon(thread)
        event = ThreadCopied(copy_id, "source", thread.copy_incarnation, len(thread.staged))
        self._record(thread, NewEvent(step[1], event), thread.copy_incarnation)
        thread.copies += 1
        thread.copy_incarnation = None
        thread.staged = set()

    def _chunk(self, thread: Thread, step: Step) -> None:
        """Append a chunk, of a new upload when there is none under way."""
        upload = thread.upload
        if upload is None:
            offset, copy_id = len(self.entries), None
            incarnation = self._incarnation(thread, step[4])
            if step[5] == 6 and thread.copy_incarnation is not None:
                incarnation = thread.copy_incarnation
                copy_id = _copy_id(step[1], thread.copies)
            upload = thread.upload = Upload(_event_id(offset), incarnation, copy_id)
        data = b"chunk at %d" % len(self.entries)
        event = ChunkSaved(upload.incarnation, data)
        new = NewEvent(step[1], event, part=1 + len(upload.chunks))
        upload.chunks[self._record(thread, new, upload.incarnation, upload)] = data

    def _manifest(self, thread: Thread, step: Step) -> None:
        """Append what the chunks are for, in time or not."""
        upload, thread.upload = thread.upload, None
        if upload is None:
            return
        offset = len(self.entries)
        upload.is_late = step[5] == 7
        if step[4] % 3 == 2:
            self._write(thread, step, upload.copy_id, upload)
        else:
            self._put(thread, step, upload.copy_id, upload)
            if upload.copy_id is not None and not upload.is_late:
                thread.staged.add((step[2], step[3]))
        if upload.is_late:
            thread.orphans += [offset, *upload.chunks]

    def _abandon(self, thread: Thread) -> None:
        if thread.upload is not None:
            thread.orphans += thread.upload.chunks
            thread.upload = None

    def _reap(self, thread: Thread, step: Step) -> None:
        """Append tombstones of what no manifest names, in any order."""
        if step[4] < 4:
            self._abandon(thread)
        for _ in range(min(len(thread.orphans), 1 + step[5])):
            offset = thread.orphans.pop(step[4] % len(thread.orphans))
            self._tombstone(thread, step[1], offset)

    def _poison(self, thread: Thread, step: Step) -> None:
        offset = self._append_poison(step[1])
        thread.unreadable.append(offset)
        thread.events[offset] = (_event_id(offset), 0)
        # It names no incarnation: its place tells.
        thread.records[offset] = offset

    def _lost_poison(self, _: Thread, step: Step) -> None:
        self._append_poison(None)

    def _erase(self, thread: Thread, step: Step) -> None:
        """Append tombstones of some records of the past, from the oldest one."""
        past = [at for at, life in thread.records.items() if life < thread.incarnations[-1]]
        for offset in past[: 1 + step[4] * 2]:
            self._tombstone(thread, step[1], offset)

    def _mark(self, thread: Thread, step: Step) -> None:
        """Append the marker of an erased thread, and only then its deletion's tombstone."""
        last = thread.incarnations[-1]
        # A void append may come in between the older records' tombstones and the marker.
        older = [at for at, life in thread.records.items() if life < last and at < last]
        if last not in thread.records or older:
            return
        marker = self._append(NewEvent(None, ThreadErased(thread_hash(step[1]), last)))
        self._tombstone(thread, step[1], last)
        thread.events[marker] = (_event_id(marker), 0)
        for before in thread.markers:
            self._tombstone(thread, thread_hash(step[1]).hex(), before)
        thread.markers = [marker]

    def _tombstone(self, thread: Thread, name: str, offset: int) -> None:
        at = len(self.entries)
        self.entries.append(Erased(at, name, *thread.events[offset]))
        self.tombstones.setdefault(offset, []).append(at)
        thread.records.pop(offset, None)


def _extended(base: Put, offset: int) -> Extended:
    """Return a value made of a base that may be of any kind, and shorter than the range wants."""
    new = b"%d," % offset * (1 + offset % 3) * (1 if offset % 5 else 1_500)
    return Extended(
        base.event.event_id if offset % 2 else None,
        base.offset,
        "bytes",
        new[: offset % 90],
        offset % 3,
        2 + offset % 7,
        new if offset % 4 else b"",
        # Whoever reads compares it; the view does not.
        digest_of(new),
    )


def _event_id(offset: int) -> bytes:
    return b"event id" + offset.to_bytes(8)


def _copy_id(name: str, number: int) -> bytes:
    return b"copy of %s " % name.encode() + number.to_bytes(6)
