"""What the suites of the `EventLog` contract share: the storage under test, fixtures, readers."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import cast

import pytest

from eventstore import codec
from eventstore.events import NewEvent, Payload, Write, WritesSaved
from eventstore.log import EventLog, LogBatch, LogRecord

PATIENCE = 20.0
"""Seconds until something that should happen counts as not happening."""


class LogStorage(ABC):
    """What one log is stored in, empty at first; any number of instances may share it."""

    max_record_bytes: int
    """An event with more payload than this does not fit into one record."""

    @abstractmethod
    def new_log(self) -> EventLog:
        """Return another instance of the log, not set up; the suite closes it."""

    @abstractmethod
    async def truncate(self, log: EventLog, partition: int, first: int) -> None:
        """Remove the records below `first` for good, as retention or an operator would."""

    @abstractmethod
    async def compact(self, log: EventLog, partition: int) -> None:
        """Bring forward what removes erased records, where that takes its time."""


OpenLog = Callable[[], Awaitable[EventLog]]


def writes_event(thread_id: str, task_id: str, data: bytes = b"") -> NewEvent:
    """Return an event that a test tells from others by its `task_id`."""
    payload = Payload("bytes", data)
    writes = (Write(0, "channel", payload),)
    return NewEvent(thread_id, WritesSaved("", "checkpoint", task_id, "", 0, writes))


def incompressible(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def key_of(new: NewEvent) -> bytes:
    return codec.encode(new).key


def task_ids(records: list[LogRecord]) -> list[str]:
    """Return the `task_id`s of the writes among the records, in their order."""
    events = [codec.decode(record).event for record in records if record.value is not None]
    return [event.task_id for event in events if isinstance(event, WritesSaved)]


async def read_all(log: EventLog, partition: int, start: int = 0) -> list[LogRecord]:
    """Return all records from `start` to the end, checking each batch's bounds on the way."""
    stop = (await log.end_position([partition])).next_offset(partition)
    return await read_range(log, partition, start, stop)


async def read_range(log: EventLog, partition: int, start: int, stop: int) -> list[LogRecord]:
    records: list[LogRecord] = []
    while start < stop:
        batch = await log.read(partition, start, stop)
        assert batch.partition == partition
        assert batch.start == start < batch.next_offset <= stop
        offsets = [record.offset for record in batch.records]
        assert offsets == sorted(set(offsets))
        assert all(start <= offset < batch.next_offset for offset in offsets)
        assert all(record.partition == partition for record in batch.records)
        records.extend(batch.records)
        start = batch.next_offset
    return records


@asynccontextmanager
async def tailing(log: EventLog, start: dict[int, int]) -> AsyncGenerator[AsyncIterator[LogBatch]]:
    """Follow a log within a deadline and end the tail afterwards."""
    batches = cast("AsyncGenerator[LogBatch]", log.tail(start))
    async with asyncio.timeout(PATIENCE), aclosing(batches):
        yield batches


async def tail_until(
    log: EventLog, start: dict[int, int], is_enough: Callable[[list[LogRecord]], bool]
) -> list[LogRecord]:
    """Return what a tail gives until it is enough, checking that it has no hole."""
    records: list[LogRecord] = []
    expected = dict(start)
    async with tailing(log, start) as batches:
        async for batch in batches:
            assert batch.start == expected[batch.partition] < batch.next_offset
            offsets = [record.offset for record in batch.records]
            assert offsets == sorted(set(offsets))
            assert all(batch.start <= offset < batch.next_offset for offset in offsets)
            expected[batch.partition] = batch.next_offset
            records.extend(batch.records)
            if is_enough(records):
                break
    return records


class LogSuite:
    """The fixtures of every suite. A subclass supplies `storage`, a fresh `LogStorage` per test."""

    @pytest.fixture
    async def open_log(self, storage: LogStorage) -> AsyncIterator[OpenLog]:
        opened: list[EventLog] = []

        async def open_one() -> EventLog:
            log = storage.new_log()
            opened.append(log)
            await log.setup()
            return log

        yield open_one
        for log in opened:
            await log.close()

    @pytest.fixture
    async def log(self, open_log: OpenLog) -> EventLog:
        return await open_log()
