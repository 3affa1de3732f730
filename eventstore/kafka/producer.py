"""One idempotent producer: opening it, what is outstanding at it, closing it whatever its state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from eventstore.config import KafkaConfig
from eventstore.errors import LogUnavailableError

BATCH_OVERHEAD: Final = 61
"""Bytes that Kafka's frame adds to the records of a batch."""

SEQUENCE_NUMBERS: Final = 2**30
"""After so many records a producer is replaced. Kafka's sequence numbers go from 2**31 - 1 back to
0; aiokafka lets them become negative, which the broker refuses."""

_CLOSE_TIMEOUT: Final = 2.0

log = logging.getLogger("langgraph_checkpoint_kafka.log")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record on its way: an event, or a tombstone."""

    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]
    size: int
    """An upper bound of its size in the log."""


class Producer:
    """One aiokafka producer, used until its first failure.

    A batch that was refused leaves a hole in its partition's sequence numbers, and every later
    batch of that partition is refused for it. What other partitions have outstanding still goes
    through, so a failed producer takes nothing new and is closed when nothing is outstanding.
    """

    def __init__(self, config: KafkaConfig, options: Mapping[str, Any], *, limit: int) -> None:
        self._topic = config.topic
        self._timeout = config.request_timeout
        self._producer: Any = AIOKafkaProducer(
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=min(config.max_batch_bytes, limit),
            # Checked by the appender already, at the call.
            max_request_size=2 * limit + 1024,
            # Also the age at which a batch without a leader is given up: not before its deadline.
            request_timeout_ms=int(config.append_timeout * 1000),
            **options,
        )
        # Partition → records handed over and not answered. An answer wakes who waits for zero.
        self._outstanding: dict[int, int] = {}
        self._settled = asyncio.Event()
        self._sent = 0
        self.failure: tuple[int, BaseException] | None = None
        """What made it unusable, and in which partition. Set once."""

    async def open(self) -> None:
        """Connect and get a producer id.

        Raises:
            LogUnavailableError: Not possible, or not in time.
        """
        try:
            async with asyncio.timeout(self._timeout):
                await self._producer.start()
        except (KafkaError, OSError) as error:
            await self.close()
            raise LogUnavailableError("opening a producer", reason=repr(error)) from error
        except BaseException:
            await self.close()
            raise

    async def send(self, partition: int, record: Outgoing) -> asyncio.Future[Any]:
        """Hand a record over; the future has the broker's answer.

        Waits for room in the partition's batch. Cancelling this call before it returns withdraws
        the record; nothing else does.
        """
        answer: asyncio.Future[Any] = await self._producer.send(
            self._topic,
            value=record.value,
            key=record.key,
            partition=partition,
            headers=record.headers,
        )
        self._sent += 1
        self._outstanding[partition] = self._outstanding.get(partition, 0) + 1
        return answer

    def answered(self, partition: int) -> None:
        """Note that the broker has answered one record of a partition."""
        self._outstanding[partition] -= 1
        if self.failure is not None:
            self._settled.set()

    @property
    def is_spent(self) -> bool:
        """Whether it must be replaced before it runs out of sequence numbers."""
        return self._sent >= SEQUENCE_NUMBERS

    def is_settled(self, partition: int | None = None) -> bool:
        """Tell whether nothing is outstanding, in a partition or at all."""
        if partition is None:
            return not any(self._outstanding.values())
        return not self._outstanding.get(partition)

    async def wait_settled(self, partition: int | None = None) -> None:
        """Wait until nothing is outstanding. Only for a producer that has failed."""
        while not self.is_settled(partition):
            self._settled.clear()
            await self._settled.wait()

    async def close(self) -> None:
        """Close it. What is still outstanding fails, and may have arrived."""
        if not self.is_settled():
            await self._abandon()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._producer.stop()
        except (KafkaError, OSError):
            await self._abandon()

    async def _abandon(self) -> None:
        # aiokafka's stop() waits for every batch, for ever if no broker answers. So its parts are
        # ended in an order that ends: connections, the task that sends, the futures of batches.
        producer = self._producer
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await producer.client.close()
                await producer._sender.close()  # noqa: SLF001 - there is no public way
        except (KafkaError, OSError) as error:
            log.debug("an abandoned producer's task ended with %r", error)
        accumulator = producer._message_accumulator  # noqa: SLF001 - as above
        queued = [batch for batches in accumulator._batches.values() for batch in batches]  # noqa: SLF001 - as above
        # A batch that waits for its retry is expected in this set when it ends, and is not there.
        accumulator._pending_batches.update(queued)  # noqa: SLF001 - as above
        accumulator.fail_all(KafkaError("the producer was abandoned"))
        for batch in queued:
            # Nobody else reads this one, and asyncio reports exceptions that nobody reads.
            if batch._drain_waiter.done():  # noqa: SLF001 - as above
                batch._drain_waiter.exception()  # noqa: SLF001 - as above
