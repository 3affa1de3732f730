"""Logs on real topics, for tests of what is Kafka's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from eventstore import codec
from eventstore.config import KafkaConfig
from eventstore.events import NewEvent, Payload, Write, WritesSaved
from eventstore.kafka import KafkaEventLog
from eventstore.log import LogRecord


def config_for(bootstrap: str, topic: str, **fields: Any) -> KafkaConfig:
    """Return a config for a topic of one partition unless said otherwise."""
    return KafkaConfig.model_validate(
        {"bootstrap_servers": bootstrap, "topic": topic, "partitions": 1, **fields}
    )


@asynccontextmanager
async def opened(config: KafkaConfig) -> AsyncGenerator[KafkaEventLog]:
    async with KafkaEventLog(config) as log:
        yield log


def writes_event(task_id: str, data: bytes = b"", *, thread_id: str = "thread") -> NewEvent:
    """Return an event that a test tells from others by its task id."""
    writes = (Write(0, "channel", Payload("bytes", data)),)
    return NewEvent(thread_id, WritesSaved("", "checkpoint", task_id, "", 0, writes))


def task_ids(records: list[LogRecord]) -> list[str]:
    events = [codec.decode(record).event for record in records if record.value is not None]
    return [event.task_id for event in events if isinstance(event, WritesSaved)]


async def read_all(log: KafkaEventLog, partition: int = 0, start: int = 0) -> list[LogRecord]:
    stop = (await log.end_position([partition])).next_offset(partition)
    records: list[LogRecord] = []
    while start < stop:
        batch = await log.read(partition, start, stop)
        records.extend(batch.records)
        start = batch.next_offset
    return records


def client_of(log: Any) -> Any:
    """Return the client by which a log asks for ends and reads."""
    return log._parts.client


def producer_of(log: Any) -> Any:
    """Return the producer by which a log appends at present."""
    return log._parts.appender._producer
