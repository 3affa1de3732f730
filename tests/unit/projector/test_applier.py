"""Applying the log to a view: whoever does it, however often, whatever goes wrong meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from eventstore.events import LogNudged, NewEvent
from eventstore.log import LogBatch, LogRecord
from projector.applier import Applier
from projector.errors import (
    ProjectionHaltedError,
    ThreadParkedError,
    ViewCorruptedError,
    ViewUnavailableError,
)
from projector.layout import POISON, ROWS, checkpoint_field, epoch_of
from projector.view import Changes, Selection
from tests.contracts.view_suite import deleted, hash_of, listed, saved
from tests.projections import (
    Ground,
    corrupt,
    from_the_future,
    nameless,
    once,
    raising,
    random_events,
    rebuilt,
)


async def names(ground: Ground) -> set[tuple[str | None, str, str]]:
    """The checkpoints that a listing over everything gives."""
    found, _ = await listed(ground.view, Selection())
    return {(c.thread.thread_id, c.namespace, c.checkpoint_id) for c in found}


async def why_parked(ground: Ground, thread_id: str, *, offset: int) -> str:
    """The reason for which a thread is parked, at an offset."""
    with pytest.raises(ThreadParkedError) as parked:
        await ground.view.thread(0, 0, hash_of(thread_id))
    assert (parked.value.thread_id, parked.value.offset) == (thread_id, offset)
    return parked.value.reason


class TestFolding:
    async def test_log_is_applied_up_to_the_bound(self, ground: Ground) -> None:
        """All below the bound is in the view afterwards, and the position says so."""
        end = await ground.append(saved("thread", "1"), saved("thread", "2"))
        assert await ground.applier().advance(0, end) == end
        assert await ground.reached() == end
        assert await names(ground) == {("thread", "", "1"), ("thread", "", "2")}

    @pytest.mark.parametrize("size", [1, 2, 7, 250])
    async def test_any_batch_size_gives_the_same_view(self, ground: Ground, size: int) -> None:
        """How the log is cut into batches does not show in the view."""
        end = await ground.append(*random_events(200))
        await ground.applier(max_entries=size).advance(0, end)
        assert await ground.view.dump(0) == await rebuilt(ground)

    async def test_large_events_are_applied_one_by_one(self, ground: Ground) -> None:
        """A step holds few bytes, unless one event alone is larger."""
        events = [saved("thread", f"{n}", {"channel": b"x" * 200_000}) for n in range(3)]
        end = await ground.append(*events)
        await ground.applier().advance(0, end)
        assert ground.faulty.sizes == [2, 1, 1]

    async def test_last_event_is_remembered(self, ground: Ground) -> None:
        """The progress names the last record that was applied."""
        last = saved("thread", "2")
        end = await ground.append(saved("thread", "1"), last)
        await ground.applier().advance(0, end)
        progress = await ground.view.progress(0)
        assert progress is not None
        assert progress.last_event_id == last.event_id

    async def test_batch_is_applied_once(self, ground: Ground) -> None:
        """A batch that comes again, whole or in part, is passed over."""
        end = await ground.append(*random_events(50))
        applier = ground.applier(max_entries=9)
        await applier.advance(0, 20)
        whole = await ground.log.read(0, 0, end)
        assert await applier.apply(whole) == end
        sizes = sum(ground.faulty.sizes)
        assert await applier.apply(whole) == end
        assert sum(ground.faulty.sizes) == sizes
        assert await ground.view.dump(0) == await rebuilt(ground)

    async def test_batch_behind_a_hole_is_left_alone(self, ground: Ground) -> None:
        """A batch that begins beyond the view's next offset is not applied."""
        end = await ground.append(*[saved("thread", f"{n}") for n in range(9)])
        applier = ground.applier()
        await applier.advance(0, 4)
        assert await applier.apply(await ground.log.read(0, 6, end)) == 4
        assert await ground.reached() == 4

    async def test_gap_and_empty_batch_move_the_position(self, ground: Ground) -> None:
        """Records that are gone hold nothing up."""
        end = await ground.append(*[saved("thread", f"{n}") for n in range(5)])
        ground.log.missing = {3, 4, 5}
        applier = ground.applier()
        assert await applier.advance(0, end) == end
        assert await applier.apply(LogBatch(0, end, [], end + 3)) == end + 3
        assert await names(ground) == {("thread", "", "0"), ("thread", "", "1")}

    async def test_tombstones_are_passed(self, ground: Ground) -> None:
        """Erased records and housekeeping change nothing that is visible."""
        events = [saved("thread", "1"), deleted("thread")]
        await ground.append(*events)
        key = f"thread/{events[0].event_id.hex()}/0".encode()
        await ground.log.erase(0, [key, b"no key of ours"])
        await ground.log.append(NewEvent(None, LogNudged()), partition=0)
        end = await ground.append(saved("other", "1"))
        await ground.applier().advance(0, end)
        assert await names(ground) == {("other", "", "1")}


class TestTogether:
    async def test_two_at_once_end_in_the_same_view(self, ground: Ground) -> None:
        """Any number of appliers may work on one partition: the view is the fold of the log."""
        end = await ground.append(*random_events(200))
        appliers = [ground.applier(max_entries=size) for size in (3, 11, 250)]
        assert await asyncio.gather(*[a.advance(0, end) for a in appliers]) == [end] * 3
        assert await ground.view.dump(0) == await rebuilt(ground)
        assert sum(ground.faulty.sizes) == end

    async def test_overtaken_batch_is_cut_again(self, ground: Ground) -> None:
        """What another applied between load and apply is not applied a second time."""
        end = await ground.append(*random_events(60))
        other = Applier(ground.log, ground.view, max_entries=7)

        async def overtake() -> None:
            await other.advance(0, 30)

        ground.faulty.after_load = once(overtake)
        assert await ground.applier().advance(0, end) == end
        assert await ground.view.dump(0) == await rebuilt(ground)

    async def test_lost_view_is_begun_anew(self, ground: Ground) -> None:
        """A view that vanishes between load and apply is made from the log's beginning."""
        end = await ground.append(*random_events(60))
        ground.faulty.after_load = once(lambda: ground.view.discard(0))
        assert await ground.applier(max_entries=20).advance(0, end) == end
        assert await ground.view.dump(0) == await rebuilt(ground)

    async def test_apply_begins_no_view(self, ground: Ground) -> None:
        """A batch for a partition without a view is left alone."""
        end = await ground.append(saved("thread", "1"))
        assert await ground.applier().apply(await ground.log.read(0, 0, end)) == 0
        assert await ground.reached() == -1

    async def test_lost_answer_is_no_harm(self, ground: Ground) -> None:
        """When the connection breaks behind an apply, the next attempt goes on from there."""
        end = await ground.append(*random_events(60))
        applier = ground.applier(max_entries=20)
        lost = ViewUnavailableError("view", reason="connection lost")
        ground.faulty.after_apply = once(raising(lost))
        with pytest.raises(ViewUnavailableError):
            await applier.advance(0, end)
        assert await applier.advance(0, end) == end
        assert await ground.view.dump(0) == await rebuilt(ground)

    async def test_cancelled_helper_leaves_the_others(self, ground: Ground) -> None:
        """Whoever waits for a helper that is cancelled goes on by itself."""
        end = await ground.append(*random_events(60))
        applier = ground.applier()
        is_reading = asyncio.Event()

        async def block() -> None:
            if not is_reading.is_set():
                is_reading.set()
                await asyncio.Event().wait()

        ground.log.before_read = block
        first = asyncio.create_task(applier.advance(0, end))
        await is_reading.wait()
        others = [asyncio.create_task(applier.advance(0, end)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.gather(*others) == [end] * 3
        assert first.cancelled()
        assert await ground.view.dump(0) == await rebuilt(ground)

    async def test_one_of_a_process_helps_at_a_time(self, ground: Ground) -> None:
        """Those who wait for a helper find its work done."""
        end = await ground.append(*random_events(60))
        applier = ground.applier()
        await asyncio.gather(*[applier.advance(0, end) for _ in range(20)])
        assert sum(ground.faulty.sizes) == end
        assert ground.log.reads < 4


class TestPoison:
    async def test_corrupt_event_parks_its_thread_alone(self, ground: Ground) -> None:
        """The thread waits behind the event, with its place and reason; others go on."""
        end = await ground.append(
            saved("good", "1"), saved("bad", "1"), saved("bad", "2"), saved("good", "2")
        )
        ground.log.changed = {2: corrupt}
        assert await ground.applier().advance(0, end) == end
        assert await names(ground) == {("good", "", "1"), ("good", "", "2")}
        assert "msgpack" in await why_parked(ground, "bad", offset=2)

    async def test_deleting_clears_a_parked_thread(self, ground: Ground) -> None:
        """A deleted thread is parked no more, and begins anew."""
        await ground.append(saved("bad", "1"), deleted("bad"))
        end = await ground.append(saved("bad", "2", incarnation=2))
        ground.log.changed = {1: corrupt}
        await ground.applier().advance(0, end)
        assert await names(ground) == {("bad", "", "2")}

    async def test_nameless_poison_is_reported_at_its_place(self, ground: Ground) -> None:
        """A record that names no thread holds nothing up."""
        end = await ground.append(saved("good", "1"), saved("bad", "1"), saved("good", "2"))
        ground.log.changed = {2: nameless}
        await ground.applier().advance(0, end)
        assert await names(ground) == {("good", "", "1"), ("good", "", "2")}
        assert list((await ground.view.dump(0))[POISON]) == [(2).to_bytes(8, "big")]

    @pytest.mark.parametrize("size", [1, 250])
    async def test_event_that_cannot_be_folded_parks_its_thread(
        self, ground: Ground, size: int
    ) -> None:
        """What can be decoded and not folded harms its thread alone, whatever batch it is in."""
        unfoldable = saved("bad", "1", {"a channel's name may not be that long" * 2_000: b""})
        end = await ground.append(
            saved("good", "1"), unfoldable, saved("good", "2"), saved("bad", "2")
        )
        await ground.applier(max_entries=size).advance(0, end)
        assert await names(ground) == {("good", "", "1"), ("good", "", "2")}
        assert "cannot be folded" in await why_parked(ground, "bad", offset=2)

    async def test_corrupt_view_parks_nothing(self, ground: Ground) -> None:
        """When the view's own bytes are to blame, it is said so, and no event is."""
        end = await ground.append(saved("thread", "1"))
        applier = ground.applier()
        await applier.advance(0, end)
        seen = await ground.view.progress(0)
        assert seen is not None
        cell = (ROWS + hash_of("thread") + epoch_of(0), checkpoint_field("", "1"))
        spoiled = Changes(cells={cell: b"no row"})
        await ground.view.apply(0, expected=seen, changes=spoiled, reached=seen)
        end = await ground.append(saved("thread", "1"))
        with pytest.raises(ViewCorruptedError, match="rebuild"):
            await applier.advance(0, end)
        assert await ground.reached() == end - 1

    @pytest.mark.parametrize(
        "error", [MemoryError(), ViewUnavailableError("view", reason="no connection")]
    )
    async def test_failing_process_parks_nothing(self, ground: Ground, error: Exception) -> None:
        """Out of memory or without a connection, the applier stops and blames no event."""
        end = await ground.append(saved("thread", "1"))
        applier = ground.applier()
        ground.faulty.before_load = once(raising(error))
        with pytest.raises(type(error)):
            await applier.advance(0, end)
        await applier.advance(0, end)
        assert await names(ground) == {("thread", "", "1")}

    async def test_memory_ends_while_decoding(self, ground: Ground) -> None:
        """An event that does not fit into memory is not a corrupt one."""

        def explode(record: LogRecord) -> LogRecord:
            raise MemoryError

        end = await ground.append(saved("thread", "1"))
        ground.log.changed = {1: explode}
        with pytest.raises(MemoryError):
            await ground.applier().advance(0, end)
        assert await names(ground) == set()
        ground.log.changed = {}
        await ground.applier().advance(0, end)
        assert await names(ground) == {("thread", "", "1")}


class TestFuture:
    async def test_event_from_the_future_halts(self, ground: Ground) -> None:
        """What stands in front of it is applied, and every further attempt says what to do."""
        end = await ground.append(*[saved("thread", f"{n}") for n in range(4)])
        ground.log.changed = {3: from_the_future}
        applier = ground.applier()
        for _ in range(2):
            with pytest.raises(ProjectionHaltedError, match="upgrade") as halted:
                await applier.advance(0, end)
            assert (halted.value.offset, halted.value.version) == (3, 99)
            assert await ground.reached() == 3

    async def test_batch_ends_in_front_of_it(self, ground: Ground) -> None:
        """`apply` returns where it stands first, and raises when it comes first."""
        end = await ground.append(*[saved("thread", f"{n}") for n in range(4)])
        ground.log.changed = {3: from_the_future}
        applier = ground.applier()
        await applier.open(0)
        batch = await ground.log.read(0, 0, end)
        assert await applier.apply(batch) == 3
        with pytest.raises(ProjectionHaltedError):
            await applier.apply(batch)

    async def test_newer_program_may_go_on(self, ground: Ground) -> None:
        """An event that a newer program has applied meanwhile halts nobody."""
        end = await ground.append(*[saved("thread", f"{n}") for n in range(4)])
        applier = ground.applier()
        await applier.advance(0, 3)
        newer = Applier(ground.log.log, ground.view)
        await newer.advance(0, end)
        ground.log.changed = {3: from_the_future}
        assert await applier.apply(await ground.log.read(0, 3, end)) == end
