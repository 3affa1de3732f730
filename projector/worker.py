"""The projector: holds partitions, restores them, then follows the log and applies it.

Four loops share the state below on one event loop: one keeps the leases, one follows the log, one
looks after what else may have happened, one tidies up. What the worker knows may be wrong at any
time (a lease lost, a view flushed): the applier's compare-and-set keeps the view right, so every
loop may go on with its batch in hand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final, cast

from eventstore.errors import (
    AppendOutcomeUnknownError,
    EventStoreError,
    LogClosedError,
    LogIdentityError,
    LogTruncatedError,
)
from eventstore.log import EventLog, LogBatch

from .applier import Applier
from .config import ProjectorConfig
from .errors import HALTING, UNREACHABLE, ViewUnavailableError
from .lease import LeaseBoard
from .metrics import (
    Meter,
    PartitionState,
    PartitionStatus,
    RestoreProgress,
    WorkerState,
    WorkerStatus,
    measure,
)
from .restore import restore
from .tidying import Tidier
from .view import ViewWriter
from .waiting import Backoff, Lanes, first_of

QUIET_LAG: Final = 250
"""Up to which lag a partition counts as idle enough to be tidied."""

SETTLE_TIME: Final = 0.05
"""How long, in seconds, a new tail waits for restores that are under way, to follow them too."""

logger = logging.getLogger("langgraph_checkpoint_kafka.projector")


@dataclass(slots=True)
class _Held:
    """A partition that this worker holds."""

    state: PartitionState = PartitionState.RESTORING
    next_offset: int = 0
    """What the view has applied, as far as known. Where the tail begins."""
    lag: int | None = None
    restoring: asyncio.Task[None] | None = None
    restore: RestoreProgress | None = None


@dataclass(frozen=True, slots=True)
class _Halt:
    """Why a partition was given up, and from when on it is tried again."""

    error: EventStoreError
    retry_at: float


class Worker:
    """One projector. `start` and `stop` may be called in any order and any number of times."""

    def __init__(
        self,
        log: EventLog,
        view: ViewWriter,
        applier: Applier,
        board: LeaseBoard,
        config: ProjectorConfig | None = None,
        *,
        notify: Callable[[int, int], None] | None = None,
    ) -> None:
        self._log = log
        self._view = view
        self._applier = applier
        self._board = board
        self._config = config or ProjectorConfig()
        self._notify = notify or _tell_nobody
        self._tidier = Tidier(log, view, self._config)
        self._main: asyncio.Task[None] | None = None
        self._state = WorkerState.IDLE
        self._error: BaseException | None = None
        self._meter = Meter()
        self._stopping = asyncio.Event()
        # What this worker holds a lease of; changed by the loop that keeps the leases.
        self._held: dict[int, _Held] = {}
        # What it gave up; its lease is given back, so that a newer program can take it.
        self._halted: dict[int, _Halt] = {}
        # Set when the partitions to follow, or where to follow them from, are not those of the
        # present tail any more, and when the worker stops.
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(self._config.restore_concurrency)

    @property
    def status(self) -> WorkerStatus:
        """Return what the worker does at this moment."""
        held = [
            PartitionStatus(number, held.state, held.next_offset, held.lag, restore=held.restore)
            for number, held in self._held.items()
            if held.state is not PartitionState.HALTED
        ]
        halted = [
            PartitionStatus(number, PartitionState.HALTED, 0, None, error=str(halt.error))
            for number, halt in self._halted.items()
        ]
        return WorkerStatus(
            self._state,
            sorted(held + halted, key=lambda status: status.partition),
            self._meter.total,
            self._meter.rate,
            None if self._error is None else repr(self._error),
        )

    async def start(self) -> None:
        """Begin to work, in tasks of the running event loop. The log and the view are set up."""
        if self._main is None or self._main.done():
            self._stopping.clear()
            self._error = None
            self._state = WorkerState.RUNNING
            self._main = asyncio.create_task(self._run(), name="projector")

    async def stop(self) -> None:
        """Finish the batch in hand, give the leases back, end. Returns when all of it is done."""
        self._stopping.set()
        self._changed.set()
        if self._main is not None:
            # A task of its own: whoever is cancelled while stopping leaves it to finish.
            await asyncio.shield(self._main)

    async def wait(self) -> None:
        """Return when the worker has ended, stopped or failed; `status` tells which."""
        if self._main is not None:
            await asyncio.shield(self._main)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_leases(), name="projector: leases")
                group.create_task(self._follow(group), name="projector: follow")
                group.create_task(self._check(), name="projector: check")
                group.create_task(self._tidy(), name="projector: tidy")
        except* LogClosedError:
            logger.info("the log was closed; the projector ends")
            self._state = WorkerState.STOPPED
        except* Exception as errors:  # the outermost loop: logs and stops
            logger.exception("the projector stops with an error that it has no answer to")
            self._state = WorkerState.FAILED
            self._error = errors.exceptions[0]
        else:
            self._state = WorkerState.STOPPED
        finally:
            self._held.clear()
            try:
                await self._board.leave()
            except ViewUnavailableError as error:
                logger.warning("leases are not given back but run out: %s", error)

    # Leases

    async def _keep_leases(self) -> None:
        backoff = self._backoff()
        while not self._stopping.is_set():
            try:
                granted = await self._board.claim(self._wanted())
                taken, given_up = granted - self._held.keys(), self._held.keys() - granted
                if taken or given_up:
                    for number in given_up:
                        del self._held[number]
                    for number in taken:
                        self._held[number] = _Held()
                    self._changed.set()
                if given_up:
                    await self._board.release(given_up)
                await self._unless_stopped(self._board.wait(self._board.interval))
            except ViewUnavailableError as error:
                # Work goes on without leases: at worst two do it.
                logger.warning("leases are not renewed: %s", error)
                await self._pause(backoff.next())
            else:
                backoff = self._backoff()

    def _wanted(self) -> list[int]:
        now = monotonic()
        for number in [n for n, halt in self._halted.items() if halt.retry_at <= now]:
            del self._halted[number]
        return [n for n in range(self._log.partition_count) if n not in self._halted]

    def _halt(self, partition: int, error: EventStoreError) -> None:
        logger.error("partition %d halts: %s", partition, error)
        self._halted[partition] = _Halt(error, monotonic() + self._config.halt_retry)
        held = self._held.get(partition)
        if held is not None:
            held.state = PartitionState.HALTED
        self._changed.set()

    # Restore

    async def _start_restores(self, group: asyncio.TaskGroup) -> None:
        """Start what has to be restored, and give what is quick the time to join the next tail."""
        for number, held in self._held.items():
            is_busy = held.restoring is not None and not held.restoring.done()
            if held.state is PartitionState.RESTORING and not is_busy:
                held.restoring = group.create_task(
                    self._restore(number, held), name=f"projector: restore {number}"
                )
        restoring = [h.restoring for h in self._held.values() if h.restoring is not None]
        if restoring:
            await asyncio.wait(restoring, timeout=SETTLE_TIME)

    async def _restore(self, partition: int, held: _Held) -> None:
        def report(progress: RestoreProgress) -> None:
            self._passed(held, progress.next_offset)
            held.restore = progress
            self._notify(partition, progress.next_offset)

        def is_wanted() -> bool:
            return self._held.get(partition) is held and not self._stopping.is_set()

        backoff = self._backoff()
        async with self._slots:
            while is_wanted():
                try:
                    progress = await restore(
                        self._log, self._applier, partition, on_progress=report, is_wanted=is_wanted
                    )
                except UNREACHABLE as error:
                    logger.warning("partition %d: %s", partition, error)
                    self._applier.recheck(partition)
                    await self._pause(backoff.next())
                except HALTING as error:
                    self._halt(partition, error)
                    return
                else:
                    if progress.is_done:
                        held.state = PartitionState.FOLLOWING
                        held.restore = None
                        self._changed.set()
                        return

    # Follow

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        backoff = self._backoff()
        while not self._stopping.is_set():
            self._changed.clear()
            await self._start_restores(group)
            positions = self._followed()
            if not positions:
                await self._changed.wait()
                continue
            before = self._meter.total
            try:
                await self._follow_from(positions)
            except (LogIdentityError, LogTruncatedError) as error:
                # Restoring finds out whether the view is affected.
                await self._pause(backoff.next())
                self._look_again([error.partition])
            except UNREACHABLE as error:
                if self._meter.total > before:
                    backoff = self._backoff()
                logger.warning("following the log is interrupted: %s", error)
                await self._pause(backoff.next())
                # Behind the interruption there may be another log, or another view.
                self._look_again(positions)

    def _followed(self) -> dict[int, int]:
        return {
            number: held.next_offset
            for number, held in self._held.items()
            if held.state is PartitionState.FOLLOWING
        }

    async def _follow_from(self, positions: dict[int, int]) -> None:
        """Apply what comes until something about the tail must change.

        Partitions are applied side by side: most of the time is spent waiting for the view.
        """
        tail = cast("AsyncGenerator[LogBatch, None]", self._log.tail(positions))
        changed = asyncio.ensure_future(self._changed.wait())
        lanes = Lanes(on_failure=self._changed.set)
        try:
            async with aclosing(tail) as batches:
                while not changed.done():
                    batch = await first_of(anext(batches), changed)
                    if batch is not None:
                        await lanes.start(batch.partition, partial(self._apply, batch))
            await lanes.drain()
        finally:
            changed.cancel()
            await lanes.cancel()

    async def _apply(self, batch: LogBatch) -> None:
        held = self._held.get(batch.partition)
        if held is None or held.state is not PartitionState.FOLLOWING:
            return
        try:
            reached = await self._applier.apply(batch)
        except HALTING as error:
            self._halt(batch.partition, error)
            return
        self._passed(held, reached)
        self._notify(batch.partition, reached)
        if reached < batch.next_offset:
            # The view was lost, or is not where the tail is, or an event from the future comes.
            self._look_again([batch.partition])

    def _passed(self, held: _Held, next_offset: int) -> None:
        self._meter.add(max(next_offset - held.next_offset, 0))
        held.next_offset = next_offset

    def _look_again(self, partitions: Iterable[int]) -> None:
        """Have the given partitions verified and restored before they are followed again."""
        for number in partitions:
            self._applier.recheck(number)
            held = self._held.get(number)
            if held is not None and held.state is PartitionState.FOLLOWING:
                held.state = PartitionState.RESTORING
        self._changed.set()

    # Look after the rest

    async def _check(self) -> None:
        """Notice what no batch tells: a view that was lost or set back, a log that was replaced."""
        while not self._stopping.is_set():
            await self._pause(self._config.check_interval)
            followed = self._followed()
            try:
                lags = await measure(self._log, self._view, list(followed))
            except UNREACHABLE as error:
                logger.debug("the lag is not known: %s", error)
                continue
            for lag in lags:
                held = self._held.get(lag.partition)
                if held is None or held.state is not PartitionState.FOLLOWING:
                    continue
                held.lag = lag.lag
                if lag.problem is not None or lag.next_offset < followed[lag.partition]:
                    logger.warning("partition %d is looked at again: %s", lag.partition, lag)
                    self._look_again([lag.partition])

    async def _tidy(self) -> None:
        resume_at: dict[int, float] = {}
        while not self._stopping.is_set():
            await self._pause(self._config.tidy_interval)
            for number in list(self._followed()):
                if monotonic() < resume_at.get(number, 0.0):
                    continue
                try:
                    await self._tidier.tidy(number, is_idle=partial(self._is_idle, number))
                except (*UNREACHABLE, AppendOutcomeUnknownError) as error:
                    logger.debug("partition %d is not tidied: %s", number, error)
                except LogClosedError:
                    raise
                except EventStoreError as error:
                    # Whatever is wrong with one partition: all of them go on being followed.
                    logger.warning("partition %d cannot be tidied: %s", number, error)
                    resume_at[number] = monotonic() + self._config.halt_retry

    def _is_idle(self, partition: int) -> bool:
        held = self._held.get(partition)
        if held is None or held.lag is None or self._stopping.is_set():
            return False
        return held.lag <= QUIET_LAG

    # Waiting

    async def _pause(self, seconds: float) -> None:
        await self._unless_stopped(asyncio.sleep(seconds))

    async def _unless_stopped(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for something, but not beyond the moment when the worker is told to stop."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await first_of(waiting, stopping)
        finally:
            stopping.cancel()

    def _backoff(self) -> Backoff:
        return Backoff(self._config.min_backoff, self._config.max_backoff)


def _tell_nobody(partition: int, next_offset: int) -> None:
    """Stand in for readers that wait in this process."""
