"""What `EventLog` promises of appending."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from eventstore import codec
from eventstore.errors import EventTooLargeError
from eventstore.events import (
    CheckpointSaved,
    LogNudged,
    NewEvent,
    Payload,
    ThreadDeleted,
    ThreadErased,
)
from eventstore.log import Appended, EventLog

from .log_suite import (
    LogStorage,
    LogSuite,
    OpenLog,
    incompressible,
    read_all,
    task_ids,
    writes_event,
)


class AppendSuite(LogSuite):
    """Acknowledged means stored for good; one thread keeps the order of the calls."""

    async def test_append_tells_where_the_event_stands(self, log: EventLog) -> None:
        """The acknowledgement's place holds the event that was appended."""
        new = writes_event("thread", "task", b"data")
        appended = await log.append(new)
        assert appended.partition == log.partition_of("thread")
        last = (await read_all(log, appended.partition))[-1]
        assert appended.offset in {None, last.offset}
        assert appended.timestamp_ms in {None, last.timestamp_ms}
        recorded = codec.decode(last)
        assert (recorded.thread_id, recorded.event) == ("thread", new.event)
        assert (recorded.event_id, recorded.part) == (new.event_id, new.part)

    async def test_record_holds_what_the_codec_made(self, log: EventLog) -> None:
        """Key, value and headers come back byte for byte; only the time header is made anew."""
        new = writes_event("thr/ead \u00e4", "task", bytes(range(256)) + incompressible(999))
        appended = await log.append(new)
        record = (await read_all(log, appended.partition))[-1]
        encoded = codec.encode(new)
        assert (record.key, record.value) == (encoded.key, encoded.value)
        headers = [(name, value) for name, value in encoded.headers if name != "ce_time"]
        assert [(n, v) for n, v in record.headers if n != "ce_time"] == headers
        assert record.timestamp_ms > 0

    async def test_acknowledged_event_is_readable_elsewhere(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """Another instance reads at once what was acknowledged to this one."""
        other = await open_log()
        partition = log.partition_of("thread")
        for number in range(20):
            await log.append(writes_event("thread", str(number)))
            assert task_ids(await read_all(other, partition))[-1] == str(number)

    async def test_event_outlives_its_writer(self, log: EventLog, open_log: OpenLog) -> None:
        """An acknowledged event is there for an instance opened after the writer has closed."""
        await log.append(writes_event("thread", "task"))
        await log.close()
        later = await open_log()
        assert task_ids(await read_all(later, later.partition_of("thread"))) == ["task"]

    async def test_thread_keeps_call_order_whatever_the_sizes(
        self, log: EventLog, storage: LogStorage
    ) -> None:
        """Events of one thread enter the log in the order of the calls, big ones too."""
        big = incompressible(storage.max_record_bytes // 2)
        waiting: list[Awaitable[Appended]] = []
        for number in range(40):
            data = big if number % 10 == 3 else incompressible(number)
            waiting.append(log.append(writes_event("thread", str(number), data)))
        for awaitable in reversed(waiting):
            await awaitable
        records = await read_all(log, log.partition_of("thread"))
        assert task_ids(records) == [str(number) for number in range(40)]

    async def test_call_order_holds_over_tasks(self, log: EventLog) -> None:
        """The order is that of the calls, whichever task awaits first."""
        called: list[str] = []

        async def append(number: int) -> None:
            for step in range(5):
                name = f"{number}.{step}"
                called.append(name)
                await log.append(writes_event("thread", name, bytes(number * 100)))

        await asyncio.gather(*(append(number) for number in range(10)))
        assert task_ids(await read_all(log, log.partition_of("thread"))) == called

    async def test_appends_at_once_are_each_there_once(
        self, log: EventLog, open_log: OpenLog
    ) -> None:
        """Appends of several instances at once all get a place of their own."""
        logs = [log, await open_log()]
        names = [f"{number}" for number in range(300)]
        appended = await asyncio.gather(
            *(logs[i % 2].append(writes_event(f"t{i % 17}", name)) for i, name in enumerate(names))
        )
        found: list[str] = []
        for partition in range(log.partition_count):
            found += task_ids(await read_all(log, partition))
        assert sorted(found) == sorted(names)
        places = [(a.partition, a.offset) for a in appended if a.offset is not None]
        assert len(set(places)) == len(places)

    async def test_event_without_thread_goes_where_it_is_told(self, log: EventLog) -> None:
        """`partition` places an event that names no thread."""
        marker = NewEvent(None, ThreadErased(codec.thread_hash("gone"), 7))
        for partition in range(log.partition_count):
            assert (
                await log.append(NewEvent(None, LogNudged()), partition=partition)
            ).partition == (partition)
        appended = await log.append(marker, partition=log.partition_of("gone"))
        last = codec.decode((await read_all(log, appended.partition))[-1])
        assert (last.thread_id, last.event) == (None, marker.event)

    async def test_cancelling_does_not_withdraw_the_event(self, log: EventLog) -> None:
        """A cancelled append is there whole and in its place, and the others are acknowledged."""
        waiting = [
            asyncio.ensure_future(log.append(writes_event("thread", str(number))))
            for number in range(30)
        ]
        for future in waiting[::3]:
            future.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results[::3])
        others = [result for i, result in enumerate(results) if i % 3]
        assert all(isinstance(result, Appended) for result in others)
        await log.append(writes_event("thread", "last"))
        names = task_ids(await read_all(log, log.partition_of("thread")))
        assert names == [*(str(number) for number in range(30)), "last"]

    async def test_cancelled_task_leaves_the_log_usable(self, log: EventLog) -> None:
        """A task that is cancelled while it awaits an append harms no later one."""

        async def append(name: str) -> None:
            await log.append(writes_event("thread", name))

        for number in range(10):
            task = asyncio.create_task(append(f"cancelled {number}"))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await append(f"kept {number}")
        names = task_ids(await read_all(log, log.partition_of("thread")))
        assert [name for name in names if name.startswith("kept")] == [
            f"kept {number}" for number in range(10)
        ]
        assert len(set(names)) == len(names)

    @pytest.mark.parametrize(
        "bad",
        [
            NewEvent("lone surrogate \ud800", ThreadDeleted()),
            NewEvent(
                "thread",
                CheckpointSaved("", "c", None, None, 0, {}, Payload("x", b""), {"a": 1 << 70}),
            ),
            NewEvent(
                "thread",
                CheckpointSaved("", "c", None, None, 0, {}, Payload("x", b""), {"a": object()}),
            ),
        ],
        ids=["surrogate", "overflow", "object"],
    )
    async def test_unencodable_event_is_refused_at_the_call(
        self, log: EventLog, bad: NewEvent
    ) -> None:
        """What cannot be encoded raises before anything is appended, and harms no other."""
        before = log.append(writes_event("thread", "before"))
        with pytest.raises((ValueError, TypeError)):
            _ = log.append(bad)
        after = log.append(writes_event("thread", "after"))
        await before
        await after
        assert task_ids(await read_all(log, log.partition_of("thread"))) == ["before", "after"]
        ends = await log.end_position(range(log.partition_count))
        assert sum(ends.values()) == log.partition_count + 2

    async def test_too_large_event_is_refused_at_the_call(
        self, log: EventLog, storage: LogStorage
    ) -> None:
        """An event above the record limit raises with its size; its neighbours are stored."""
        before = log.append(writes_event("thread", "before"))
        data = incompressible(storage.max_record_bytes + 1)
        with pytest.raises(EventTooLargeError) as refused:
            _ = log.append(writes_event("thread", "too large", data))
        assert refused.value.size > refused.value.limit
        await before
        await log.append(writes_event("thread", "after"))
        assert task_ids(await read_all(log, log.partition_of("thread"))) == ["before", "after"]
