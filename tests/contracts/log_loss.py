"""What `EventLog` promises of erasing, of a lost front, and of closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from eventstore.errors import LogClosedError, LogTruncatedError
from eventstore.log import Appended, EventLog
from tests.waiting import wait_until

from .log_suite import (
    PATIENCE,
    LogStorage,
    LogSuite,
    OpenLog,
    key_of,
    read_all,
    tail_until,
    task_ids,
    writes_event,
)


class LossSuite(LogSuite):
    """What is gone is gone on purpose, or said to be."""

    async def test_erased_key_shows_as_a_tombstone(self, log: EventLog, open_log: OpenLog) -> None:
        """When `erase` returns, every instance reads one tombstone per key behind all records."""
        other = await open_log()
        partition = log.partition_of("thread")
        events = [writes_event("thread", str(number)) for number in range(6)]
        for event in events:
            await log.append(event)
        before = (await log.end_position([partition])).next_offset(partition)
        keys = [key_of(event) for event in events[1:4]]
        await log.erase(partition, keys)
        behind = await read_all(other, partition, before)
        tombstones = [record for record in behind if record.key in keys]
        assert sorted(record.key or b"" for record in tombstones) == sorted(keys)
        assert all(record.value is None for record in tombstones)

    async def test_erased_record_is_gone_in_the_end(
        self, log: EventLog, storage: LogStorage
    ) -> None:
        """Readers stop seeing an erased record; its neighbours and the identity stay."""
        partition = log.partition_of("thread")
        identity = await log.identity(partition)
        events = [writes_event("thread", str(number)) for number in range(6)]
        for event in events:
            await log.append(event)
        erased = [key_of(event) for event in events[1:4]]
        await log.erase(partition, erased)
        await storage.compact(log, partition)

        async def is_gone() -> bool:
            records = await read_all(log, partition)
            return not any(r.key in erased and r.value is not None for r in records)

        gone: bool = await wait_until(
            is_gone, description="the erased records are gone", timeout=PATIENCE
        )
        assert gone
        assert task_ids(await read_all(log, partition)) == ["0", "4", "5"]
        assert await log.identity(partition) == identity
        assert (await log.first_position([partition])).next_offset(partition) == 0

    async def test_tombstone_takes_no_other_records_place(self, log: EventLog) -> None:
        """Erasing the newest records appends behind them: who read them reads the tombstones."""
        partition = log.partition_of("thread")
        events = [writes_event("thread", str(number)) for number in range(3)]
        for event in events:
            await log.append(event)
        end = (await log.end_position([partition])).next_offset(partition)
        await log.erase(partition, [key_of(event) for event in events])
        behind = await read_all(log, partition, end)
        keys = {record.key for record in behind if record.value is None}
        assert keys >= {key_of(event) for event in events}

    async def test_offsets_go_on_after_erasure(self, log: EventLog, storage: LogStorage) -> None:
        """No place is used twice, even when the newest record was erased."""
        partition = log.partition_of("thread")
        newest = writes_event("thread", "newest")
        await log.append(newest)
        await log.erase(partition, [key_of(newest)])
        await storage.compact(log, partition)
        end = (await log.end_position([partition])).next_offset(partition)
        appended = await log.append(writes_event("thread", "next"))
        assert appended.offset is None or appended.offset >= end
        records = await read_all(log, partition, end)
        assert task_ids(records) == ["next"]

    async def test_tail_goes_over_erased_records(self, log: EventLog, storage: LogStorage) -> None:
        """A tail from the beginning passes the gaps and goes on to what comes."""
        partition = log.partition_of("thread")
        events = [writes_event("thread", str(number)) for number in range(6)]
        for event in events:
            await log.append(event)
        await log.erase(partition, [key_of(event) for event in events[:5]])
        await storage.compact(log, partition)
        await log.append(writes_event("thread", "next"))
        records = await tail_until(log, {partition: 0}, lambda seen: "next" in task_ids(seen))
        assert task_ids(records)[-2:] == ["5", "next"]

    async def test_erasing_an_unknown_key_does_no_harm(self, log: EventLog) -> None:
        """A key without a record gets its tombstone all the same; no key at all is no error."""
        partition = log.partition_of("thread")
        key = key_of(writes_event("thread", "never appended"))
        await log.erase(partition, [key])
        await log.erase(partition, [])
        last = (await read_all(log, partition))[-1]
        assert (last.key, last.value) == (key, None)

    async def test_truncated_front_is_reported(
        self, log: EventLog, open_log: OpenLog, storage: LogStorage
    ) -> None:
        """What is gone from the front is an error that names both places, never an empty answer."""
        partition = log.partition_of("thread")
        for number in range(6):
            await log.append(writes_event("thread", str(number)))
        first = (await read_all(log, partition))[4].offset
        await storage.truncate(log, partition, first)
        other = await open_log()
        assert (await other.first_position([partition])).next_offset(partition) == first
        with pytest.raises(LogTruncatedError) as reading:
            await other.read(partition, 0, first + 1)
        assert (reading.value.partition, reading.value.wanted) == (partition, 0)
        assert reading.value.first == first
        with pytest.raises(LogTruncatedError):
            await tail_until(other, {partition: first - 1}, bool)
        with pytest.raises(LogTruncatedError):
            await other.identity(partition)
        assert task_ids(await read_all(other, partition, first)) == ["3", "4", "5"]

    async def test_close_waits_for_appends_under_way(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """Appends called before `close` are acknowledged, or fail on their own account."""
        waiting = [
            asyncio.ensure_future(log.append(writes_event("thread", str(number))))
            for number in range(50)
        ]
        await log.close()
        assert all(future.done() for future in waiting)
        assert all(isinstance(future.result(), Appended) for future in waiting)
        later = await open_log()
        names = task_ids(await read_all(later, later.partition_of("thread")))
        assert names == [str(number) for number in range(50)]

    async def test_close_may_be_called_again(self, log: EventLog) -> None:
        """`close` is idempotent, also when two tasks call it at once."""
        await asyncio.gather(log.close(), log.close())
        await log.close()

    async def test_log_never_set_up_can_be_closed(self, storage: LogStorage) -> None:
        """`close` releases an instance whatever state it is in."""
        await storage.new_log().close()

    async def test_closed_log_refuses_every_call(self, log: EventLog) -> None:
        """Every method says that the log is closed."""
        await log.close()
        calls: list[Callable[[], Awaitable[object]]] = [
            log.setup,
            lambda: log.append(writes_event("thread", "task")),
            lambda: log.read(0, 0, 1),
            lambda: log.end_position([0]),
            lambda: log.first_position([0]),
            lambda: log.identity(0),
            lambda: log.erase(0, [b"thread/" + b"00" * 16 + b"/0"]),
            lambda: tail_until(log, {0: 0}, bool),
        ]
        for call in calls:
            with pytest.raises(LogClosedError):
                await call()

    async def test_close_ends_a_waiting_tail(self, log: EventLog) -> None:
        """A tail that waits for records when the log closes says so instead of hanging."""
        end = (await log.end_position([0])).next_offset(0)
        waiting = asyncio.create_task(tail_until(log, {0: end}, bool))
        await asyncio.sleep(0)
        await log.close()
        with pytest.raises(LogClosedError):
            await waiting
