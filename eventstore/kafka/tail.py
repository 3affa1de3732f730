"""Following partitions for ever: one long poll per leading broker, on a client of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from aiokafka.errors import KafkaError, NoError, OffsetOutOfRangeError

from eventstore.errors import LogUnavailableError
from eventstore.log import LogBatch

from .client import FINAL_ERRORS, RETRY_INTERVAL, ClusterClient, Fetched
from .reader import out_of_range
from .records import split, unpack

TAIL_RECORDS: Final = 500
"""The most records in one batch."""

TAIL_BYTES: Final = 1_000_000
"""How much one poll fetches; a single larger record comes whole."""

POLL_TIME: Final = 0.5
"""How long, in seconds, a broker holds an empty answer back."""

GATHER_TIME: Final = 0.01
"""How long, in seconds, the poll after one that brought something waits for more. Every batch costs
its reader calls of its own, and a super-step's events come one after the other."""

BUSY_RECORDS: Final = 50
BUSY_GATHER_TIME: Final = 0.02
"""The same after a poll that brought so many records. At full load larger batches save a tenth of
all that such a process does."""


class Tail:
    """One tail. Its client serves nothing else: a long poll blocks its connection."""

    def __init__(self, client: ClusterClient, positions: Mapping[int, int]) -> None:
        self._client = client
        # A poll must be answered before its connection counts as dead.
        self._poll_time = min(POLL_TIME, client.timeout / 2)
        # Partition → where its next poll begins, changed only between two polls of it. Those that
        # gave something last stand at the end: a broker fills its answer in the order asked for.
        self._positions = dict(positions)
        # Each poll under way, with its partitions; a partition is in one poll at a time.
        self._polls: dict[asyncio.Task[list[LogBatch]], tuple[int, ...]] = {}
        # How long the next poll waits; set when somebody does not want it to.
        self._gather_time = 0.0
        self._hurried = asyncio.Event()

    async def follow(self, closed: asyncio.Future[None]) -> AsyncGenerator[LogBatch, None]:
        """Yield batches until `closed` is set.

        Raises:
            LogTruncatedError: A wanted offset is gone.
            LogIdentityError: A wanted offset was never there.
            LogUnavailableError: The brokers refuse this client.
        """
        try:
            self._start_polls()
            while not closed.done():
                waited_for: list[asyncio.Future[Any]] = [*self._polls, closed]
                await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
                batches = self._take_answers()
                # Before the consumer goes to work: the next answer is fetched meanwhile.
                self._start_polls()
                for batch in batches:
                    for part in split(batch, TAIL_RECORDS):
                        yield part
        finally:
            for poll in self._polls:
                poll.cancel()
            await asyncio.gather(*self._polls, return_exceptions=True)

    def hurry(self) -> None:
        """Let polls begin at once, until one has brought something."""
        self._hurried.set()

    def _start_polls(self) -> None:
        busy = {partition for members in self._polls.values() for partition in members}
        groups: dict[int, list[int]] = {}
        for partition in self._positions:
            if partition not in busy:
                groups.setdefault(self._client.leader(partition), []).append(partition)
        for node, members in groups.items():
            poll = asyncio.create_task(self._poll(node, members), name="kafka log: tail")
            self._polls[poll] = tuple(members)

    def _take_answers(self) -> list[LogBatch]:
        batches: list[LogBatch] = []
        for poll in [poll for poll in self._polls if poll.done()]:
            del self._polls[poll]
            batches += poll.result()
        count = sum(len(batch.records) for batch in batches)
        if count:
            self._hurried.clear()
        self._gather_time = BUSY_GATHER_TIME if count >= BUSY_RECORDS else GATHER_TIME * bool(count)
        for batch in batches:
            del self._positions[batch.partition]
            self._positions[batch.partition] = batch.next_offset
        return batches

    async def _poll(self, node: int, partitions: list[int]) -> list[LogBatch]:
        """Return what one broker has; nothing after a failure that time may cure."""
        offsets = {partition: self._positions[partition] for partition in partitions}
        if self._gather_time:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._gather_time):
                    await self._hurried.wait()
        batches: list[LogBatch] = []
        is_healthy = node != -1
        try:
            if is_healthy:
                answers = await self._client.fetch(
                    node, offsets, max_bytes=TAIL_BYTES, max_wait=self._poll_time
                )
                for partition, fetched in answers.items():
                    batch = await self._unpack(fetched, partition, offsets[partition])
                    is_healthy = is_healthy and batch is not None
                    if batch is not None and batch.next_offset > batch.start:
                        batches.append(batch)
        except FINAL_ERRORS as error:
            raise LogUnavailableError("following the log", reason=str(error)) from error
        except (KafkaError, OSError):
            is_healthy = False
        if not is_healthy and not batches:
            await asyncio.sleep(RETRY_INTERVAL)
            await self._client.refresh()
        return batches

    async def _unpack(self, fetched: Fetched, partition: int, start: int) -> LogBatch | None:
        if fetched.error is NoError:
            return unpack(fetched.records, partition, start)
        if fetched.error is OffsetOutOfRangeError:
            try:
                error = await out_of_range(self._client, partition, start)
            except LogUnavailableError:
                return None
            if not isinstance(error, LogUnavailableError):
                raise error
        return None
