"""KafkaEventLog: the log on a Kafka topic, assembled from its parts."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self

from eventstore.codec import encode
from eventstore.config import KafkaConfig
from eventstore.errors import (
    EventTooLargeError,
    LogClosedError,
    LogIdentityError,
    LogTruncatedError,
    LogUnavailableError,
)
from eventstore.events import EVENT_ID_BYTES, LogStarted, NewEvent
from eventstore.log import Appended, LogBatch, LogIdentity
from eventstore.own import OwnEvents
from eventstore.position import Position

from .appender import Appender
from .client import ClusterClient, client_options
from .partitioner import partition_for
from .producer import Producer, Tombstone
from .reader import Reader
from .tail import Tail
from .topics import TopicState, ensure_topic, read_settings

log = logging.getLogger("langgraph_checkpoint_kafka.log")


@dataclass(slots=True)
class _Parts:
    """What `setup` opens and `close` closes."""

    options: dict[str, Any]
    client: ClusterClient
    reader: Reader
    appender: Appender
    topic: TopicState
    record_limit: int


class KafkaEventLog:
    """An `EventLog` on one Kafka topic; `eventstore.log` says what it promises.

    Usable on the event loop that `setup` ran on.
    """

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._parts: _Parts | None = None
        self._own = OwnEvents()
        self._tails: set[Tail] = set()
        # One set-up at a time; the second finds the first one's work.
        self._opening = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        # Set by `close`: ends the tails.
        self._closed: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self.setup()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The topic."""
        return f"topic {self._config.topic}"

    @property
    def partition_count(self) -> int:
        """The topic's number of partitions, fixed for its life."""
        return self._open().topic.partitions

    async def setup(self) -> None:
        """Create the topic if it is missing, verify it, write identity records. Idempotent."""
        self._refuse_if_closed()
        async with self._opening:
            if self._parts is not None:
                return
            log.info("opening the log: %r", self._config)
            try:
                options = client_options(self._config)
            except (OSError, ssl.SSLError) as error:
                raise LogUnavailableError("reading the TLS files", reason=str(error)) from error
            client = ClusterClient(self._config, options)
            await client.start()
            try:
                parts = await self._assemble(client, options)
            except BaseException:
                await client.close()
                raise
            try:
                await _ensure_identities(parts)
            except BaseException:
                await parts.appender.close()
                await client.close()
                raise
            self._closed = asyncio.get_running_loop().create_future()
            self._parts = parts

    async def _assemble(self, client: ClusterClient, options: dict[str, Any]) -> _Parts:
        config = self._config
        topic = await ensure_topic(client, config)
        if topic.partitions != config.partitions:
            log.info(
                "%s has %d partitions; the configured %d are for a new topic only",
                self.name,
                topic.partitions,
                config.partitions,
            )
        reader = Reader(client)
        appender = Appender(
            reader,
            timeout=config.append_timeout,
            make_producer=lambda: Producer(config, options, limit=parts.record_limit),
            record_limit=lambda: self._refresh_limit(parts),
        )
        limit = min(config.max_record_bytes, topic.record_limit)
        parts = _Parts(options, client, reader, appender, topic, limit)
        try:
            await appender.open()
        except BaseException:
            await appender.close()
            raise
        return parts

    async def _refresh_limit(self, parts: _Parts) -> int:
        """Return how large a record may be now; the topic's limit can be changed at any time."""
        settings = await read_settings(parts.client)
        topic = TopicState(parts.topic.partitions, parts.topic.replicas, settings)
        parts.record_limit = min(self._config.max_record_bytes, topic.record_limit)
        return parts.record_limit

    def partition_of(self, thread_id: str) -> int:
        """Return the partition that holds all of a thread's events."""
        return partition_for(thread_id, self._open().topic.partitions)

    def append(self, event: NewEvent, *, partition: int | None = None) -> asyncio.Future[Appended]:
        """Append one event; see `EventLog.append`."""
        parts = self._open()
        if partition is None:
            if event.thread_id is None:
                raise ValueError("an event without a thread needs a partition")
            partition = partition_for(event.thread_id, parts.topic.partitions)
        elif not 0 <= partition < parts.topic.partitions:
            raise ValueError(f"there is no partition {partition}")
        return _append(parts, event, partition, self._own)

    async def read(self, partition: int, start: int, stop: int) -> LogBatch:
        """Read some records of `[start, stop)` from the front."""
        return await self._open().reader.read(partition, start, stop)

    async def tail(self, positions: Mapping[int, int]) -> AsyncGenerator[LogBatch, None]:
        """Follow partitions for ever, on a connection of its own."""
        parts = self._open()
        closed = self._closed
        assert closed is not None  # noqa: S101 - set together with the parts
        async with ClusterClient(self._config, parts.options) as client:
            await client.follow_topic()
            tail = Tail(client, positions)
            batches = tail.follow(closed)
            self._tails.add(tail)
            try:
                with self._own:
                    async for batch in batches:
                        yield self._own.recognised(batch)
            finally:
                self._tails.remove(tail)
                await batches.aclose()
        raise LogClosedError(self.name)

    def hurry(self) -> None:
        """Let the tails fetch at once."""
        for tail in self._tails:
            tail.hurry()

    async def end_position(self, partitions: Collection[int]) -> Position:
        """Return the end of each partition; linearizable."""
        parts = self._open()
        position = await parts.reader.end_position(partitions)
        for partition, offset in position.items():
            parts.appender.saw(partition, offset)
        return position

    async def first_position(self, partitions: Collection[int]) -> Position:
        """Return the first offset that can still be read of each partition."""
        return await self._open().reader.first_position(partitions)

    async def identity(self, partition: int) -> LogIdentity:
        """Read a partition's identity record."""
        return await self._open().reader.identity(partition)

    async def erase(self, partition: int, keys: Sequence[bytes]) -> None:
        """Append a tombstone per key, and wait until all are acknowledged."""
        appender = self._open().appender
        await asyncio.gather(*[appender.append(partition, Tombstone(key)) for key in keys])

    async def close(self) -> None:
        """Wait for appends under way, at most until their deadlines, then let go. Idempotent."""
        if self._closing is None:
            # A task: whoever is cancelled while closing does not leave it half done.
            self._closing = asyncio.create_task(self._close(), name="kafka log: closing")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        async with self._opening:
            parts, self._parts = self._parts, None
            if parts is None:
                return
            if self._closed is not None and not self._closed.done():
                self._closed.set_result(None)
            async with AsyncExitStack() as stack:
                stack.push_async_callback(parts.client.close)
                stack.push_async_callback(parts.reader.close)
                stack.push_async_callback(parts.appender.close)

    def _open(self) -> _Parts:
        if self._parts is None:
            self._refuse_if_closed()
            raise RuntimeError(f"{self.name} is not set up: await setup() first")
        return self._parts

    def _refuse_if_closed(self) -> None:
        if self._closing is not None:
            raise LogClosedError(self.name)


def _append(
    parts: _Parts, event: NewEvent, partition: int, own: OwnEvents | None = None
) -> asyncio.Future[Appended]:
    encoded = encode(event)
    if encoded.size > parts.record_limit:
        raise EventTooLargeError(
            f"{type(event.event).__name__} {event.event_id.hex()}",
            size=encoded.size,
            limit=parts.record_limit,
        )
    if own is not None:
        own.note(encoded, event)
    return parts.appender.append(partition, encoded)


async def _ensure_identities(parts: _Parts) -> None:
    """Write an identity record to each empty partition and check all of them."""
    partitions = range(parts.topic.partitions)
    ends = await parts.reader.end_position(partitions)
    started = [
        _append(
            parts,
            NewEvent(None, LogStarted(os.urandom(EVENT_ID_BYTES), len(partitions))),
            partition,
        )
        for partition in partitions
        if ends.next_offset(partition) == 0
    ]
    # Two processes may both write one; the first of them is the partition's identity.
    await asyncio.gather(*started)
    await asyncio.gather(*[_check_identity(parts, partition) for partition in partitions])
    for partition, end in ends.items():
        parts.appender.saw(partition, end)


async def _check_identity(parts: _Parts, partition: int) -> None:
    try:
        identity = await parts.reader.identity(partition)
    except LogTruncatedError as error:
        # Whoever reads that far back is told; what is left can be read and appended to.
        log.warning("%s", error)
        return
    if identity.partitions != parts.topic.partitions:
        raise LogIdentityError(
            partition,
            expected=f"a log with {identity.partitions} partitions",
            found=f"a topic with {parts.topic.partitions}",
        )
