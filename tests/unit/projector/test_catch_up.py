"""Reads at a bound: never from an older view, whoever applies the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from eventstore.errors import LogUnavailableError
from projector.applier import Applier
from projector.catch_up import FAR_BEHIND, CatchUp
from projector.errors import ProjectionHaltedError, ProjectionLagError, ViewUnavailableError
from projector.view import Answer, ViewBehindError
from tests.contracts.view_suite import hash_of, saved
from tests.projections import Ground, from_the_future, once, raising
from tests.waiting import wait_until

LONG = 60.0
"""Longer than any test lasts, in seconds."""


class Reader:
    """Reads how many checkpoints a thread holds, and counts how often the view was asked."""

    def __init__(self, ground: Ground, thread_id: str = "thread") -> None:
        self._ground = ground
        self._thread = hash_of(thread_id)
        self.asked = 0
        self.after_each: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, bound: int) -> Answer[int]:
        self.asked += 1
        try:
            answer = await self._ground.view.thread(0, bound, self._thread)
        finally:
            if self.after_each is not None:
                await self.after_each()
        return Answer(answer.applied, 0 if answer.value is None else answer.value.count)


def catch_up(ground: Ground, *, patience: float = 0.0, deadline: float = LONG) -> CatchUp:
    return CatchUp(ground.applier(), patience=patience, deadline=deadline)


async def halfway(ground: Ground) -> int:
    """Append three checkpoints of which the view has two; return the log's end."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(3)])
    await Applier(ground.log, ground.view).advance(0, end - 1)
    return end


async def test_view_that_is_there_answers_at_once(ground: Ground) -> None:
    """A view at the bound is asked once, and nobody applies anything."""
    end = await halfway(ground)
    reader = Reader(ground)
    answer = await catch_up(ground).read(0, end - 1, reader)
    assert (answer.value, reader.asked) == (2, 1)
    assert ground.faulty.sizes == []


async def test_reader_helps(ground: Ground) -> None:
    """Without any projector the read applies what it wants to see."""
    end = await halfway(ground)
    answer = await catch_up(ground).read(0, end, Reader(ground))
    assert answer == Answer(end, 3)


async def test_reader_begins_a_missing_view(ground: Ground) -> None:
    """A read needs no view to be there: it makes one."""
    end = await ground.append(saved("thread", "1"))
    assert (await catch_up(ground).read(0, end, Reader(ground))).value == 1


async def test_empty_view_never_answers(ground: Ground) -> None:
    """A read that wants nothing in particular gets no answer from a view that holds nothing yet."""
    await ground.append(saved("thread", "1"))
    assert (await catch_up(ground).read(0, 0, Reader(ground))).value == 1


async def test_notified_reader_does_not_help(ground: Ground) -> None:
    """A projector of this process that says what it has applied wakes the reads that want it."""
    end = await halfway(ground)
    reads, reader = catch_up(ground, patience=LONG), Reader(ground)
    reading = asyncio.create_task(reads.read(0, end, reader))
    await wait_until(lambda: reader.asked, description="the read has asked once")
    reads.notify(0, await Applier(ground.log, ground.view).advance(0, end))
    assert (await reading).value == 3
    assert ground.faulty.sizes == []


async def test_reader_finds_what_others_applied(ground: Ground) -> None:
    """A projector of another process, which notifies nobody here, is noticed all the same."""
    end = await halfway(ground)
    reader = Reader(ground)
    reading = asyncio.create_task(catch_up(ground, patience=LONG).read(0, end, reader))
    await wait_until(lambda: reader.asked > 2, description="the read looks now and then")
    await Applier(ground.log, ground.view).advance(0, end)
    assert (await reading).value == 3
    assert ground.faulty.sizes == []


async def test_patience_ends(ground: Ground) -> None:
    """A read that waited in vain for a projector helps."""
    end = await halfway(ground)
    assert (await catch_up(ground, patience=0.01).read(0, end, Reader(ground))).value == 3


async def test_absent_projector_is_waited_for_only_once(ground: Ground) -> None:
    """After one read that waited in vain, the next ones look once and help."""
    reads = catch_up(ground, patience=0.1)
    await reads.read(0, await halfway(ground), Reader(ground))
    second = Reader(ground)
    await reads.read(0, await ground.append(saved("thread", "4")), second)
    assert second.asked <= len(("at first", "a look", "after helping"))


async def test_view_far_behind_is_helped_at_once(ground: Ground) -> None:
    """No patience is spent where no projector can be in time."""
    end = await halfway(ground)

    async def answer(bound: int) -> int:
        if await ground.reached() < end:
            raise ViewBehindError(1)
        return bound

    bound = 1 + FAR_BEHIND
    ground.log.end_of = lambda _: bound
    helper = CatchUp(_Stopping(ground, end), patience=LONG, deadline=LONG)
    assert await helper.read(0, bound, answer) == bound


class _Stopping(Applier):
    """Advances no further than to the real end of a log that claims to be longer."""

    def __init__(self, ground: Ground, end: int) -> None:
        super().__init__(ground.log.log, ground.view)
        self._real_end = end

    async def advance(
        self,
        partition: int,
        bound: int,
        *,
        may_replace: bool = False,
        on_progress: Callable[[int], object] | None = None,
    ) -> int:
        return await super().advance(partition, min(bound, self._real_end))


async def test_deadline_says_how_far_the_view_is(ground: Ground) -> None:
    """A read that cannot be brought there in time raises what it wanted and what there is."""
    end = await halfway(ground)

    async def stand_still() -> None:
        await asyncio.Event().wait()

    ground.log.before_read = stand_still
    with pytest.raises(ProjectionLagError) as lag:
        await catch_up(ground, deadline=0.05).read(0, end, Reader(ground))
    assert isinstance(lag.value, TimeoutError)
    assert (lag.value.wanted, lag.value.applied, lag.value.rate) == (end, end - 1, 0.0)
    assert lag.value.waited > 0


async def test_deadline_counts_patience_too(ground: Ground) -> None:
    """The deadline ends a read in whatever it waits for."""
    end = await halfway(ground)
    with pytest.raises(ProjectionLagError):
        await catch_up(ground, patience=LONG, deadline=0.05).read(0, end, Reader(ground))


async def test_foreign_timeout_is_not_taken_for_lag(ground: Ground) -> None:
    """A `TimeoutError` that is not the read's own deadline comes through as it is."""
    end = await halfway(ground)
    ground.log.before_read = raising(TimeoutError("someone else's"))
    with pytest.raises(TimeoutError, match="someone else's") as timeout:
        await catch_up(ground).read(0, end, Reader(ground))
    assert not isinstance(timeout.value, ProjectionLagError)


async def test_halt_reaches_the_reader(ground: Ground) -> None:
    """A read that wants to see past an event from the future raises; it never gets old data."""
    end = await halfway(ground)
    ground.log.changed = {end - 1: from_the_future}
    with pytest.raises(ProjectionHaltedError):
        await catch_up(ground).read(0, end, Reader(ground))
    assert (await catch_up(ground).read(0, end - 1, Reader(ground))).value == 2


@pytest.mark.parametrize(
    "error",
    [
        ViewUnavailableError("view", reason="no connection"),
        LogUnavailableError("reading", reason="no broker"),
    ],
)
async def test_unreachable_server_reaches_the_reader(ground: Ground, error: Exception) -> None:
    """What cannot be reached is an error, never an empty answer."""
    end = await halfway(ground)
    ground.log.before_read = once(raising(error))
    with pytest.raises(type(error)):
        await catch_up(ground).read(0, end, Reader(ground))


async def test_view_lost_between_help_and_answer(ground: Ground) -> None:
    """A view that vanishes as soon as it was helped is made again."""
    end = await halfway(ground)
    reader = Reader(ground)

    async def lose() -> None:
        if reader.asked == 1:
            await ground.view.discard(0)

    reader.after_each = lose
    assert (await catch_up(ground).read(0, end, reader)).value == 3


async def test_many_readers_share_the_work(ground: Ground) -> None:
    """Reads of one process that want the same apply it once."""
    end = await ground.append(*[saved("thread", f"{n}") for n in range(100)])
    reads = catch_up(ground)
    answers = await asyncio.gather(*[reads.read(0, end, Reader(ground)) for _ in range(50)])
    assert {answer.value for answer in answers} == {100}
    assert sum(ground.faulty.sizes) == end


async def test_cancelled_reader_leaves_the_others(ground: Ground) -> None:
    """Reads that wait for the help of one that is cancelled get their answers."""
    end = await halfway(ground)
    is_reading = asyncio.Event()

    async def block() -> None:
        if not is_reading.is_set():
            is_reading.set()
            await asyncio.Event().wait()

    ground.log.before_read = block
    reads = catch_up(ground)
    first = asyncio.create_task(reads.read(0, end, Reader(ground)))
    await is_reading.wait()
    others = [asyncio.create_task(reads.read(0, end, Reader(ground))) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()
    assert [(await other).value for other in others] == [3] * 5
    assert first.cancelled()


async def test_cancelled_reader_waits_no_more(ground: Ground) -> None:
    """Nothing is left of a read that was cancelled while it was patient."""
    end = await halfway(ground)
    reads, reader = catch_up(ground, patience=LONG), Reader(ground)
    reading = asyncio.create_task(reads.read(0, end, reader))
    await wait_until(lambda: reader.asked, description="the read has asked once")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    reads.notify(0, end)
    assert not any(reads._waiting.values())
