"""What is Kafka's own in reading and appending: markers, ends, sizes, options."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.offset import OffsetRequest

from eventstore.config import KafkaConfig
from eventstore.errors import EventTooLargeError, LogClosedError, LogTruncatedError
from eventstore.kafka import KafkaEventLog
from eventstore.kafka import producer as producer_module
from eventstore.log import Appended
from tests.kafka_admin import SAFE_SETTINGS, create_topic, delete_records, set_topic
from tests.kafka_logs import (
    client_of,
    config_for,
    opened,
    producer_of,
    read_all,
    task_ids,
    writes_event,
)
from tests.waiting import wait_until


@asynccontextmanager
async def transactional(bootstrap: str, topic: str) -> AsyncGenerator[Any]:
    producer: Any = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def follow_to(log: KafkaEventLog, end: int, start: int = 0) -> list[str]:
    """Follow partition 0 until the tail's position is `end`; return the task ids on the way."""
    seen: list[str] = []
    async with asyncio.timeout(20), aclosing(log.tail({0: start})) as batches:
        async for batch in batches:
            seen += [record.key.decode() for record in batch.records if record.key]
            assert batch.next_offset <= end
            if batch.next_offset == end:
                break
    return seen


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
async def test_transaction_marker_at_the_end_is_passed(
    kafka_bootstrap: str, topic: str, *, is_committed: bool
) -> None:
    """Reading and following reach the end when the last record is a marker that nobody sees."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        await log.append(writes_event("ours"))
        async with transactional(kafka_bootstrap, topic) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"value", key=b"foreign", partition=0)
            if is_committed:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()

        async def has_marker() -> bool:
            return (await log.end_position([0])).next_offset(0) == 4

        marked: bool = await wait_until(has_marker, description="identity, ours, foreign, marker")
        assert marked
        assert [record.offset for record in await read_all(log)] == [0, 1, 2]
        only_marker = await log.read(0, 3, 4)
        assert (list(only_marker.records), only_marker.next_offset) == ([], 4)
        assert (await follow_to(log, 4))[-1] == "foreign"
        await log.append(writes_event("after"))
        assert task_ids(await read_all(log, start=3)) == ["after"]


async def test_tail_reports_progress_over_a_marker_alone(kafka_bootstrap: str, topic: str) -> None:
    """A position that only a marker moved is told at once: somebody may wait for it."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        async with transactional(kafka_bootstrap, topic) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"value", key=b"foreign", partition=0)
            async with asyncio.timeout(20), aclosing(log.tail({0: 2})) as batches:
                waiting = asyncio.ensure_future(anext(batches))
                await producer.commit_transaction()
                batch = await waiting
        assert (batch.start, list(batch.records), batch.next_offset) == (2, [], 3)


async def test_open_transaction_hides_nothing(kafka_bootstrap: str, topic: str) -> None:
    """Records behind somebody's open transaction are below the end and are read."""
    async with (
        opened(config_for(kafka_bootstrap, topic)) as log,
        transactional(kafka_bootstrap, topic) as producer,
    ):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"value", key=b"foreign", partition=0)
        appended = await log.append(writes_event("behind"))
        end = (await log.end_position([0])).next_offset(0)
        assert appended.offset == end - 1 == 2
        assert task_ids([r for r in await read_all(log) if r.key != b"foreign"]) == ["behind"]
        await follow_to(log, end)
        await producer.abort_transaction()


async def test_front_deleted_under_a_tail_is_reported(kafka_bootstrap: str, topic: str) -> None:
    """A slow follower whose next record was deleted is told; it never jumps over the hole."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        for number in range(10):
            await log.append(writes_event(str(number)))
        async with asyncio.timeout(20), aclosing(log.tail({0: 0})) as batches:
            batch = await anext(batches)
            position = batch.next_offset
            # The poll under way gives the first of these; the others are gone before the next.
            for number in range(50):
                await log.append(writes_event(f"later {number}"))
            first = (await log.end_position([0])).next_offset(0) - 1
            await delete_records(kafka_bootstrap, topic, 0, first)

            async def go_on() -> None:
                nonlocal position
                async for batch in batches:
                    assert batch.start == position
                    position = batch.next_offset

            with pytest.raises(LogTruncatedError) as truncated:
                await go_on()
        assert (truncated.value.wanted, truncated.value.first) == (position, first)


async def test_end_request_under_way_is_not_shared(kafka_bootstrap: str, topic: str) -> None:
    """Who asks for the end while a request is on its way gets a later one; they share that."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        client = client_of(log)
        ask, may_answer = client.ask, asyncio.Event()
        requests: list[object] = []

        async def hold_first(request: object, **options: Any) -> Any:
            answer = await ask(request, **options)
            if isinstance(request, OffsetRequest):
                requests.append(request)
                if len(requests) == 1:
                    await may_answer.wait()
            return answer

        client.ask = hold_first
        early = asyncio.ensure_future(log.end_position([0]))
        await wait_until(lambda: requests, description="the first request is answered")
        appended = await log.append(writes_event("task"))
        late = [asyncio.ensure_future(log.end_position([0])) for _ in range(20)]
        late[0].cancel()
        may_answer.set()
        assert (await early).next_offset(0) == 1
        results = await asyncio.gather(*late[1:])
        assert appended.offset is not None
        assert {end.next_offset(0) for end in results} == {appended.offset + 1}
        assert len(requests) == 2


async def test_order_holds_while_batches_are_full(kafka_bootstrap: str, topic: str) -> None:
    """A small event does not overtake a large one that waits for room."""
    config = config_for(kafka_bootstrap, topic, max_batch_bytes=20_000)
    rng = random.Random(7)
    sizes = [rng.choice([10, 300, 5_000, 15_000, 60_000]) for _ in range(400)]
    async with opened(config) as log:
        waiting = [
            log.append(writes_event(str(number), rng.randbytes(size)))
            for number, size in enumerate(sizes)
        ]
        places = await asyncio.gather(*waiting)
        assert [place.offset for place in places] == list(range(1, 401))
        assert task_ids(await read_all(log)) == [str(number) for number in range(400)]


async def test_what_is_queued_meanwhile_goes_together(kafka_bootstrap: str, topic: str) -> None:
    """A partition's next batch waits for the answer to the one before, and takes all there is."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        await log.append(writes_event("before"))
        producer = producer_of(log)
        send = producer.send
        counts: list[int] = []
        waiting: list[asyncio.Future[Appended]] = []

        async def count(partition: int, batch: Any) -> Any:
            counts.append(batch.record_count())
            if len(counts) == 1:
                waiting.extend(log.append(writes_event(str(number))) for number in range(1, 50))
            return await send(partition, batch)

        producer.send = count
        await log.append(writes_event("0"))
        await asyncio.gather(*waiting)
        assert counts == [1, 49]
        names = task_ids(await read_all(log))
        assert names == ["before", *(str(number) for number in range(50))]


async def test_batch_is_handed_over_at_once(kafka_bootstrap: str, topic: str) -> None:
    """Nothing else runs between the building of a batch and the moment when aiokafka has it."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        await log.append(writes_event("before"))
        producer = producer_of(log)
        assert producer.is_ready(0)
        batch = producer.new_batch()
        batch.append(timestamp=None, key=b"key", value=None)
        with pytest.raises(StopIteration) as handed_over:
            producer.send(0, batch).send(None)
        assert not producer.is_ready(0)
        assert (await handed_over.value.value).offset == 2
        producer.answered(0)
        assert producer.is_ready(0)


async def test_topics_own_limit_counts(kafka_bootstrap: str, topic: str) -> None:
    """An event above the topic's limit is refused at the call, one just below it is stored."""
    limits = {"max.message.bytes": "20000"}
    await create_topic(kafka_bootstrap, topic, settings={**SAFE_SETTINGS, **limits})
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        with pytest.raises(EventTooLargeError) as refused:
            _ = log.append(writes_event("large", random.Random(1).randbytes(20_000)))
        assert refused.value.limit < 20_000
        many = [
            log.append(writes_event(f"{number}", random.Random(number).randbytes(18_000)))
            for number in range(20)
        ]
        assert all(place.offset is not None for place in await asyncio.gather(*many))


async def test_limit_lowered_meanwhile_is_a_clear_error(kafka_bootstrap: str, topic: str) -> None:
    """A record that the broker refuses for its size says so; its neighbours can be appended."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        await log.append(writes_event("first"))
        await set_topic(kafka_bootstrap, topic, max_message_bytes="20000")
        large = random.Random(1).randbytes(300_000)

        async def is_refused() -> bool:
            try:
                await log.append(writes_event("large", large))
            except EventTooLargeError as error:
                return error.size > error.limit and error.limit < 20_000
            return False

        refused: bool = await wait_until(is_refused, description="the broker knows the new limit")
        assert refused
        small = [log.append(writes_event(f"small {number}")) for number in range(50)]
        assert all(isinstance(place, Appended) for place in await asyncio.gather(*small))
        # Known by now: refused at the call.
        with pytest.raises(EventTooLargeError):
            _ = log.append(writes_event("large", large))
        names = [name for name in task_ids(await read_all(log)) if name != "large"]
        assert names == ["first", *(f"small {number}" for number in range(50))]


async def test_producer_is_replaced_before_its_numbers_run_out(
    kafka_bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost or reordered when a producer has sent all that it may."""
    monkeypatch.setattr(producer_module, "SEQUENCE_NUMBERS", 100)
    async with opened(config_for(kafka_bootstrap, topic, max_batch_bytes=2_000)) as log:
        first = producer_of(log)
        await asyncio.gather(*[log.append(writes_event(str(number))) for number in range(450)])
        assert producer_of(log) is not first
        assert task_ids(await read_all(log)) == [str(number) for number in range(450)]


async def test_every_client_gets_the_same_options(
    kafka_bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating, appending, reading and following all connect by the given options."""
    seen: list[dict[str, Any]] = []
    client_class: Any = AIOKafkaClient
    construct = client_class.__init__

    def spy(self: Any, **options: Any) -> None:
        seen.append(options)
        construct(self, **options)

    monkeypatch.setattr(client_class, "__init__", spy)
    config = KafkaConfig(
        bootstrap_servers=kafka_bootstrap,
        topic=topic,
        client_id="a name of its own",
        client_options={"metadata_max_age_ms": 123_456},
    )
    async with opened(config) as log:
        await log.append(writes_event("task"))
        async with aclosing(log.tail({0: 0})) as batches:
            await anext(batches)
    assert len(seen) == 3
    for options in seen:
        assert options["client_id"] == "a name of its own"
        assert options["metadata_max_age_ms"] == 123_456
        assert options["security_protocol"] == "PLAINTEXT"


async def test_cancelled_reads_leave_the_log_usable(kafka_bootstrap: str, topic: str) -> None:
    """Whoever is cancelled while reading or asking takes nothing away from the next."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        for number in range(20):
            await log.append(writes_event(str(number)))
        rng = random.Random(3)
        for _ in range(100):
            tasks: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(log.end_position([0])),
                asyncio.ensure_future(log.read(0, 0, 10)),
                asyncio.ensure_future(log.first_position([0])),
            ]
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert task_ids(await read_all(log)) == [str(number) for number in range(20)]


async def test_who_waits_is_told_of_the_closing(kafka_bootstrap: str, topic: str) -> None:
    """Reads and end positions that are under way when the log closes end, with its error."""
    log = KafkaEventLog(config_for(kafka_bootstrap, topic))
    await log.setup()
    client = client_of(log)
    ask = client.ask

    async def slowly(request: object, **options: Any) -> Any:
        await asyncio.Event().wait()
        return await ask(request, **options)

    client.ask = slowly
    waiting = [asyncio.ensure_future(log.end_position([0])) for _ in range(3)]
    await asyncio.sleep(0)
    await log.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, LogClosedError) for result in results)
