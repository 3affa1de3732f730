"""Three brokers, one killed after the other under load: nothing fails, nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import aclosing

import pytest

from eventstore import codec
from eventstore.events import WritesSaved
from eventstore.kafka import KafkaEventLog
from services import Services
from tests.kafka_logs import config_for, opened, writes_event
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(240)]

THREADS = 24
PARTITIONS = 6


async def follow(log: KafkaEventLog, seen: dict[str, list[str]]) -> None:
    async with aclosing(log.tail(dict.fromkeys(range(PARTITIONS), 0))) as batches:
        async for batch in batches:
            for record in batch.records:
                recorded = codec.decode(record)
                if isinstance(recorded.event, WritesSaved) and recorded.thread_id is not None:
                    seen.setdefault(recorded.thread_id, []).append(recorded.event.task_id)


async def test_brokers_die_one_by_one_and_no_append_fails(
    own_services: Services, topic: str
) -> None:
    """Every append is acknowledged, in order, and every one of them reaches a tail once."""
    bootstrap = (await asyncio.to_thread(own_services.start, "kafka3")).kafka3
    assert bootstrap is not None
    acknowledged: dict[str, list[str]] = {f"thread {number}": [] for number in range(THREADS)}
    seen: dict[str, list[str]] = {}
    stop = asyncio.Event()

    async with opened(config_for(bootstrap, topic, partitions=PARTITIONS)) as log:

        async def write(thread_id: str) -> None:
            while not stop.is_set():
                name = str(len(acknowledged[thread_id]))
                await log.append(writes_event(name, thread_id=thread_id))
                acknowledged[thread_id].append(name)

        async def all_go_on() -> None:
            counts = {thread_id: len(names) for thread_id, names in acknowledged.items()}
            await wait_until(
                lambda: all(len(acknowledged[t]) >= count + 20 for t, count in counts.items()),
                description="every thread goes on",
                timeout=60,
            )

        following = asyncio.create_task(follow(log, seen))
        async with asyncio.TaskGroup() as group:
            for thread_id in acknowledged:
                group.create_task(write(thread_id))
            try:
                await all_go_on()
                for broker in ("kafka3-1", "kafka3-2"):
                    await asyncio.to_thread(own_services.kill, broker)
                    await all_go_on()
                    assert set(await log.end_position(range(PARTITIONS))) == set(range(PARTITIONS))
                    await asyncio.to_thread(own_services.restart, broker)
                    await all_go_on()
            finally:
                stop.set()
        await wait_until(lambda: seen == acknowledged, description="the tail has it all")
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
