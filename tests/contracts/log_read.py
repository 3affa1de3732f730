"""What `EventLog` promises of its beginning, its end, reading and following."""

from __future__ import annotations

import asyncio

import pytest

from eventstore import codec
from eventstore.events import LogStarted
from eventstore.log import EventLog

from .log_suite import (
    LogSuite,
    OpenLog,
    incompressible,
    read_all,
    read_range,
    tail_until,
    tailing,
    task_ids,
    writes_event,
)


class ReadSuite(LogSuite):
    """Nothing acknowledged is missed, nothing comes twice or out of order."""

    async def test_every_partition_begins_with_its_identity(self, log: EventLog) -> None:
        """The first record of each partition names the log and its partition count."""
        assert log.partition_count >= 1
        for partition in range(log.partition_count):
            identity = await log.identity(partition)
            assert identity.partitions == log.partition_count
            first = (await read_all(log, partition))[0]
            event = codec.decode(first).event
            assert first.offset == 0
            assert event == LogStarted(identity.log_id, log.partition_count)

    async def test_setup_again_changes_nothing(self, log: EventLog, open_log: OpenLog) -> None:
        """`setup` is idempotent, in one instance and over instances."""
        partitions = range(log.partition_count)
        identities = [await log.identity(p) for p in partitions]
        end = await log.end_position(partitions)
        await log.setup()
        other = await open_log()
        assert [await other.identity(p) for p in partitions] == identities
        assert await other.end_position(partitions) == end

    async def test_setups_at_once_make_one_log(self, open_log: OpenLog) -> None:
        """Instances that are set up at the same time on nothing agree on the identity."""
        logs = await asyncio.gather(*(open_log() for _ in range(3)))
        for partition in range(logs[0].partition_count):
            identities = {await log.identity(partition) for log in logs}
            assert len(identities) == 1

    async def test_first_position_is_zero(self, log: EventLog) -> None:
        """A whole log can be read from offset 0."""
        first = await log.first_position(range(log.partition_count))
        assert all(first.next_offset(p) == 0 for p in range(log.partition_count))

    async def test_name_is_for_people(self, log: EventLog) -> None:
        """The name is some text."""
        assert log.name

    async def test_instances_agree_on_a_threads_partition(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """A thread's partition is the same for every instance, and one that exists."""
        other = await open_log()
        for thread_id in ["", "a", "b/c", "\u00e4\U0001f600", "x" * 1000]:
            partition = log.partition_of(thread_id)
            assert 0 <= partition < log.partition_count
            assert other.partition_of(thread_id) == partition

    async def test_end_covers_what_others_had_acknowledged(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """Whoever asks for the end after an acknowledgement gets one behind it."""
        other = await open_log()
        for number in range(30):
            appended = await log.append(writes_event(f"t{number}", str(number)))
            ends = await asyncio.gather(
                other.end_position([appended.partition]), log.end_position([appended.partition])
            )
            for end in ends:
                assert end.next_offset(appended.partition) > (appended.offset or 0)
                records = await read_all(other, appended.partition)
                assert str(number) in task_ids(records)

    async def test_end_asked_for_all_the_while_is_never_stale(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """Requests of other tasks that are on their way do not make an answer older."""
        other = await open_log()
        partition = log.partition_of("thread")
        stop = asyncio.Event()

        async def ask() -> None:
            while not stop.is_set():
                await other.end_position([partition])

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(ask())
            try:
                for number in range(100):
                    appended = await log.append(writes_event("thread", str(number)))
                    end = (await other.end_position([partition])).next_offset(partition)
                    # Each append takes at least one place behind the identity record.
                    assert end >= number + 2
                    assert appended.offset is None or end > appended.offset
            finally:
                stop.set()

    async def test_end_names_the_asked_partitions_only(self, log: EventLog) -> None:
        """Positions cover what was asked for."""
        for partition in range(log.partition_count):
            assert set(await log.end_position([partition])) == {partition}
        assert not await log.end_position([])
        assert not await log.first_position([])

    async def test_read_keeps_to_its_range(self, log: EventLog) -> None:
        """A read gives the records of `[start, stop)`, each once, over several calls."""
        partition = log.partition_of("thread")
        awaitables = [log.append(writes_event("thread", str(n), bytes(n))) for n in range(50)]
        for awaitable in awaitables:
            await awaitable
        everything = await read_all(log, partition)
        offsets = [record.offset for record in everything]
        start, stop = offsets[10], offsets[40]
        assert await read_range(log, partition, start, stop) == everything[10:40]
        assert await read_range(log, partition, start, start + 1) == everything[10:11]

    async def test_long_log_is_read_in_steps(self, log: EventLog) -> None:
        """Many records and much data come whole, in order, in more than one batch if need be."""
        partition = log.partition_of("thread")
        data = incompressible(5_000)
        names = [str(number) for number in range(1_500)]
        awaitables = [
            log.append(writes_event("thread", name, data[: int(name) % 5_000])) for name in names
        ]
        for awaitable in awaitables:
            await awaitable
        assert task_ids(await read_all(log, partition)) == names

    async def test_tail_gives_what_is_there_and_what_comes(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """A tail goes from the old records to those of any instance, as they come."""
        other = await open_log()
        partition = log.partition_of("thread")
        await log.append(writes_event("thread", "old"))

        async def append() -> None:
            for number in range(50):
                await [log, other][number % 2].append(writes_event("thread", str(number)))

        async with asyncio.TaskGroup() as group:
            group.create_task(append())
            records = await tail_until(log, {partition: 0}, lambda seen: "49" in task_ids(seen))
        assert task_ids(records) == ["old", *(str(number) for number in range(50))]

    async def test_tail_follows_all_its_partitions(self, log: EventLog) -> None:
        """Each partition that was asked for is followed from its own offset."""
        partitions = range(log.partition_count)
        ends = await log.end_position(partitions)
        threads = [f"thread {number}" for number in range(40)]

        async def append() -> None:
            for thread_id in threads:
                await log.append(writes_event(thread_id, thread_id))

        async with asyncio.TaskGroup() as group:
            group.create_task(append())
            start = {p: ends.next_offset(p) for p in partitions}
            records = await tail_until(log, start, lambda seen: len(seen) >= len(threads))
        assert sorted(task_ids(records)) == sorted(threads)

    async def test_idle_tail_wakes_for_another_instance(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """A tail that waits at the end meets the next append of another instance."""
        other = await open_log()
        partition = log.partition_of("thread")
        end = (await log.end_position([partition])).next_offset(partition)
        async with tailing(log, {partition: end}) as batches:
            for number in range(3):
                waiting = asyncio.ensure_future(anext(batches))
                await asyncio.sleep(0)
                await other.append(writes_event("thread", str(number)))
                batch = await waiting
                assert task_ids(list(batch.records)) == [str(number)]

    async def test_two_tails_are_independent(self, log: EventLog) -> None:
        """Closing one tail leaves another one of the same instance going."""
        partition = log.partition_of("thread")
        async with tailing(log, {partition: 0}) as ours:
            async with tailing(log, {partition: 0}) as others:
                assert (await anext(others)).records
            assert (await anext(ours)).records
            waiting = asyncio.ensure_future(anext(ours))
            await log.append(writes_event("thread", "task"))
            assert task_ids(list((await waiting).records)) == ["task"]

    async def test_cancelled_tail_leaves_the_log_usable(self, log: EventLog) -> None:
        """Cancelling whoever waits on a tail ends the tail and nothing else."""
        partition = log.partition_of("thread")
        end = (await log.end_position([partition])).next_offset(partition)
        waiting = asyncio.create_task(tail_until(log, {partition: end}, bool))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await log.append(writes_event("thread", "task"))
        assert task_ids(await tail_until(log, {partition: end}, bool)) == ["task"]
