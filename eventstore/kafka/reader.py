"""Range reads, ends and identities of the log, over two connections of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from aiokafka.errors import LeaderNotAvailableError, NoError, OffsetOutOfRangeError

from eventstore.codec import decode
from eventstore.errors import (
    CorruptEventError,
    EventStoreError,
    LogClosedError,
    LogIdentityError,
    LogTruncatedError,
    LogUnavailableError,
    UnknownEventVersionError,
)
from eventstore.events import LogStarted
from eventstore.log import LogBatch, LogIdentity, LogRecord
from eventstore.position import Position

from .client import EARLIEST, LATEST, ClusterClient
from .records import unpack

READ_BYTES: Final = 1_000_000
"""How much one read fetches; a single larger record comes whole."""


class Reader:
    """Reads by single requests: nothing is fetched that nobody asked for, and nothing waits."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._ends = SharedEnds(client)

    async def close(self) -> None:
        """End the request under way; the client belongs to whoever made it."""
        await self._ends.close()

    async def read(self, partition: int, start: int, stop: int) -> LogBatch:
        """Read some records of `[start, stop)`; at least one step forward."""
        if start >= stop:
            raise ValueError(f"nothing to read between {start} and {stop}")

        async def attempt() -> LogBatch | None:
            node = self._client.leader(partition)
            if node == -1:
                raise LeaderNotAvailableError(f"partition {partition}")
            answers = await self._client.fetch(
                node, {partition: start}, max_bytes=READ_BYTES, max_wait=0
            )
            fetched = answers[partition]
            if fetched.error is OffsetOutOfRangeError:
                return None
            if fetched.error is not NoError:
                raise fetched.error(f"partition {partition}")
            batch = unpack(fetched.records, partition, start, stop=stop)
            if batch.next_offset == start:
                # A new leader may not know yet how far the old one had come.
                raise LeaderNotAvailableError(f"partition {partition} ends at {fetched.end}")
            return batch

        batch = await self._client.until_answered(f"reading partition {partition}", attempt)
        if batch is None:
            raise await out_of_range(self._client, partition, start)
        return batch

    async def end_position(self, partitions: Collection[int]) -> Position:
        """Return the end of each partition."""
        return await self._ends.get(partitions)

    async def first_position(self, partitions: Collection[int]) -> Position:
        """Return the first offset of each partition that can be read."""
        if not partitions:
            return Position()
        return Position(await self._client.offsets(partitions, which=EARLIEST))

    async def identity(self, partition: int) -> LogIdentity:
        """Read a partition's identity record."""
        first = (await self.first_position([partition])).next_offset(partition)
        if first > 0:
            raise LogTruncatedError(partition, wanted=0, first=first)
        end = (await self.end_position([partition])).next_offset(partition)
        if end == 0:
            raise _not_ours(partition, "an empty partition")
        records = (await self.read(partition, 0, 1)).records
        if not records:
            raise _not_ours(partition, "no record at offset 0")
        try:
            event = decode(records[0]).event
        except (CorruptEventError, UnknownEventVersionError) as error:
            raise _not_ours(partition, "a record that is not ours") from error
        if not isinstance(event, LogStarted):
            raise _not_ours(partition, type(event).__name__)
        return LogIdentity(event.log_id, event.partitions)

    async def find(
        self, partition: int, start: int, keys: Collection[tuple[bytes, bool]]
    ) -> dict[tuple[bytes, bool], LogRecord]:
        """Return the records from `start` to the present end that have one of these keys.

        A key comes with whether its tombstone is meant.
        """
        first = (await self.first_position([partition])).next_offset(partition)
        stop = (await self.end_position([partition])).next_offset(partition)
        found: dict[tuple[bytes, bool], LogRecord] = {}
        position = max(start, first)
        while position < stop and len(found) < len(keys):
            batch = await self.read(partition, position, stop)
            for record in batch.records:
                name = (record.key or b"", record.value is None)
                if name in keys:
                    found[name] = record
            position = batch.next_offset
        return found


async def out_of_range(
    client: ClusterClient, partition: int, wanted: int
) -> LogTruncatedError | LogIdentityError | LogUnavailableError:
    """Return the error for an offset that the broker does not have."""
    first = (await client.offsets([partition], which=EARLIEST))[partition]
    if wanted < first:
        return LogTruncatedError(partition, wanted=wanted, first=first)
    end = (await client.offsets([partition], which=LATEST))[partition]
    if wanted > end:
        return LogIdentityError(
            partition, expected=f"a log that reaches offset {wanted}", found=f"one up to {end}"
        )
    return LogUnavailableError(
        f"reading partition {partition}", reason=f"offset {wanted} was refused, and is there"
    )


def _not_ours(partition: int, found: str) -> LogIdentityError:
    return LogIdentityError(partition, expected="an identity record at offset 0", found=found)


class SharedEnds:
    """End positions: who asks while a request is under way shares the one after it.

    The request under way may have been answered by the broker already, before an append that the
    newcomer knows of was acknowledged.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        # Partitions that the next request must cover, and who waits for it. Not sent yet.
        self._wanted: set[int] = set()
        self._next: asyncio.Future[dict[int, int]] | None = None
        # Sends one request after another until nobody waits.
        self._runner: asyncio.Task[None] | None = None

    async def get(self, partitions: Collection[int]) -> Position:
        """Return the ends as they are at some moment after this call began."""
        if not partitions:
            return Position()
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        self._wanted.update(partitions)
        answer = self._next
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="kafka log: end positions")
        # Shielded: one caller's cancellation is not the others'.
        ends = await asyncio.shield(answer)
        return Position({p: ends[p] for p in partitions})

    async def close(self) -> None:
        """End the request under way; who waits is told. Nobody may call `get` any more."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        while self._next is not None:
            answer, wanted = self._next, self._wanted
            # From here on newcomers wait for the next request.
            self._next, self._wanted = None, set()
            try:
                answer.set_result(await self._client.offsets(wanted, which=LATEST))
            except EventStoreError as error:
                _fail(answer, error)
            except asyncio.CancelledError:
                for waiting in (answer, self._next):
                    if waiting is not None:
                        _fail(waiting, LogClosedError(f"topic {self._client.topic}"))
                raise
        self._runner = None


def _fail(answer: asyncio.Future[dict[int, int]], error: EventStoreError) -> None:
    answer.set_exception(error)
    # Read here as well: everybody who waited may have gone.
    answer.exception()
