"""Brokers that stop, answers that are lost, producers that fail: what an append then says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from aiokafka.errors import KafkaError, LeaderNotAvailableError
from aiokafka.structs import RecordMetadata, TopicPartition

from eventstore.config import KafkaConfig
from eventstore.errors import (
    AppendOutcomeUnknownError,
    EventStoreError,
    LogUnavailableError,
)
from eventstore.kafka import KafkaEventLog
from eventstore.log import Appended, LogRecord
from services import Services
from tests.kafka_logs import (
    config_for,
    opened,
    producer_of,
    read_all,
    task_ids,
    writes_event,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
async def complaints() -> AsyncIterator[list[str]]:
    """What the event loop complains of, exceptions that nobody retrieved among it: nothing."""
    found: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.append(str(context)))
    yield found
    assert found == []


@pytest.fixture
def own_bootstrap(own_services: Services) -> str:
    """The address of a broker that this test may stop."""
    address = own_services.start("kafka").kafka
    assert address is not None
    return address


async def impatient(bootstrap: str, topic: str, **fields: Any) -> KafkaConfig:
    """Return a config with short deadlines for a log that exists already."""
    async with opened(config_for(bootstrap, topic, **fields)):
        pass
    return config_for(bootstrap, topic, append_timeout=2, request_timeout=2, **fields)


def answer_by(log: KafkaEventLog, answer: Callable[[asyncio.Future[Any]], Any]) -> None:
    """Let the present producer send as it does, and give `answer` of what it returned instead."""
    producer = producer_of(log)
    send: Callable[..., Awaitable[Any]] = producer.send

    async def changed(*args: Any) -> Any:
        return answer(await send(*args))

    producer.send = changed


def failing_once_stored(answer: asyncio.Future[Any], reason: str) -> asyncio.Future[Any]:
    """Return an answer that fails, and only when the batch is in the log: no search precedes it."""
    failing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(stored: asyncio.Future[Any]) -> None:
        stored.result()
        failing.set_exception(KafkaError(reason))

    answer.add_done_callback(fail)
    return failing


async def no_answer(log: KafkaEventLog) -> None:
    loop = asyncio.get_running_loop()
    answer_by(log, lambda _: loop.create_future())


async def test_lost_answer_is_found_in_the_log(kafka_bootstrap: str, topic: str) -> None:
    """When the deadline passes and the event is in the log, it is acknowledged with its place."""
    async with opened(await impatient(kafka_bootstrap, topic)) as log:
        await log.append(writes_event("before"))
        await no_answer(log)
        places = await asyncio.gather(*[log.append(writes_event(str(n))) for n in range(20)])
        assert [place.offset for place in places] == list(range(2, 22))
        assert all(place.timestamp_ms for place in places)


async def test_event_that_is_not_there_has_an_unknown_outcome(
    kafka_bootstrap: str, topic: str
) -> None:
    """A record that a producer has and the log has not may still arrive; the error names it."""
    async with opened(await impatient(kafka_bootstrap, topic)) as log:
        loop = asyncio.get_running_loop()
        producer = producer_of(log)

        async def swallow(*_: object) -> asyncio.Future[Any]:
            return loop.create_future()

        send, producer.send = producer.send, swallow
        event = writes_event("lost")
        with pytest.raises(AppendOutcomeUnknownError) as unknown:
            await log.append(event)
        assert unknown.value.event_id == event.event_id.hex()
        assert unknown.value.partition == 0
        producer.send = send
        await log.append(writes_event("next"))
        assert task_ids(await read_all(log)) == ["next"]


async def test_made_up_offset_is_not_given_on(kafka_bootstrap: str, topic: str) -> None:
    """What the broker took for a retry of something long stored is acknowledged without place."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        partition = TopicPartition(topic, 0)
        made_up = RecordMetadata(topic, 0, partition, -1, 1_700_000_000_000, 0, None)

        def answer(_: object) -> asyncio.Future[Any]:
            future = asyncio.get_running_loop().create_future()
            future.set_result(made_up)
            return future

        answer_by(log, answer)
        assert await log.append(writes_event("task")) == Appended(0, None, None)


async def test_one_failure_fails_no_other_append(kafka_bootstrap: str, topic: str) -> None:
    """A producer that fails is replaced; what it had sent is found, what comes goes on in order."""
    async with opened(config_for(kafka_bootstrap, topic, max_batch_bytes=1_000)) as log:
        failed = producer_of(log)
        count = 0

        def fail_tenth(answer: asyncio.Future[Any]) -> asyncio.Future[Any]:
            nonlocal count
            count += 1
            if count != 10:
                return answer
            return failing_once_stored(answer, "the answer says no, and the log says yes")

        answer_by(log, fail_tenth)
        places = await asyncio.gather(*[log.append(writes_event(str(n))) for n in range(100)])
        assert [place.offset for place in places] == list(range(1, 101))
        assert producer_of(log) is not failed
        await log.append(writes_event("last"))
        assert task_ids(await read_all(log)) == [*(str(n) for n in range(100)), "last"]


async def test_batch_that_cannot_be_handed_over_stays_in_its_place(
    kafka_bootstrap: str, topic: str
) -> None:
    """What the producer does not take is handed over later, in order, and only once."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        producer = producer_of(log)
        send: Callable[..., Awaitable[Any]] = producer.send

        async def refuse_once(*_: object) -> Any:
            producer.send = send
            raise LeaderNotAvailableError

        producer.send = refuse_once
        places = await asyncio.gather(*[log.append(writes_event(str(n))) for n in range(20)])
        assert [place.offset for place in places] == list(range(1, 21))
        assert producer_of(log) is producer
        assert task_ids(await read_all(log)) == [str(n) for n in range(20)]


async def test_sender_that_dies_is_replaced(kafka_bootstrap: str, topic: str) -> None:
    """A producer whose own task has died takes nothing more, and appends go on by another one."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        await log.append(writes_event("first"))
        inner = producer_of(log)._producer
        inner._message_accumulator.fail_all(KafkaError("the task that sends has died"))
        await log.append(writes_event("second"))
        assert producer_of(log)._producer is not inner
        assert task_ids(await read_all(log)) == ["first", "second"]


async def test_appends_and_tails_outlive_a_broker_restart(
    own_services: Services, own_bootstrap: str, topic: str
) -> None:
    """Everything acknowledged around a crash is there once, in order, and reaches a tail."""
    acknowledged: list[str] = []
    async with opened(config_for(own_bootstrap, topic)) as log:
        records: list[LogRecord] = []

        async def follow() -> None:
            async with aclosing(log.tail({0: 0})) as batches:
                async for batch in batches:
                    records.extend(batch.records)

        async def append() -> None:
            for number in range(2_000):
                await log.append(writes_event(str(number)))
                acknowledged.append(str(number))

        following = asyncio.create_task(follow())
        appending = asyncio.create_task(append())
        await wait_until(lambda: len(acknowledged) > 100, description="some are acknowledged")
        await asyncio.to_thread(own_services.kill, "kafka")
        await asyncio.to_thread(own_services.restart, "kafka")
        await appending
        assert task_ids(await read_all(log)) == acknowledged == [str(n) for n in range(2_000)]
        await wait_until(
            lambda: task_ids(records) == acknowledged, description="the tail has it all"
        )
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def test_frozen_broker_leaves_unknown_outcomes_and_no_doubles(
    own_services: Services, own_bootstrap: str, topic: str
) -> None:
    """Who waited past the deadline is told the truth: sent, perhaps stored; or never sent."""
    config = await impatient(own_bootstrap, topic, max_batch_bytes=2_000)
    async with opened(config) as log:
        await log.append(writes_event("before"))
        own_services.pause("kafka")
        events = [writes_event(str(number), bytes(500)) for number in range(60)]
        results = await asyncio.gather(
            *[log.append(event) for event in events], return_exceptions=True
        )
        assert {type(result) for result in results} == {
            AppendOutcomeUnknownError,
            LogUnavailableError,
        }
        with pytest.raises(LogUnavailableError):
            await log.end_position([0])
        own_services.resume("kafka")

        async def is_back() -> bool:
            try:
                await log.append(writes_event("after"))
            except EventStoreError:
                return False
            return True

        back: bool = await wait_until(is_back, description="appends work again", timeout=20)
        assert back
        names = task_ids(await read_all(log))
        assert len(names) == len(set(names)) + names.count("after") - 1
        never_sent = {
            str(number)
            for number, result in enumerate(results)
            if isinstance(result, LogUnavailableError)
        }
        assert never_sent.isdisjoint(names)
        # What did arrive arrived in the order of the calls, before what was appended later.
        arrived = [int(name) for name in names if name.isdecimal()]
        assert arrived == sorted(arrived)
        assert names[: 1 + len(arrived)] == ["before", *map(str, arrived)]


async def test_close_ends_when_no_broker_answers(
    own_services: Services, own_bootstrap: str, topic: str
) -> None:
    """Closing waits for appends under way until their deadlines, and not for ever."""
    log = KafkaEventLog(await impatient(own_bootstrap, topic))
    await log.setup()
    await asyncio.to_thread(own_services.kill, "kafka")
    waiting = [log.append(writes_event(str(number))) for number in range(5)]
    await log.close()
    assert all(future.done() for future in waiting)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, EventStoreError) for result in results)


async def test_log_without_broker_cannot_be_opened(topic: str) -> None:
    """An address where nobody answers is an error within the configured time."""
    config = config_for("127.0.0.1:1", topic, request_timeout=0.5)
    with pytest.raises(LogUnavailableError, match="connecting"):
        async with opened(config):
            pass


async def test_producer_that_never_settles_holds_nothing_up(
    kafka_bootstrap: str, topic: str
) -> None:
    """A replaced producer with a record that gets no answer is given up at the deadline."""
    async with opened(await impatient(kafka_bootstrap, topic, partitions=2)) as log:
        producer = producer_of(log)
        send: Callable[..., Awaitable[Any]] = producer.send
        names = [str(number) for number in range(50)]
        held, failing = (next(n for n in names if log.partition_of(n) == p) for p in (0, 1))

        async def hold_or_fail(partition: int, batch: object) -> asyncio.Future[Any]:
            stored = await send(partition, batch)
            if partition == 1:
                return failing_once_stored(stored, "made up")
            return asyncio.get_running_loop().create_future()

        producer.send = hold_or_fail
        first = log.append(writes_event("first", thread_id=held))
        second = log.append(writes_event("second", thread_id=failing))
        assert [(await first).offset, (await second).offset] == [1, 1]

        async def goes_on() -> bool:
            try:
                await log.append(writes_event("third", thread_id=held))
            except LogUnavailableError:
                return False
            return True

        went_on: bool = await wait_until(goes_on, description="the next producer is used")
        assert went_on
        assert producer_of(log) is not producer
