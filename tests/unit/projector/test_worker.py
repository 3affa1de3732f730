"""The worker on SQLite: restores, follows, survives, stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from eventstore.errors import (
    EventStoreError,
    LogIdentityError,
    LogTruncatedError,
    LogUnavailableError,
)
from projector.applier import Applier
from projector.config import ProjectorConfig
from projector.errors import ViewCorruptedError, ViewUnavailableError
from projector.lease import LeaseBoard, OpenBoard
from projector.metrics import PartitionState, WorkerState
from projector.worker import Worker
from tests.contracts.view_suite import saved
from tests.projections import (
    Ground,
    corrupt,
    from_the_future,
    once,
    raising,
    random_events,
    rebuilt,
    sqlite_ground,
)
from tests.waiting import wait_until

QUICK = ProjectorConfig(
    check_interval=0.02,
    tidy_interval=0.02,
    halt_retry=0.05,
    min_backoff=0.01,
    max_backoff=0.02,
    erase=False,
)


@dataclass
class Board:
    """A board whose grants a test decides."""

    granted: frozenset[int] = frozenset({0})
    interval: float = 0.01
    error: Exception | None = None
    released: list[int] = field(default_factory=list)
    has_left: bool = False

    async def claim(self, partitions: Collection[int]) -> frozenset[int]:
        if self.error is not None:
            raise self.error
        return self.granted.intersection(partitions)

    async def release(self, partitions: Collection[int]) -> None:
        self.released += partitions

    async def leave(self) -> None:
        self.has_left = True
        if self.error is not None:
            raise self.error

    async def wait(self, timeout: float) -> None:
        await asyncio.sleep(timeout)


@asynccontextmanager
async def working(
    ground: Ground, board: LeaseBoard | None = None, **options: object
) -> AsyncGenerator[Worker]:
    """Run a worker as long as the block lasts."""
    worker = worker_on(ground, board)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def worker_on(ground: Ground, board: LeaseBoard | None = None) -> Worker:
    return Worker(ground.log, ground.faulty, ground.applier(), board or OpenBoard(), QUICK)


async def applied(ground: Ground, end: int) -> None:
    async def is_there() -> bool:
        return await ground.reached() >= end

    found: bool = await wait_until(is_there, description=f"the view has applied all below {end}")
    assert found


def state_of(worker: Worker) -> PartitionState | None:
    """What the worker does with the one partition, None while it does not hold it."""
    found = worker.status.partitions
    return found[0].state if found else None


async def follows(worker: Worker) -> None:
    await wait_until(
        lambda: state_of(worker) is PartitionState.FOLLOWING, description="the log is followed"
    )


async def test_worker_restores_then_follows(ground: Ground) -> None:
    """What is in the log and what comes is applied; lag and state are told."""
    end = await ground.append(*random_events(80))
    async with working(ground) as worker:
        await applied(ground, end)
        await follows(worker)
        end = await ground.append(*random_events(20, seed=8))
        await applied(ground, end)
        await wait_until(
            lambda: worker.status.partitions[0].lag == 0, description="the lag is known"
        )
        assert worker.status.applied == end
    assert await ground.view.dump(0) == await rebuilt(ground)


async def test_readers_are_notified(ground: Ground) -> None:
    """Whoever wants to know hears of each position that is reached."""
    heard: list[tuple[int, int]] = []
    worker = Worker(
        ground.log,
        ground.view,
        ground.applier(),
        OpenBoard(),
        QUICK,
        notify=lambda partition, next_offset: heard.append((partition, next_offset)),
    )
    await worker.start()
    end = await ground.append(saved("thread", "1"))
    await wait_until(lambda: (0, end) in heard, description="the end was told")
    await worker.stop()


async def test_stop_and_start_are_idempotent(ground: Ground) -> None:
    """A worker can be stopped before it starts, stopped twice, started twice and started again."""
    board = Board()
    worker = worker_on(ground, board)
    await worker.stop()
    states = [worker.status.state]
    for number in range(2):
        await worker.start()
        await worker.start()
        states.append(worker.status.state)
        await applied(ground, await ground.append(saved("thread", f"{number}")))
        await asyncio.gather(worker.stop(), worker.stop())
        states.append(worker.status.state)
        assert (worker.status.partitions, worker.status.error) == ([], None)
    assert states == [
        WorkerState.IDLE,
        WorkerState.RUNNING,
        WorkerState.STOPPED,
        WorkerState.RUNNING,
        WorkerState.STOPPED,
    ]
    assert board.has_left


async def test_batch_in_hand_is_finished(ground: Ground) -> None:
    """Stopping waits for the step under way."""
    is_applying, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        is_applying.set()
        await go_on.wait()

    async with working(ground) as worker:
        await follows(worker)
        ground.faulty.before_apply = once(hold)
        end = await ground.append(saved("thread", "1"))
        await is_applying.wait()
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        go_on.set()
        await stopping
        assert await ground.reached() == end


async def test_cancelled_stop_still_stops(ground: Ground) -> None:
    """Whoever is cancelled while stopping leaves the worker to finish."""
    worker = worker_on(ground)
    await worker.start()
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    await worker.wait()
    assert worker.status.state is WorkerState.STOPPED


async def test_lost_view_is_noticed_without_events(ground: Ground) -> None:
    """A view that vanishes is made again although nothing is appended."""
    end = await ground.append(*random_events(40))
    async with working(ground) as worker:
        await follows(worker)
        await ground.view.discard(0)
        await applied(ground, end)
    assert await ground.view.dump(0) == await rebuilt(ground)


@pytest.mark.parametrize("times", [1, 3])
async def test_unreachable_view_is_survived(ground: Ground, times: int) -> None:
    """After the view was out of reach, work goes on where it was."""
    lost = ViewUnavailableError("view", reason="connection lost")
    left = list(range(times))

    async def fail() -> None:
        if left:
            left.pop()
            raise lost

    async with working(ground) as worker:
        await follows(worker)
        ground.faulty.before_load = fail
        end = await ground.append(saved("thread", "1"))
        await applied(ground, end)
        assert worker.status.state is WorkerState.RUNNING


async def test_unreachable_log_is_survived(ground: Ground) -> None:
    """After the log was out of reach, work goes on where it was."""
    gone = LogUnavailableError("reading", reason="no broker")
    ground.log.before_read = once(raising(gone))
    end = await ground.append(saved("thread", "1"))
    async with working(ground) as worker:
        await applied(ground, end)
        await follows(worker)
        ground.log.before_read = once(raising(gone))
        await applied(ground, await ground.append(saved("thread", "2")))


async def test_unreachable_board_stops_no_work(ground: Ground) -> None:
    """Without its leases renewed a worker goes on: at worst two do the same."""
    board = Board()
    async with working(ground, board) as worker:
        await follows(worker)
        board.error = ViewUnavailableError("board", reason="no connection")
        await applied(ground, await ground.append(saved("thread", "1")))
        assert worker.status.state is WorkerState.RUNNING


async def test_lost_lease_ends_the_work(ground: Ground) -> None:
    """What is not granted any more is given back and no longer followed, until it is again."""
    board = Board()
    async with working(ground, board) as worker:
        await follows(worker)
        board.granted = frozenset()
        await wait_until(lambda: board.released, description="the lease is given back")
        assert board.released == [0]
        assert worker.status.partitions == []
        end = await ground.append(saved("thread", "1"))
        board.granted = frozenset({0})
        await applied(ground, end)


async def test_halted_partition_says_why_and_is_tried_again(ground: Ground) -> None:
    """An event from the future stops the partition with its error, until someone helps."""
    board = Board()
    async with working(ground, board) as worker:
        await follows(worker)
        ground.log.changed = {2: from_the_future}
        end = await ground.append(*[saved("thread", f"{n}") for n in range(3)])
        await wait_until(
            lambda: state_of(worker) is PartitionState.HALTED, description="the partition halts"
        )
        assert "upgrade" in (worker.status.partitions[0].error or "")
        assert worker.status.state is WorkerState.RUNNING
        assert await ground.reached() == 2
        await wait_until(lambda: board.released, description="others may take it")
        ground.log.changed = {}
        await applied(ground, end)
        await follows(worker)


async def test_poison_stops_nothing(ground: Ground) -> None:
    """A corrupt event that comes while the log is followed parks its thread and no more."""
    ground.log.changed = {2: corrupt}
    async with working(ground) as worker:
        await follows(worker)
        end = await ground.append(saved("good", "1"), saved("bad", "1"), saved("good", "2"))
        await applied(ground, end)


@pytest.mark.parametrize(
    "error",
    [
        ViewCorruptedError("view", partition=0, reason="unreadable bytes"),
        LogTruncatedError(0, wanted=1, first=2),
        LogIdentityError(0, expected="one log", found="another"),
    ],
)
async def test_what_cannot_be_tidied_is_followed_all_the_same(
    ground: Ground, error: EventStoreError
) -> None:
    """Tidying is tried again later; it never costs the projector."""
    swept = 0

    async def sweep() -> None:
        nonlocal swept
        swept += 1
        raise error

    ground.faulty.before_sweep = sweep
    async with working(ground) as worker:
        await wait_until(lambda: swept > 1, description="tidying was tried again")
        await applied(ground, await ground.append(saved("thread", "1")))
        assert worker.status.state is WorkerState.RUNNING


async def test_unforeseen_error_fails_the_worker(ground: Ground) -> None:
    """An error without an answer stops the worker, and its status tells which it was."""
    board = Board()
    worker = worker_on(ground, board)
    ground.faulty.before_load = raising(ZeroDivisionError("unforeseen"))
    await worker.start()
    await ground.append(saved("thread", "1"))
    await worker.wait()
    assert worker.status.state is WorkerState.FAILED
    assert "unforeseen" in (worker.status.error or "")
    assert board.has_left


async def test_closed_log_ends_the_worker(ground: Ground) -> None:
    """Closing the log under a worker ends it without an error."""
    worker = worker_on(ground)
    await worker.start()
    await follows(worker)
    await ground.log.close()
    await worker.wait()
    assert worker.status.state is WorkerState.STOPPED


async def test_two_workers_end_in_the_same_view(ground: Ground) -> None:
    """Two that both believe to hold the partition do no harm."""
    async with working(ground) as first, working(ground) as second:
        await asyncio.gather(follows(first), follows(second))
        end = await ground.append(*random_events(100))
        await applied(ground, end)
    assert await ground.view.dump(0) == await rebuilt(ground)


async def test_helping_reader_does_not_disturb(ground: Ground) -> None:
    """A worker follows on where readers have brought the view."""
    async with working(ground) as worker:
        await follows(worker)
        helper = Applier(ground.log, ground.view)
        end = 0
        for event in random_events(30):
            end = await ground.append(event)
            await helper.advance(0, end)
        await wait_until(
            lambda: worker.status.partitions[0].next_offset == end, description="it has noticed"
        )
    assert await ground.view.dump(0) == await rebuilt(ground)


async def test_replaced_log_halts_the_partition() -> None:
    """A worker that meets the view of another log touches nothing and says so."""
    async with sqlite_ground() as ground, sqlite_ground() as other:
        end = await ground.append(saved("thread", "1"))
        await ground.applier().advance(0, end)
        worker = Worker(other.log, ground.view, Applier(other.log, ground.view), OpenBoard(), QUICK)
        await worker.start()
        await wait_until(
            lambda: state_of(worker) is PartitionState.HALTED, description="the partition halts"
        )
        assert "rebuild" in (worker.status.partitions[0].error or "")
        await worker.stop()
        assert await ground.reached() == end
