"""What the suites of the `CheckpointView` contract share: storage, events, the projector's part."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pytest
from msgspec import Struct

from eventstore.codec import digest_of, thread_hash
from eventstore.events import (
    EMPTY,
    ChannelState,
    ChannelValue,
    CheckpointSaved,
    CheckpointsDeleted,
    Full,
    NewEvent,
    Payload,
    RecordedEvent,
    ThreadDeleted,
    Write,
    WritesSaved,
)
from eventstore.log import LogIdentity
from projector.layout import NO_EVENT, ThreadRecord
from projector.projection import (
    FOLD_VERSION,
    Entry,
    Erased,
    Readable,
    State,
    Unreadable,
    fold,
    independent,
    wanted_after,
    wanted_by,
)
from projector.values import unpack_value
from projector.view import (
    Changes,
    CheckpointView,
    Page,
    Progress,
    Selection,
    StoredCheckpoint,
    StoredValue,
)

IDENTITY = LogIdentity(b"log-identity-16b", 4)
GENERATION = b"gener-01"


def start_of(generation: bytes = GENERATION) -> Progress:
    """Return the progress of a view that has applied nothing."""
    return Progress(generation, FOLD_VERSION, IDENTITY, 0, NO_EVENT)


class ViewStorage(ABC):
    """What one view is stored in, empty at first; any number of instances may share it."""

    @abstractmethod
    def new_view(self) -> CheckpointView:
        """Return another instance of the view, not set up; the suite closes it."""


OpenView: TypeAlias = "Callable[[], Any]"


class Poison(Struct, frozen=True):
    """A record that cannot be read."""

    thread_id: str | None
    reason: str = "bad bytes"
    event_id: bytes = NO_EVENT


@dataclass(frozen=True)
class Tombstone:
    """The log forgets an event's record."""

    of: NewEvent


Item: TypeAlias = NewEvent | Poison | Tombstone


def entry_of(item: Item, offset: int, *, timestamp_ms: int | None = None) -> Entry:
    """Return what a projector makes of a record at an offset."""
    match item:
        case Poison(thread_id, reason, event_id):
            return Unreadable(offset, thread_id, reason, b"packed %d" % offset, event_id)
        case Tombstone(new):
            return Erased(offset, new.thread_id, new.event_id, new.part)
        case NewEvent():
            recorded = RecordedEvent(
                partition=0,
                offset=offset,
                timestamp_ms=1_000 + offset if timestamp_ms is None else timestamp_ms,
                thread_id=item.thread_id,
                event=item.event,
                event_id=item.event_id,
                part=item.part,
            )
            return Readable(recorded, lambda: b"packed %d" % offset)


async def folded(
    view: CheckpointView, partition: int, entries: Sequence[Entry]
) -> tuple[Progress, Changes] | None:
    """Return the progress that was loaded and what the entries change; None on a torn load."""
    loaded = await view.load(partition, wanted_by(entries))
    assert loaded.progress is not None
    state = State(loaded.threads, loaded.cells)
    more = wanted_after(entries, state)
    if more is not None:
        second = await view.load(partition, more)
        if second.progress != loaded.progress:
            return None
        state.add(second.cells)
    return loaded.progress, fold(entries, state)


@dataclass
class Projection:
    """Folds items into one partition of a view as a projector does, each at the next offset."""

    view: CheckpointView
    partition: int = 0
    next_offset: int = 0
    entries: list[Entry] = field(default_factory=list)
    """All that was fed."""

    async def begin(self, generation: bytes = GENERATION) -> None:
        assert await self.view.begin(self.partition, start_of(generation))
        self.next_offset = 0

    async def feed(self, *items: Item, timestamp_ms: int | None = None) -> None:
        """Apply items."""
        fresh: list[Entry] = []
        for item in items:
            fresh.append(entry_of(item, self.next_offset, timestamp_ms=timestamp_ms))
            self.next_offset += 1
        self.entries.extend(fresh)
        await catch_up(self.view, self.partition, fresh)

    def copy_to(self, view: CheckpointView) -> Projection:
        """Return the same position for another view."""
        return replace(self, view=view, entries=list(self.entries))


async def catch_up(
    view: CheckpointView, partition: int, entries: Sequence[Entry], *, size: int = 250
) -> None:
    """Apply what of the entries is not applied yet, whoever else does the same."""
    while True:
        progress = await view.progress(partition)
        assert progress is not None
        rest = [entry for entry in entries if entry.offset >= progress.next_offset][:size]
        if not rest:
            return
        batch = rest[: independent(rest)]
        result = await folded(view, partition, batch)
        if result is None or result[0] != progress:
            continue
        last = batch[-1]
        event_id = last.recorded.event_id if isinstance(last, Readable) else last.event_id
        reached = replace(progress, next_offset=last.offset + 1, last_event_id=event_id)
        await view.apply(partition, expected=progress, changes=result[1], reached=reached)


def full(data: bytes) -> Full:
    """Return a whole value."""
    return Full(Payload("bytes", data), digest_of(data))


def saved(
    thread_id: str,
    checkpoint_id: str,
    channels: Mapping[str, bytes | ChannelValue | ChannelState] | None = None,
    *,
    namespace: str = "",
    parent: str | None = None,
    parent_event: NewEvent | None = None,
    incarnation: int = 0,
    metadata: dict[str, Any] | None = None,
    copy_id: bytes | None = None,
) -> NewEvent:
    """Return an event; a channel given as bytes has a full value, and version 1 if none is told."""
    states: dict[str, ChannelState] = {}
    for name, value in (channels or {}).items():
        if isinstance(value, ChannelState):
            states[name] = value
        else:
            states[name] = ChannelState(1, full(value) if isinstance(value, bytes) else value)
    event = CheckpointSaved(
        namespace=namespace,
        checkpoint_id=checkpoint_id,
        parent_id=parent,
        parent_event=None if parent_event is None else parent_event.event_id,
        incarnation=incarnation,
        channels=states,
        body=Payload("bytes", b"body of " + checkpoint_id.encode()),
        metadata=metadata or {},
        copy_id=copy_id,
    )
    return NewEvent(thread_id, event)


def wrote(
    thread_id: str,
    checkpoint_id: str,
    task_id: str,
    *writes: tuple[int, str, bytes],
    namespace: str = "",
    incarnation: int = 0,
    copy_id: bytes | None = None,
) -> NewEvent:
    """Return an event of (index, channel, data) writes."""
    given = tuple(Write(i, channel, Payload("bytes", data)) for i, channel, data in writes)
    event = WritesSaved(
        namespace, checkpoint_id, task_id, f"~{task_id}", incarnation, given, copy_id
    )
    return NewEvent(thread_id, event)


def removed(
    thread_id: str, *checkpoint_ids: str, namespace: str = "", incarnation: int = 0
) -> NewEvent:
    """Return an event that removes checkpoints."""
    names = tuple((namespace, checkpoint_id) for checkpoint_id in checkpoint_ids)
    return NewEvent(thread_id, CheckpointsDeleted(incarnation, names))


def deleted(thread_id: str) -> NewEvent:
    """Return an event that deletes a thread."""
    return NewEvent(thread_id, ThreadDeleted())


def empty(version: int = 1) -> ChannelState:
    """Return a channel that has a version and no value."""
    return ChannelState(version, EMPTY)


def data_of(value: StoredValue | None) -> bytes | None:
    """Return the payload of a stored value."""
    if value is None or value.data is None:
        return None
    payload, digest = unpack_value(value.data)
    assert digest == digest_of(payload.data)
    return payload.data


def writes_of(checkpoint: StoredCheckpoint) -> list[tuple[str, int, str, bytes]]:
    """Return (task id, index, channel, data) of a checkpoint's writes, sorted."""
    return sorted((w.task_id, w.index, w.channel, w.payload.data) for w in checkpoint.writes)


def names_of(page: Page) -> list[tuple[str | None, str, str]]:
    """Return (thread id, namespace, checkpoint id) of each checkpoint of a page."""
    return [(c.thread.thread_id, c.namespace, c.checkpoint_id) for c in page.checkpoints]


async def listed(
    view: CheckpointView,
    selection: Selection,
    *,
    limit: int = 100,
    with_values: bool = False,
    partition: int = 0,
) -> tuple[list[StoredCheckpoint], list[ThreadRecord]]:
    """Return all pages of a listing as one, with the parked threads that were met."""
    checkpoints: list[StoredCheckpoint] = []
    parked: list[ThreadRecord] = []
    cursor: bytes | None = None
    while True:
        answer = await view.checkpoints(
            partition, 0, selection, cursor=cursor, limit=limit, with_values=with_values
        )
        page = answer.value
        assert len(page.checkpoints) <= limit
        checkpoints += page.checkpoints
        parked += page.parked
        assert page.cursor is None or page.cursor != cursor
        cursor = page.cursor
        if cursor is None:
            return checkpoints, parked


def keys(checkpoints: Sequence[StoredCheckpoint]) -> list[tuple[str | None, str, str]]:
    """Return (thread id, namespace, checkpoint id) of each."""
    return names_of(Page(checkpoints, None))


async def sweep_all(view: CheckpointView, partition: int = 0, *, limit: int = 200) -> int:
    """Sweep until nothing is left; return how many steps it took."""
    steps = 1
    async with asyncio.timeout(20):
        while await view.sweep(partition, limit=limit):
            steps += 1
    return steps


def hash_of(thread_id: str) -> bytes:
    """Return a thread's hash."""
    return thread_hash(thread_id)


class ViewSuite:
    """The fixtures of every suite. A subclass supplies `storage`, a fresh one per test."""

    @pytest.fixture
    async def open_view(self, storage: ViewStorage) -> AsyncIterator[OpenView]:
        opened: list[CheckpointView] = []

        async def open_one() -> CheckpointView:
            view = storage.new_view()
            opened.append(view)
            await view.setup()
            return view

        yield open_one
        for view in opened:
            await view.close()

    @pytest.fixture
    async def view(self, open_view: OpenView) -> CheckpointView:
        opened: CheckpointView = await open_view()
        return opened

    @pytest.fixture
    async def projection(self, view: CheckpointView) -> Projection:
        """Partition 0 of the view, begun and empty."""
        projection = Projection(view)
        await projection.begin()
        return projection
