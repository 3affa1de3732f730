"""Appending: a queue per partition, one idempotent producer, a deadline round every record.

What is queued in a partition goes out as one batch, the next one when that is answered. A record is
sent by one producer only and never again by another. When its deadline passes or its producer
fails, `outcome` looks for it in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from aiokafka.errors import KafkaError

from eventstore.errors import EventStoreError, LogUnavailableError
from eventstore.log import Appended

from .client import FINAL_ERRORS, RETRY_INTERVAL
from .outcome import Outcomes, Pending, refusal_in
from .producer import Outgoing, Producer
from .reader import Reader

log = logging.getLogger("langgraph_checkpoint_kafka.log")

_LOG_APPEND_TIME: Final = 1


class Appender:
    """Sends records in the order of the calls, per partition, and says what became of each."""

    def __init__(
        self,
        reader: Reader,
        *,
        timeout: float,
        make_producer: Callable[[], Producer],
        record_limit: Callable[[], Awaitable[int]],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self._make_producer = make_producer
        self._outcomes = Outcomes(
            reader, timeout=timeout, record_limit=record_limit, on_verdict=self._forget
        )
        self._queues: dict[int, _Queue] = {}
        # Records without a verdict, in the order of their calls; so the first has the next
        # deadline. Entered by `append`, left by `_forget` only.
        self._pending: dict[Pending, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        # Partition → an offset that every record handed over from now on lies behind.
        self._seen: dict[int, int] = {}
        # What sends at present, and what has failed and still waits for answers.
        self._producer: Producer | None = None
        self._opening = asyncio.Lock()
        self._failed: dict[Producer, asyncio.Task[None]] = {}
        # Why nothing is acknowledged at present, if so.
        self._last_failure: BaseException | None = None
        self._is_closing = False
        self._is_closed = False
        self._idle = asyncio.Event()

    async def open(self) -> None:
        """Connect."""
        await self._current()

    def append(self, partition: int, record: Outgoing) -> asyncio.Future[Appended]:
        """Take a record into its partition's queue and return the future of its verdict."""
        loop = self._loop
        pending = Pending(partition, record, loop.time() + self._timeout, loop.create_future())
        self._pending[pending] = None
        if self._timer is None:
            self._timer = loop.call_at(pending.deadline, self._sweep)
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue(loop)
            queue.pump = loop.create_task(
                self._pump(partition, queue), name=f"kafka log: appends of partition {partition}"
            )
        queue.put(pending)
        return pending.verdict

    def saw(self, partition: int, end: int) -> None:
        """Note that a partition reaches at least up to `end`."""
        if end > self._seen.get(partition, 0):
            self._seen[partition] = end

    async def close(self) -> None:
        """Wait for a verdict on every record, at most until its deadline, and let go."""
        self._is_closing = True
        while self._pending:
            self._idle.clear()
            await self._idle.wait()
        # Every record has its verdict; answers that still come change nothing.
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        pumps = [queue.pump for queue in self._queues.values() if queue.pump is not None]
        tasks = [*pumps, *self._failed.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._outcomes.close()
        for producer in [*self._failed, self._producer]:
            if producer is not None:
                await producer.close()

    # The pump: the only one that hands records of its partition to a producer, a batch at a time.

    async def _pump(self, partition: int, queue: _Queue) -> None:
        while True:
            try:
                await self._hand_over(partition, queue)
            except Exception as error:
                # The outermost loop of a worker: without it nothing of this partition would go on.
                log.exception("appending to partition %d failed", partition)
                self._give_up_first(queue, error)

    async def _hand_over(self, partition: int, queue: _Queue) -> None:
        while True:
            if not queue.records:
                await queue.wait()
                continue
            producer = self._producer
            try:
                if producer is None or not self._may_use(producer, partition):
                    # Meanwhile records may go, and this producer may fail: all is asked anew.
                    await self._make_usable(partition)
                elif producer.is_spent:
                    self._retire(producer, partition, KafkaError("its sequence numbers run out"))
                else:
                    await self._send(producer, partition, queue)
            except (EventStoreError, KafkaError) as error:
                await self._could_not_send(queue, partition, producer, error)

    async def _send(self, producer: Producer, partition: int, queue: _Queue) -> None:
        """Hand over what is queued, as far as it fits into one batch."""
        batch = producer.new_batch()
        after = self._seen.get(partition, 0)
        sent: list[Pending] = []
        for pending in queue.records:
            record = pending.record
            added = batch.append(
                timestamp=None, key=record.key, value=record.value, headers=record.headers
            )
            if added is None:
                break
            sent.append(pending)
        for pending in sent:
            pending.after = after
            queue.records.popleft()
        try:
            answer = await producer.send(partition, batch)
        except BaseException:
            for pending in reversed(sent):
                # One that is looked up already gets its verdict by that, and is not sent any more.
                if not pending.is_looked_up:
                    pending.after = None
                    queue.records.appendleft(pending)
            raise
        answer.add_done_callback(partial(self._answered, sent, partition, producer))

    async def _could_not_send(
        self, queue: _Queue, partition: int, producer: Producer | None, error: BaseException
    ) -> None:
        """Deal with an error by which no record left the queue."""
        self._last_failure = error
        if isinstance(error, FINAL_ERRORS):
            self._give_up_first(queue, error)
            return
        if producer is not None and isinstance(error, KafkaError) and not error.retriable:
            self._retire(producer, partition, error)
        await asyncio.sleep(RETRY_INTERVAL)

    def _give_up_first(self, queue: _Queue, error: BaseException) -> None:
        """Reject the record that no producer has and that is next, and never send it."""
        if queue.records:
            pending = queue.records.popleft()
            pending.reject(LogUnavailableError("appending an event", reason=repr(error)), error)
            self._forget(pending)

    def _may_use(self, producer: Producer, partition: int) -> bool:
        """Tell whether the producer may be given a batch of a partition now.

        What a failed producer has outstanding there may still arrive, and must arrive first.
        """
        if not producer.is_ready(partition):
            return False
        return all(failed.is_settled(partition) for failed in self._failed)

    async def _make_usable(self, partition: int) -> None:
        for failed in list(self._failed):
            await failed.wait_settled(partition)
        producer = await self._current()
        await producer.get_ready(partition)

    async def _current(self) -> Producer:
        async with self._opening:
            if self._producer is None:
                producer = self._make_producer()
                await producer.open()
                self._producer = producer
            return self._producer

    def _retire(self, producer: Producer, partition: int, error: BaseException) -> None:
        if producer.failure is not None:
            return
        log.warning("a producer is replaced because of partition %d: %r", partition, error)
        producer.failure = error
        if self._producer is producer:
            self._producer = None
        self._failed[producer] = self._loop.create_task(
            self._dispose(producer), name="kafka log: disposal of a failed producer"
        )

    async def _dispose(self, producer: Producer) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await producer.wait_settled()
        except TimeoutError:
            # All that it has is past its deadline by now, and must not hold the others up.
            log.warning("a replaced producer is given up with records that it never delivered")
        await producer.close()
        del self._failed[producer]

    # Answers and deadlines.

    def _answered(
        self,
        batch: list[Pending],
        partition: int,
        producer: Producer,
        answer: asyncio.Future[Any],
    ) -> None:
        error = KafkaError("cancelled") if answer.cancelled() else answer.exception()
        producer.answered(partition)
        if self._is_closed:
            return
        self._last_failure = error
        if error is None:
            self._acknowledge(batch, partition, answer.result())
            return
        self._retire(producer, partition, error)
        refusal = refusal_in(error)
        for pending in batch:
            if pending in self._pending:
                pending.refusal = refusal
                self._outcomes.look_up(pending)

    def _acknowledge(self, batch: list[Pending], partition: int, stored: Any) -> None:
        # Once per record: so neither `accept` nor `_forget` is called.
        offset: int | None = None
        timestamp: int | None = None
        if stored.timestamp_type == _LOG_APPEND_TIME:
            offset, timestamp = stored.offset, stored.timestamp
            self.saw(partition, stored.offset + len(batch))
        # Else the broker recognised a retry of something long stored; the place is made up.
        for pending in batch:
            if not pending.verdict.done():
                pending.verdict.set_result(Appended(partition, offset, timestamp))
            self._pending.pop(pending, None)
            if offset is not None:
                offset += 1
        self._tell_if_idle()

    def _sweep(self) -> None:
        """Deal with the records whose deadline has passed, and set the timer for the next."""
        self._timer = None
        now = self._loop.time()
        for pending in list(self._pending):
            if pending.deadline > now:
                self._timer = self._loop.call_at(pending.deadline, self._sweep)
                return
            if pending.after is not None:
                self._outcomes.look_up(pending)
                continue
            # The first of its queue: what was called before it has had its deadline already.
            queue = self._queues[pending.partition]
            self._give_up_first(queue, self._last_failure or _not_sent(self._timeout))

    def _forget(self, pending: Pending) -> None:
        self._pending.pop(pending, None)
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._is_closing and not self._pending:
            self._idle.set()


def _not_sent(timeout: float) -> TimeoutError:
    return TimeoutError(f"not sent within {timeout:g} s")


class _Queue:
    """Records of one partition that no producer has yet, in the order of their calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.records: deque[Pending] = deque()
        self.pump: asyncio.Task[None] | None = None
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None

    def put(self, pending: Pending) -> None:
        self.records.append(pending)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
