"""One idempotent producer: opening it, what is outstanding at it, closing it whatever its state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from eventstore.codec import EncodedEvent
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
class Tombstone:
    """A record that makes the log forget those with its key."""

    key: bytes
    value: None = None
    headers: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """About its size in the log."""
        return len(self.key)


Outgoing: TypeAlias = EncodedEvent | Tombstone
"""A record on its way."""


class Producer:
    """One aiokafka producer, used until its first failure.

    A batch that was refused leaves a hole in its partition's sequence numbers, and every later
    batch of that partition is refused for it. What other partitions have outstanding still goes
    through, so a failed producer takes nothing new and is closed when nothing is outstanding.

    It has at most one batch of a partition: aiokafka would not send the second one before the
    first is answered, and what is queued meanwhile goes together.
    """

    def __init__(self, config: KafkaConfig, options: Mapping[str, Any], *, limit: int) -> None:
        self._topic = config.topic
        self._timeout = config.request_timeout
        self._producer: Any = AIOKafkaProducer(
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=min(config.max_batch_bytes, limit),
            # Also the age at which a batch without a leader is given up: not before its deadline.
            request_timeout_ms=int(config.append_timeout * 1000),
            **options,
        )
        # Partition → done when its batch is answered or given up, which also takes it out of here.
        self._outstanding: dict[int, asyncio.Future[None]] = {}
        self._sent = 0
        self.failure: BaseException | None = None
        """What made it unusable. Set once."""

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

    def is_ready(self, partition: int) -> bool:
        """Tell whether it takes a batch of this partition now."""
        return partition not in self._outstanding and partition in self._known_partitions()

    async def get_ready(self, partition: int) -> None:
        """Wait until it takes a batch of this partition, or has failed or changed otherwise.

        Raises:
            KafkaError: The topic's metadata cannot be had.
        """
        await self.wait_settled(partition)
        await self._producer.partitions_for(self._topic)
        if partition not in self._known_partitions():
            raise UnknownTopicOrPartitionError(f"partition {partition}")

    def _known_partitions(self) -> Collection[int]:
        known: Collection[int] | None = self._producer.client.cluster.partitions_for_topic(
            self._topic
        )
        return known or ()

    def new_batch(self) -> Any:
        """Return an empty batch of aiokafka; its first record fits whatever its size."""
        return self._producer.create_batch()

    async def send(self, partition: int, batch: Any) -> asyncio.Future[Any]:
        """Hand a batch over; the future has the broker's answer. Nothing takes it back.

        Only to be called when `is_ready`, with nothing awaited in between: then aiokafka has it
        before anything else runs. When this raises, aiokafka does not have it.
        """
        batch.close()
        answer: asyncio.Future[Any] = await self._producer.send_batch(
            batch, self._topic, partition=partition
        )
        self._sent += batch.record_count()
        self._outstanding[partition] = asyncio.get_running_loop().create_future()
        return answer

    def answered(self, partition: int) -> None:
        """Note that the broker has answered the batch of a partition."""
        settled = self._outstanding.pop(partition, None)
        if settled is not None:
            settled.set_result(None)

    @property
    def is_spent(self) -> bool:
        """Whether it must be replaced before it runs out of sequence numbers."""
        return self._sent >= SEQUENCE_NUMBERS

    def is_settled(self, partition: int | None = None) -> bool:
        """Tell whether nothing is outstanding, in a partition or at all."""
        return not self._outstanding if partition is None else partition not in self._outstanding

    async def wait_settled(self, partition: int | None = None) -> None:
        """Wait until what is outstanding now, in a partition or at all, is answered or given up."""
        outstanding = [
            settled for each, settled in self._outstanding.items() if partition in {None, each}
        ]
        if outstanding:
            # Not awaited itself: the cancellation of one that waits is not the others'.
            await asyncio.wait(outstanding)

    async def close(self) -> None:
        """Close it. What is still outstanding fails, and may have arrived."""
        if not self.is_settled():
            await self._abandon()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._producer.stop()
        except (KafkaError, OSError):
            await self._abandon()
        finally:
            for partition in list(self._outstanding):
                self.answered(partition)

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
