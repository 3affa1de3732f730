"""What a log means, written from the documents and not from the fold.

Plain objects, one event at a time, nothing packed, nothing shared with the code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from eventstore.events import (
    ChannelState,
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkedPayload,
    ChunkSaved,
    Empty,
    Event,
    Extended,
    Full,
    Inherited,
    Payload,
    RecordedEvent,
    Referenced,
    ThreadCopied,
    ThreadDeleted,
    ThreadErased,
    WritesSaved,
)
from projector.projection import Entry, Readable, Unreadable

Name: TypeAlias = tuple[str, str]
"""(namespace, checkpoint id)."""
Value: TypeAlias = bytes | None
"""None: the channel has no value."""
Writes: TypeAlias = dict[tuple[str, int], tuple[str, bytes]]
"""(task, index) → (channel, data)."""

MISSING = b"(missing)"
"""Stands for a value that refers to something that is not there."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as it was put."""

    event_id: bytes
    name: Name
    parent: Name | None
    channels: dict[str, tuple[object, Value]]
    run_id: object
    writes: Writes
    """Of this checkpoint's life; shared with what replaces it."""
    body: Value
    user: Value
    """The metadata under this key, where it is a payload."""


@dataclass
class Life:
    """All that a thread holds between two deletions, or that a copy holds."""

    checkpoints: dict[Name, Checkpoint] = field(default_factory=dict[Name, Checkpoint])
    writes: dict[Name, Writes] = field(default_factory=dict[Name, Writes])
    put: dict[bytes, Checkpoint] = field(default_factory=dict[bytes, Checkpoint])
    """Every checkpoint by event id, also those that were replaced or removed."""
    removed: dict[Name, Checkpoint] = field(default_factory=dict[Name, Checkpoint])
    """The last one that was removed under each name."""
    stored: dict[tuple[int, str], bytes] = field(default_factory=dict[tuple[int, str], bytes])
    """(offset, channel) → the value that this event stored."""
    chunks: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Offset → bytes; of the thread, so that copies share them with what they replace."""

    def content(self, payload: Payload) -> bytes:
        if not isinstance(payload, ChunkedPayload):
            return payload.data
        parts = [self.chunks.get(offset) for offset, _ in payload.chunks]
        return MISSING if None in parts else b"".join([part or b"" for part in parts])

    def save(self, recorded: RecordedEvent, event: CheckpointSaved) -> None:
        name = (event.namespace, event.checkpoint_id)
        parent = self.put.get(event.parent_event or b"")
        channels: dict[str, tuple[object, Value]] = {}
        for channel, state in event.channels.items():
            if isinstance(state.value, Full):
                self.stored[recorded.offset, channel] = state.value.payload.data
            elif isinstance(state.value, ChunkedPayload):
                self.stored[recorded.offset, channel] = self.content(state.value)
            elif isinstance(state.value, Extended):
                self.extend(recorded.offset, channel, state.value)
            channels[channel] = (state.version, self.value(recorded, channel, state, parent))
        checkpoint = Checkpoint(
            recorded.event_id,
            name,
            None if event.parent_id is None else (event.namespace, event.parent_id),
            channels,
            event.metadata.get("run_id"),
            self.writes.setdefault(name, {}),
            self.content(event.body),
            self.content(event.metadata_payloads["user"]) if event.metadata_payloads else None,
        )
        self.put[recorded.event_id] = self.checkpoints[name] = checkpoint

    def value(
        self,
        recorded: RecordedEvent,
        channel: str,
        state: ChannelState,
        parent: Checkpoint | None,
    ) -> Value:
        match state.value:
            case Full() | Extended() | ChunkedPayload():
                return self.stored.get((recorded.offset, channel), MISSING)
            case Referenced(_, offset):
                return self.stored.get((offset, channel), MISSING)
            case Inherited():
                version, value = (None, None) if parent is None else parent.channels[channel]
                return value if parent is not None and version == state.version else MISSING
            case Empty():
                return None

    def extend(self, offset: int, channel: str, value: Extended) -> None:
        base = self.stored.get((value.offset, channel))
        if base is not None and value.stop <= len(base):
            middle = base[value.start : value.stop]
            self.stored[offset, channel] = value.head + middle + value.tail

    def write(self, event: WritesSaved) -> None:
        writes = self.writes.setdefault((event.namespace, event.checkpoint_id), {})
        for write in event.writes:
            place = (event.task_id, write.index)
            if write.index < 0 or place not in writes:
                writes[place] = (write.channel, self.content(write.payload))

    def remove(self, event: CheckpointsDeleted) -> None:
        for name in event.checkpoints:
            gone = self.checkpoints.pop(name, None)
            if gone is not None:
                self.removed[name] = gone
            self.writes[name] = {}

    def ancestors(self, name: Name) -> list[Checkpoint]:
        """Return a visible checkpoint's ancestors, nearest first; one that was removed counts."""
        chain: list[Checkpoint] = []
        at = self.checkpoints.get(name)
        seen = [] if at is None else [at.event_id]
        while at is not None and at.parent is not None:
            at = self.checkpoints.get(at.parent) or self.removed.get(at.parent)
            if at is None or at.event_id in seen:
                break
            seen.append(at.event_id)
            chain.append(at)
        return chain

    def history(
        self, name: Name, channel: str
    ) -> tuple[list[tuple[bytes, list[tuple[str, int, bytes]]]], Value]:
        """Return the ancestors' writes to a channel, and the nearest ancestor's value."""
        steps: list[tuple[bytes, list[tuple[str, int, bytes]]]] = []
        for ancestor in self.ancestors(name):
            writes = [
                (task, index, data)
                for (task, index), (to, data) in ancestor.writes.items()
                if to == channel
            ]
            if writes:
                steps.append((ancestor.event_id, sorted(writes)))
            value = ancestor.channels[channel][1]
            if value is not None:
                return steps, value
        return steps, None


@dataclass
class Thread:
    """A thread."""

    incarnation: int = 0
    life: Life = field(default_factory=Life)
    copies: dict[bytes, Life] = field(default_factory=dict[bytes, Life])
    parked_at: int | None = None

    def life_of(self, copy_id: bytes | None) -> Life:
        if copy_id is None:
            return self.life
        return self.copies.setdefault(copy_id, Life(chunks=self.life.chunks))


@dataclass
class Reference:
    """What a log means."""

    threads: dict[str, Thread] = field(default_factory=dict[str, Thread])

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Reference:
        """Return what a whole log means."""
        reference = cls()
        for entry in entries:
            if isinstance(entry, Unreadable) and entry.thread_id is not None:
                thread = reference.threads.setdefault(entry.thread_id, Thread())
                thread.parked_at = thread.parked_at or entry.offset
            elif isinstance(entry, Readable) and entry.thread_id is not None:
                thread = reference.threads.setdefault(entry.thread_id, Thread())
                reference.happened(thread, entry.recorded, entry.recorded.event)
        return reference

    def happened(self, thread: Thread, recorded: RecordedEvent, event: Event) -> None:
        if isinstance(event, ThreadDeleted):
            thread.incarnation = recorded.offset
            thread.life = Life()
            thread.copies = {}
            thread.parked_at = None
            return
        if thread.parked_at is not None or isinstance(event, ThreadErased):
            return
        late_from = (getattr(event, "chunked_at", None) or 1 << 60) + 3_600_001
        is_late = recorded.timestamp_ms >= late_from
        if is_late or getattr(event, "incarnation", 0) < thread.incarnation:
            return
        life = thread.life_of(getattr(event, "copy_id", None))
        match event:
            case ChunkSaved():
                life.chunks[recorded.offset] = event.data
            case CheckpointSaved():
                life.save(recorded, event)
            case WritesSaved():
                life.write(event)
            case CheckpointsDeleted():
                life.remove(event)
            case ThreadCopied():
                if not thread.life.checkpoints:
                    thread.life = life
            case _:
                raise AssertionError(event)
