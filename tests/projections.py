"""Logs and views for tests of the projector: real adapters, and wrappers of them that fail."""

from __future__ import annotations

import random
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from eventstore.events import NewEvent
from eventstore.log import Appended, EventLog, LogBatch, LogIdentity, LogRecord
from eventstore.position import Position
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from projector.applier import Applier
from projector.sqlite import SqliteView
from projector.view import (
    Changes,
    DeletedThreads,
    Loaded,
    PendingPage,
    Progress,
    ViewWriter,
    Wanted,
)
from tests.contracts.view_suite import deleted, removed, saved, wrote

T = TypeVar("T")

Dump = dict[bytes, dict[bytes, bytes]]


async def nothing() -> None:
    """The fault that is none."""


@dataclass
class FaultyLog:
    """An `EventLog` that changes what it reads, or fails, as its fields say."""

    log: EventLog
    changed: dict[int, Callable[[LogRecord], LogRecord]] = field(default_factory=dict)
    """Offset → what is read in place of the record there."""
    missing: set[int] = field(default_factory=set)
    """Offsets whose records are gone, as after compaction."""
    before_setup: Callable[[], Awaitable[None]] = nothing
    before_erase: Callable[[], Awaitable[None]] = nothing
    before_read: Callable[[], Awaitable[None]] = nothing
    """Awaited in front of each read, and behind each batch of a tail."""
    end_of: Callable[[int], int] = lambda end: end
    first: int = 0
    log_identity: Callable[[LogIdentity], LogIdentity] = lambda identity: identity
    reads: int = 0

    @property
    def name(self) -> str:
        return self.log.name

    @property
    def partition_count(self) -> int:
        return self.log.partition_count

    async def setup(self) -> None:
        await self.before_setup()
        await self.log.setup()

    def partition_of(self, thread_id: str) -> int:
        return self.log.partition_of(thread_id)

    def append(self, event: NewEvent, *, partition: int | None = None) -> Awaitable[Appended]:
        return self.log.append(event, partition=partition)

    async def read(self, partition: int, start: int, stop: int) -> LogBatch:
        self.reads += 1
        await self.before_read()
        return self._spoil(await self.log.read(partition, start, stop))

    async def tail(self, positions: Mapping[int, int]) -> AsyncIterator[LogBatch]:
        async for batch in self.log.tail(positions):
            await self.before_read()
            yield self._spoil(batch)

    def hurry(self) -> None:
        self.log.hurry()

    async def end_position(self, partitions: Collection[int]) -> Position:
        ends = await self.log.end_position(partitions)
        return Position({p: self.end_of(ends.next_offset(p)) for p in partitions})

    async def first_position(self, partitions: Collection[int]) -> Position:
        return Position(dict.fromkeys(partitions, self.first))

    async def identity(self, partition: int) -> LogIdentity:
        return self.log_identity(await self.log.identity(partition))

    async def erase(self, partition: int, keys: Sequence[bytes]) -> None:
        await self.before_erase()
        await self.log.erase(partition, keys)

    async def close(self) -> None:
        await self.log.close()

    def _spoil(self, batch: LogBatch) -> LogBatch:
        records = [
            self.changed[record.offset](record) if record.offset in self.changed else record
            for record in batch.records
            if record.offset not in self.missing
        ]
        return replace(batch, records=records)


@dataclass
class FaultyView:
    """The writing half of a view that does something in front of its calls, or behind them."""

    view: ViewWriter
    before_load: Callable[[], Awaitable[None]] = nothing
    after_load: Callable[[], Awaitable[None]] = nothing
    before_apply: Callable[[], Awaitable[None]] = nothing
    after_apply: Callable[[], Awaitable[None]] = nothing
    before_progress: Callable[[], Awaitable[None]] = nothing
    before_sweep: Callable[[], Awaitable[None]] = nothing
    before_pending: Callable[[], Awaitable[None]] = nothing
    sizes: list[int] = field(default_factory=list)
    """How many offsets each successful apply passed."""

    @property
    def name(self) -> str:
        return self.view.name

    async def setup(self) -> None:
        await self.view.setup()

    async def progress(self, partition: int) -> Progress | None:
        await self.before_progress()
        return await self.view.progress(partition)

    async def begin(self, partition: int, start: Progress) -> bool:
        return await self.view.begin(partition, start)

    async def discard(self, partition: int) -> None:
        await self.view.discard(partition)

    async def load(self, partition: int, wanted: Wanted) -> Loaded:
        await self.before_load()
        loaded = await self.view.load(partition, wanted)
        await self.after_load()
        return loaded

    async def apply(
        self, partition: int, *, expected: Progress, changes: Changes, reached: Progress
    ) -> bool:
        await self.before_apply()
        is_applied = await self.view.apply(
            partition, expected=expected, changes=changes, reached=reached
        )
        if is_applied:
            self.sizes.append(reached.next_offset - expected.next_offset)
        await self.after_apply()
        return is_applied

    async def sweep(self, partition: int, *, limit: int = 200) -> bool:
        await self.before_sweep()
        return await self.view.sweep(partition, limit=limit)

    async def deleted_threads(
        self, partition: int, *, cursor: bytes | None, limit: int
    ) -> DeletedThreads:
        return await self.view.deleted_threads(partition, cursor=cursor, limit=limit)

    async def pending(self, partition: int, *, cursor: bytes | None, limit: int) -> PendingPage:
        await self.before_pending()
        return await self.view.pending(partition, cursor=cursor, limit=limit)

    async def dump(self, partition: int) -> Dump:
        return await self.view.dump(partition)

    async def close(self) -> None:
        await self.view.close()


@dataclass
class Ground:
    """A log and a view of SQLite, with the wrappers in front of them that tests look through."""

    log: FaultyLog
    view: SqliteView
    faulty: FaultyView

    def applier(self, *, max_entries: int = 250) -> Applier:
        return Applier(self.log, self.faulty, max_entries=max_entries)

    async def append(self, *events: NewEvent) -> int:
        """Append events; return the log's end."""
        for event in events:
            await self.log.append(event)
        return await self.end()

    async def end(self) -> int:
        return (await self.log.end_position([0])).next_offset(0)

    async def reached(self) -> int:
        """Return the view's next offset, -1 without a view."""
        progress = await self.view.progress(0)
        return -1 if progress is None else progress.next_offset


@asynccontextmanager
async def sqlite_ground(path: Path | str = ":memory:") -> AsyncGenerator[Ground]:
    """Open a log and a view in one file, or in memory."""
    async with SqliteDatabase(path) as database:
        log, view = SqliteEventLog(database), SqliteView(database)
        await log.setup()
        await view.setup()
        try:
            yield Ground(FaultyLog(log), view, FaultyView(view))
        finally:
            await view.close()
            await log.close()


async def rebuilt(ground: Ground, *, max_entries: int = 1) -> Dump:
    """Return what a view holds that was made from the log anew, by default event by event."""
    async with sqlite_ground() as other:
        applier = Applier(ground.log, other.view, max_entries=max_entries)
        await applier.advance(0, await ground.end())
        return await other.view.dump(0)


def once(fault: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return a fault that happens at the first call only."""
    left = [fault]

    async def happen() -> None:
        if left:
            await left.pop()()

    return happen


def raising(error: BaseException) -> Callable[[], Awaitable[None]]:
    """Return a fault that raises."""

    async def happen() -> None:
        raise error

    return happen


def random_events(count: int, *, seed: int = 7) -> list[NewEvent]:
    """Events of a few threads, all kinds among them, with ids that come again."""
    dice = random.Random(seed)
    events: list[NewEvent] = []
    for number in range(count):
        thread, checkpoint = f"thread {dice.randrange(4)}", f"checkpoint {dice.randrange(9)}"
        kind = dice.random()
        if kind < 0.45:
            events.append(saved(thread, checkpoint, {"channel": b"%d" % number}))
        elif kind < 0.85:
            events.append(wrote(thread, checkpoint, f"task {number % 3}", (0, "channel", b"value")))
        elif kind < 0.97:
            events.append(removed(thread, checkpoint))
        else:
            events.append(deleted(thread))
    return events


def corrupt(record: LogRecord) -> LogRecord:
    return replace(record, value=b"\xc1 is never used in msgpack", event=None)


def nameless(record: LogRecord) -> LogRecord:
    return replace(record, key=b"no key of ours", headers=(), event=None)


def from_the_future(record: LogRecord) -> LogRecord:
    headers = [(n, b"99" if n == "ce_eventversion" else v) for n, v in record.headers]
    return replace(record, headers=tuple(headers), event=None)
