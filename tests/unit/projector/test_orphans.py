"""Erasing what no event names: when the log's clock says so, and not before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from eventstore.codec import decode, split_record_key, thread_of
from eventstore.events import (
    ChannelState,
    CheckpointSaved,
    ChunkedPayload,
    ChunkSaved,
    LogNudged,
    NewEvent,
    new_event_id,
)
from eventstore.log import Appended, LogRecord
from projector.applier import Applier
from projector.config import ProjectorConfig
from projector.layout import PENDING
from projector.orphans import ENTRIES_AT_ONCE, ORPHAN_AGE_MS
from projector.tidying import Tidier
from tests.contracts.view_suite import deleted, hash_of, saved
from tests.projections import Dump, FaultyLog, Ground, corrupt, rebuilt

CONFIG = ProjectorConfig(erase_interval=0.000_001)
OLD_MS = ORPHAN_AGE_MS + 60_000


def tidier(ground: Ground, config: ProjectorConfig = CONFIG) -> Tidier:
    return Tidier(ground.log, ground.faulty, config)


def chunk(thread: str = "t", data: bytes = b"ab") -> NewEvent:
    return NewEvent(thread, ChunkSaved(0, data), new_event_id(), 1)


def manifest(of: NewEvent, offset: int) -> NewEvent:
    """Return the checkpoint that names a chunk; when that was stored is told by `aged`."""
    event = saved(of.thread_id or "", "1").event
    assert isinstance(event, CheckpointSaved)
    large = ChunkedPayload("bytes", b"", bytes(16), ((offset, 2),))
    channels = {"a": ChannelState(1, large)}
    return NewEvent(of.thread_id, replace(event, channels=channels, chunked_at=0), of.event_id)


def aged(record: LogRecord) -> LogRecord:
    """Return a record as if it had been stored long ago."""
    return replace(record, timestamp_ms=record.timestamp_ms - OLD_MS, event=None)


async def tidied(ground: Ground, using: Tidier | None = None, *, rounds: int = 8) -> None:
    """Apply and tidy in turn, as often as all that there is takes."""
    using = using or tidier(ground)
    for _ in range(rounds):
        await ground.applier().advance(0, await ground.end())
        await using.tidy(0, is_idle=lambda: True)


async def present(ground: Ground) -> set[bytes]:
    """Return the event ids of all records of threads that no tombstone names."""
    batch = await ground.log.read(0, 0, await ground.end())
    erased = {record.key for record in batch.records if record.value is None}
    left = [record for record in batch.records if record.value and thread_of(record) is not None]
    return {split_record_key(r.key)[1] for r in left if r.key and r.key not in erased}


async def pending(ground: Ground) -> list[int]:
    dump: Dump = await ground.view.dump(0)
    return sorted(int.from_bytes(name) for name in dump.get(PENDING, {}))


async def nudges(ground: Ground) -> int:
    batch = await ground.log.read(0, 0, await ground.end())
    return sum(isinstance(decode(r).event, LogNudged) for r in batch.records if r.value)


async def test_old_orphan_is_erased(ground: Ground) -> None:
    """A chunk that was left without its event goes from the log and from the view."""
    orphan, kept = chunk(), saved("t", "1")
    await ground.append(orphan, kept)
    ground.log.changed = {1: aged}
    await tidied(ground)
    assert await present(ground) == {kept.event_id}
    assert await pending(ground) == []


async def test_young_orphan_is_left_alone(ground: Ground) -> None:
    """Its event may come yet, and nothing is appended to ask for the time."""
    end = await ground.append(chunk())
    await tidied(ground)
    assert await ground.end() == end
    assert await pending(ground) == [1]


async def test_manifest_keeps_old_chunks(ground: Ground) -> None:
    """What an event names stays, however old it is."""
    first = chunk()
    await ground.append(first, manifest(first, 1))
    ground.log.changed = {1: aged, 2: lambda record: replace(record, timestamp_ms=5, event=None)}
    end = await ground.end()
    await tidied(ground)
    assert await ground.end() == end


async def test_void_manifest_is_erased_with_its_chunks(ground: Ground) -> None:
    """An event that came too late goes as well."""
    first, kept = chunk(), saved("t", "2")
    await ground.append(first, manifest(first, 1), kept)
    ground.log.changed = {1: aged, 2: aged}
    await tidied(ground)
    assert await present(ground) == {kept.event_id}
    assert await pending(ground) == []


async def test_only_the_log_tells_the_time(ground: Ground) -> None:
    """A program whose clock is ahead erases nothing, and does not go on asking."""
    await ground.append(chunk())
    ground.log.changed = {1: aged}
    log = SlowClock(ground.log)
    for _ in range(5):
        await Applier(log, ground.view).advance(0, await ground.end())
        await Tidier(log, ground.view, ProjectorConfig()).tidy(0, is_idle=lambda: True)
    using = Tidier(log, ground.view, ProjectorConfig())
    before = await nudges(ground)
    for _ in range(5):
        await Applier(log, ground.view).advance(0, await ground.end())
        await using.tidy(0, is_idle=lambda: True)
    assert await nudges(ground) == before + 1
    assert await pending(ground) == [1]


class SlowClock(FaultyLog):
    """A log whose clock stands where the orphan is not old yet."""

    def append(self, event: NewEvent, *, partition: int | None = None) -> Awaitable[Appended]:
        appending = super().append(event, partition=partition)

        async def appended() -> Appended:
            return replace(await appending, timestamp_ms=1)

        return appended()


async def test_view_that_lags_is_waited_for(ground: Ground) -> None:
    """Nothing is erased before the view has met everything in front of the log's time."""
    first = chunk()
    await ground.append(first)
    ground.log.changed = {1: aged, 2: lambda record: replace(record, timestamp_ms=5, event=None)}
    using = tidier(ground)
    await ground.applier().advance(0, await ground.end())
    await ground.append(manifest(first, 1))
    for _ in range(5):
        await using.tidy(0, is_idle=lambda: True)
    await tidied(ground, using)
    assert await present(ground) == {first.event_id}


async def test_view_that_begins_anew_is_not_believed(ground: Ground) -> None:
    """What is pending in a view that has not come far may have its event further on."""
    first = chunk()
    await ground.append(first, manifest(first, 1))
    ground.log.changed = {1: aged, 2: lambda record: replace(record, timestamp_ms=5, event=None)}
    lost = chunk()
    await ground.append(lost)
    ground.log.changed[3] = aged
    using = tidier(ground)
    await ground.applier().advance(0, await ground.end())
    await using.tidy(0, is_idle=lambda: True)
    await ground.applier().advance(0, await ground.end())

    async def start_again() -> None:
        ground.faulty.before_pending = nothing_more
        await ground.view.discard(0)
        await ground.applier().advance(0, 2)

    async def nothing_more() -> None:
        """Leave the view where it is."""

    ground.faulty.before_pending = start_again
    await using.tidy(0, is_idle=lambda: True)
    assert await present(ground) == {first.event_id, lost.event_id}


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_parked_thread_keeps_its_chunks(ground: Ground, *, is_deleted: bool) -> None:
    """What an unreadable event is about may be old by the time that it can be read."""
    first = chunk()
    await ground.append(first, saved("t", "1"), *([deleted("t")] if is_deleted else []))
    ground.log.changed = {1: aged, 2: corrupt}
    await tidied(ground)
    assert await pending(ground) == ([] if is_deleted else [1])
    assert (first.event_id in await present(ground)) != is_deleted


async def test_many_orphans_are_walked_in_pages(ground: Ground) -> None:
    """However many wait, all old ones are found."""
    count = 2 * ENTRIES_AT_ONCE + 10
    await ground.append(*[chunk() for _ in range(count)])
    change: Callable[[LogRecord], LogRecord] = aged
    old = {offset: change for offset in range(1, count + 1) if offset % 2}
    ground.log.changed = old
    await tidied(ground, rounds=20)
    assert await pending(ground) == [n for n in range(1, count + 1) if n not in old]


async def test_view_without_erased_orphans_is_the_same(ground: Ground) -> None:
    """Once all is compacted, a rebuild gives the view that was there before."""
    first = chunk()
    await ground.append(first, chunk("other"), manifest(first, 1), saved("t", "2"))
    ground.log.changed = {1: aged, 2: aged, 3: aged}
    await tidied(ground)
    before = await ground.view.dump(0)
    assert hash_of("other") not in {key[1:17] for key in before}
    ground.log.missing = {1, 2, 3}
    assert await rebuilt(ground) == before
