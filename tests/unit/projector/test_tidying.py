"""Erasing what was deleted: from the log, in the right order, and only that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from eventstore.codec import decode, thread_hash
from eventstore.errors import AppendOutcomeUnknownError, LogTruncatedError, LogUnavailableError
from eventstore.events import LogNudged, NewEvent, ThreadErased
from eventstore.log import LogRecord
from projector.config import ProjectorConfig
from projector.layout import DEAD, RECORDS, THREADS
from projector.tidying import NUDGES, Tidier
from tests.contracts.view_suite import deleted, hash_of, saved, wrote
from tests.projections import Ground, corrupt, once, raising, rebuilt
from tests.waiting import wait_until

CONFIG = ProjectorConfig(erase_interval=0.001)


def tidier(ground: Ground) -> Tidier:
    return Tidier(ground.log, ground.faulty, CONFIG)


async def tidied(ground: Ground, using: Tidier | None = None) -> None:
    """Apply and tidy in turn until both find nothing to do."""
    using = using or tidier(ground)
    end, before = await ground.end(), -1
    while before != end:
        before = end
        await ground.applier().advance(0, end)
        await using.tidy(0, is_idle=lambda: True)
        end = await ground.end()


async def records(ground: Ground) -> list[LogRecord]:
    batch = await ground.log.read(0, 0, await ground.end())
    return list(batch.records)


async def readable(ground: Ground) -> set[bytes]:
    """The event ids of all records of threads that no tombstone names."""
    found = await records(ground)
    erased = {record.key for record in found if record.value is None}
    events = [decode(record) for record in found if record.value and record.key not in erased]
    return {event.event_id for event in events if event.thread_id is not None}


async def markers(ground: Ground) -> list[ThreadErased]:
    events = [decode(record).event for record in await records(ground) if record.value]
    return [event for event in events if isinstance(event, ThreadErased)]


def ids(events: Sequence[NewEvent]) -> set[bytes]:
    return {event.event_id for event in events}


async def test_deleted_thread_leaves_a_hash(ground: Ground) -> None:
    """All records of a deleted thread are tombstoned, its deletion too; a marker stays."""
    await ground.append(saved("gone", "1"), wrote("gone", "1", "task"), deleted("gone"))
    await tidied(ground)
    assert await readable(ground) == set()
    assert await markers(ground) == [ThreadErased(thread_hash("gone"), 3)]
    dump = await ground.view.dump(0)
    assert RECORDS + hash_of("gone") not in dump
    assert b"gone" not in dump[THREADS][hash_of("gone")]
    assert DEAD not in dump


async def test_other_threads_keep_everything(ground: Ground) -> None:
    """What was not deleted is not touched."""
    kept = [saved("kept", "1"), wrote("kept", "1", "task"), saved("kept", "2")]
    await ground.append(kept[0], saved("gone", "1"), kept[1], deleted("gone"), kept[2])
    await tidied(ground)
    assert await readable(ground) == ids(kept)


async def test_later_life_of_a_thread_is_kept(ground: Ground) -> None:
    """A thread that goes on after its deletion loses what was before it, and no more."""
    kept = saved("thread", "1", incarnation=2)
    await ground.append(saved("thread", "1"), deleted("thread"), kept)
    await tidied(ground)
    assert await readable(ground) == ids([kept])
    assert await markers(ground) == [ThreadErased(thread_hash("thread"), 2)]
    answer = await ground.view.thread(0, 0, hash_of("thread"))
    assert answer.value is not None
    assert (answer.value.thread_id, answer.value.count) == ("thread", 1)


async def test_each_deletion_is_worked_off(ground: Ground) -> None:
    """Deleting again erases the next life as well, earlier deletions included."""
    for life in range(3):
        incarnation = 0 if life == 0 else await ground.end() - 1
        await ground.append(saved("thread", "1", incarnation=incarnation), deleted("thread"))
    await tidied(ground)
    assert await readable(ground) == set()
    assert [marker.incarnation for marker in await markers(ground)] == [6]


async def test_late_writer_is_erased_too(ground: Ground) -> None:
    """What is appended to an erased thread by someone who did not know is erased as well."""
    await ground.append(saved("gone", "1"), deleted("gone"))
    await tidied(ground)
    end = await ground.append(saved("gone", "2"), wrote("gone", "2", "task"))
    await tidied(ground)
    assert await readable(ground) == set()
    assert await ground.end() == end + 2


async def test_marker_comes_before_the_deletion_goes(ground: Ground) -> None:
    """At no moment does nothing in the log make a late append void."""
    deletion = deleted("gone")
    await ground.append(saved("gone", "1"), deletion)
    await tidied(ground)
    found = await records(ground)
    key = f"gone/{deletion.event_id.hex()}/0".encode()
    tombstone = next(r.offset for r in found if r.key == key and r.value is None)
    marker = next(r.offset for r in found if r.value and isinstance(decode(r).event, ThreadErased))
    assert marker < tombstone


async def test_parked_thread_is_erased_when_deleted(ground: Ground) -> None:
    """Records that cannot be read go like the others, and what waits behind them."""
    await ground.append(saved("bad", "1"), saved("bad", "2"), deleted("bad"))
    ground.log.changed = {1: corrupt}
    await tidied(ground)
    assert await readable(ground) == set()


async def test_nothing_is_erased_twice(ground: Ground) -> None:
    """What the view does not show yet is not erased once more, and an end is an end."""
    end = await ground.append(saved("gone", "1"), deleted("gone"))
    await ground.applier().advance(0, end)
    using = tidier(ground)
    for _ in range(3):
        await using.tidy(0, is_idle=lambda: True)
    assert await ground.end() == end + 1
    await tidied(ground, using)
    end = await ground.end()
    await tidied(ground)
    assert await ground.end() == end


async def test_another_process_goes_on_where_one_stopped(ground: Ground) -> None:
    """Whichever step was the last, the next one is found in the view."""
    await ground.append(saved("gone", "1"), deleted("gone"))
    for _ in range(6):
        await ground.applier().advance(0, await ground.end())
        await tidier(ground).tidy(0, is_idle=lambda: True)
    assert await readable(ground) == set()
    assert len(await markers(ground)) == 1


async def test_marker_without_its_tombstone_is_made_again(ground: Ground) -> None:
    """When a process ends between the two, the deletion is found by its place in the log."""
    await ground.append(saved("gone", "1"), deleted("gone"))
    gone = LogUnavailableError("erasing", reason="no broker")
    using = tidier(ground)
    await ground.applier().advance(0, await ground.end())
    await using.tidy(0, is_idle=lambda: True)
    await ground.applier().advance(0, await ground.end())
    ground.log.before_erase = once(raising(gone))
    with pytest.raises(LogUnavailableError):
        await using.tidy(0, is_idle=lambda: True)
    assert len(await markers(ground)) == 1
    await tidied(ground)
    assert await readable(ground) == set()


async def test_unknown_outcome_is_looked_at_again(ground: Ground) -> None:
    """A tombstone that may have been stored is stored again; that does no harm."""
    await ground.append(saved("gone", "1"), deleted("gone"))
    await ground.applier().advance(0, await ground.end())
    unknown = AppendOutcomeUnknownError("id", partition=0, waited=1.0)
    ground.log.before_erase = once(raising(unknown))
    using = tidier(ground)
    with pytest.raises(AppendOutcomeUnknownError):
        await using.tidy(0, is_idle=lambda: True)
    await tidied(ground, using)
    assert await readable(ground) == set()


async def test_busy_partition_is_left_alone(ground: Ground) -> None:
    """Nothing is swept or erased while the partition has better things to do."""
    end = await ground.append(saved("gone", "1"), deleted("gone"))
    await ground.applier().advance(0, end)
    await tidier(ground).tidy(0, is_idle=lambda: False)
    assert await ground.end() == end


async def test_erasing_can_be_switched_off(ground: Ground) -> None:
    """Then the view is swept and the log kept as it is."""
    end = await ground.append(saved("gone", "1"), deleted("gone"))
    await ground.applier().advance(0, end)
    config = ProjectorConfig(erase=False)
    await Tidier(ground.log, ground.view, config).tidy(0, is_idle=lambda: True)
    assert await ground.end() == end


async def test_many_threads_are_walked_in_pages(ground: Ground) -> None:
    """However many threads there are, all that were deleted are found."""
    kept = [saved(f"kept {n}", "1") for n in range(450)]
    gone = [event for n in range(5) for event in (saved(f"gone {n}", "1"), deleted(f"gone {n}"))]
    await ground.append(*kept, *gone)
    await tidied(ground)
    assert await readable(ground) == ids(kept)


async def test_view_without_the_erased_records_is_the_same(ground: Ground) -> None:
    """Once all is compacted, a rebuild gives the view that was there before."""
    await ground.append(
        saved("kept", "1"), saved("gone", "1"), deleted("gone"), saved("gone", "2"),
        saved("again", "1"), deleted("again"), saved("again", "2", incarnation=6),
    )  # fmt: skip
    await tidied(ground)
    before = await ground.view.dump(0)
    erased = {record.key for record in await records(ground) if record.value is None}
    ground.log.missing = {r.offset for r in await records(ground) if r.key in erased}
    assert await rebuilt(ground) == before


async def test_quiet_partition_is_nudged(ground: Ground) -> None:
    """Behind old records something is appended, for Kafka to compact them, and not for ever."""
    end = await ground.append(saved("gone", "1"), deleted("gone"))
    await ground.applier().advance(0, end)
    config = ProjectorConfig(nudge_after=0.001)

    async def tidied_log() -> list[bool]:
        """Return of each record, tombstones excepted, whether it is a nudge."""
        await Tidier(ground.log, ground.view, config).tidy(0, is_idle=lambda: True)
        await ground.applier().advance(0, await ground.end())
        events = [decode(record).event for record in await records(ground) if record.value]
        return [isinstance(event, LogNudged) for event in events]

    async def is_nudged_enough() -> bool:
        return all((await tidied_log())[-NUDGES:])

    enough: bool = await wait_until(is_nudged_enough, description="the partition was nudged")
    assert enough
    before = await tidied_log()
    assert [await tidied_log() for _ in range(3)] == [before] * 3


async def test_young_partition_is_not_nudged(ground: Ground) -> None:
    """As long as somebody else appends, nothing is added."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(5)])
    await ground.applier().advance(0, end)
    await tidier(ground).tidy(0, is_idle=lambda: True)
    assert await ground.end() == end


async def test_what_is_gone_from_the_front_needs_no_nudge(ground: Ground) -> None:
    """Of a log that lost its front nothing is read that is not there any more."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(5)])
    await ground.applier().advance(0, end)
    ground.log.first = end
    ground.log.before_read = raising(LogTruncatedError(0, wanted=end - NUDGES, first=end))
    config = ProjectorConfig(nudge_after=0.001)
    await Tidier(ground.log, ground.view, config).tidy(0, is_idle=lambda: True)
    assert await ground.end() == end
