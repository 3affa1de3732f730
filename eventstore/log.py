"""The port: what a log promises. Adapters are `kafka.KafkaEventLog` and `sqlite.SqliteEventLog`.

A log is a fixed number of partitions; each is a sequence of records at growing offsets, possibly
with gaps. All events of one thread are in one partition. Implementers need not inherit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from .events import NewEvent, RecordedEvent
from .position import Position


class LogRecord(Struct, frozen=True, gc=False):
    """A record as the log holds it. `codec.decode` makes an event of it."""

    partition: int
    offset: int
    timestamp_ms: int
    """When the log stored it, in milliseconds since 1970 (the log's clock, not the writer's)."""
    key: bytes | None
    value: bytes | None
    """None for a tombstone."""
    headers: tuple[tuple[str, bytes], ...]
    event: RecordedEvent | None = None
    """Its event, where the log knows it without decoding: see `own`."""


class LogBatch(Struct, frozen=True, gc=False):
    """What one read gave: the records of one partition in `[start, next_offset)`, in offset order.

    `next_offset` is where to go on. It passes gaps and records that no reader sees (transaction
    markers, compacted ones), so it may grow although `records` is empty.
    """

    partition: int
    start: int
    records: Sequence[LogRecord]
    next_offset: int


class Appended(Struct, frozen=True, gc=False):
    """Where an acknowledged event stands."""

    partition: int
    offset: int | None
    """None when the log acknowledged the event without telling its place."""
    timestamp_ms: int | None


class LogIdentity(Struct, frozen=True, gc=False):
    """What a partition's first record says of it."""

    log_id: bytes
    partitions: int


class EventLog(Protocol):
    """An append-only log of events.

    Every method but `append`, `partition_of` and `close` may be called from several tasks at once.
    All of them raise `LogClosedError` after `close`, and `LogUnavailableError` when the log cannot
    be reached within the configured time. A failed read is never an empty answer.
    """

    @property
    def name(self) -> str:
        """Return a name for people: the topic, or the file. Holds no secret."""
        ...

    @property
    def partition_count(self) -> int:
        """Return the number of partitions, fixed for the log's life. Known after `setup`."""
        ...

    async def setup(self) -> None:
        """Create the log if it is missing, verify it, write identity records. Idempotent.

        Raises:
            UnsafeTopicError: A setting would lose history.
            LogIdentityError: The log exists and is not one of ours, or has another partition count
                than its identity records say.
        """
        ...

    def partition_of(self, thread_id: str) -> int:
        """Return the partition that holds all of a thread's events."""
        ...

    def append(self, event: NewEvent, *, partition: int | None = None) -> Awaitable[Appended]:
        """Append one event; the awaitable ends when the log has acknowledged it as stored for good.

        Not a coroutine function: the event is encoded, checked and given its place in the order of
        its partition before this call returns, whatever its size, so that events of one thread
        enter the log in the order of the calls. Cancelling the awaitable does not withdraw the
        event. It must be awaited. `partition` is for events that name no thread.

        Raises:
            EventTooLargeError: (at the call) The event does not fit into one record.
            ValueError, TypeError: (at the call) The event cannot be encoded; the message names
                what. Nothing is appended.
            LogUnavailableError: (awaiting) Nothing was stored.
            AppendOutcomeUnknownError: (awaiting) It may still be stored. It is not sent again.

        One append's failure never makes another one fail that was acknowledged or can still be.
        """
        ...

    async def read(self, partition: int, start: int, stop: int) -> LogBatch:
        """Read some records of `[start, stop)` from the front; at least one step forward.

        Returns a batch with `start < next_offset <= stop`; call again from `next_offset`. `stop`
        must not be beyond the end.

        Raises:
            LogTruncatedError: `start` is in front of the first position.
        """
        ...

    def tail(self, positions: Mapping[int, int]) -> AsyncIterator[LogBatch]:
        """Follow the given partitions from the given offsets, for ever.

        Yields batches as they come, per partition in order and without a hole between one batch's
        `next_offset` and the next one's `start`. Where records come one after the other it may
        gather them for a moment. Recovers from a lost connection by itself. Ends when the iterator
        is closed (`aclose`).

        Raises:
            LogTruncatedError: A wanted offset is gone.
        """
        ...

    def hurry(self) -> None:
        """Let the tails of this instance gather no longer: somebody waits for what they bring."""
        ...

    async def end_position(self, partitions: Collection[int]) -> Position:
        """Return the end of each partition: the offset after the last record.

        Linearizable: covers every append that was acknowledged, to any process, before this call
        began. Calls may share one request only while it is not sent yet.
        """
        ...

    async def first_position(self, partitions: Collection[int]) -> Position:
        """Return the first offset that can still be read of each partition."""
        ...

    async def identity(self, partition: int) -> LogIdentity:
        """Read a partition's identity record.

        Raises:
            LogIdentityError: The partition does not begin with one.
            LogTruncatedError: The partition's front is gone.
        """
        ...

    async def erase(self, partition: int, keys: Sequence[bytes]) -> None:
        """Make the log forget the records with these keys, for good and at its own pace.

        A tombstone is appended per key and acknowledged when this returns. Readers meet it as a
        record without a value.
        """
        ...

    async def close(self) -> None:
        """Wait for appends under way, then release everything. Idempotent."""
        ...
