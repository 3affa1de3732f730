"""`SqliteEventLog`: the `EventLog` port in one SQLite file, without a server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import apsw

from eventstore import codec
from eventstore.errors import EventTooLargeError, LogClosedError
from eventstore.events import NewEvent
from eventstore.log import Appended, LogBatch, LogIdentity
from eventstore.own import OwnEvents
from eventstore.position import Position

from . import erasure, records
from .appender import Appender
from .connection import SqliteConnection
from .database import SqliteDatabase
from .pulse import Pulse

MAX_RECORD_BYTES: Final = 256 * 1024 * 1024
"""SQLite holds rows of up to 1 GB, and a reader needs several times a record's size."""

POLL_INTERVAL: Final = 0.02
"""Seconds after which a tail looks for what other processes have appended."""

IDLE_POLL_INTERVAL: Final = 0.1
"""The same for a tail that has met nothing for `IDLE_AFTER`."""

IDLE_AFTER: Final = 5.0


class SqliteEventLog:
    """A log of one partition in a file or in memory, for any number of processes on one machine.

    It uses the database that it is handed and leaves it open. Appends of one instance share
    commits; an instance belongs to the event loop that called `setup`. A record is lost neither
    when a process is killed nor when the machine loses power, as far as its disk keeps its word.
    """

    def __init__(
        self,
        database: SqliteDatabase,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
        tombstone_retention: float = erasure.TOMBSTONE_RETENTION,
    ) -> None:
        if not 0 < max_record_bytes <= MAX_RECORD_BYTES:
            raise ValueError(f"max_record_bytes is not in 1 to {MAX_RECORD_BYTES}")
        self._database = database
        self._max_record_bytes = max_record_bytes
        self._own = OwnEvents()
        self._sweeper = erasure.Sweeper(tombstone_retention)
        self._setting_up = asyncio.Lock()
        self._open: _Open | None = None
        """What `setup` opened; None before."""
        self._closing: asyncio.Task[None] | None = None
        """Set by the first `close`: from then on every call is refused."""
        self._end_request: _EndRequest | None = None
        """The last request for the end that was handed in."""

    @property
    def name(self) -> str:
        """Return the file's path as it was given."""
        return self._database.name

    @property
    def partition_count(self) -> int:
        """Return 1."""
        return 1

    async def setup(self) -> None:
        """Create the log if the file is empty, and verify it. Idempotent."""
        self._refuse_closed()
        async with self._setting_up:
            self._refuse_closed()
            if self._open is not None:
                return
            writer = await self._database.writer()
            await writer.run(lambda connection: records.create(connection, self.name))
            reader = await self._database.reader()
            pulse = Pulse()
            appender = Appender(self.name, writer, on_commit=self._announce)
            self._database.listen(pulse.beat_from_any_thread)
            self._open = _Open(writer, reader, appender, pulse)
            self._sweeper.look(writer)

    def partition_of(self, thread_id: str) -> int:  # noqa: ARG002 - the port's
        """Return 0, the only partition."""
        return records.PARTITION

    def append(self, event: NewEvent, *, partition: int | None = None) -> Awaitable[Appended]:
        """Append one event; the awaitable ends when it is committed and synced.

        Raises:
            ValueError: (awaiting) An event with this id and part is in the log already.
        """
        live = self._live()
        if partition is not None:
            _check(partition)
        encoded = codec.encode(event)
        size = encoded.size
        if size > self._max_record_bytes:
            raise EventTooLargeError(
                f"event {event.event_id.hex()}", size=size, limit=self._max_record_bytes
            )
        self._own.note(encoded, event)
        return live.appender.append(encoded, event.event_id)

    async def read(self, partition: int, start: int, stop: int) -> LogBatch:
        """Read records from the front of `[start, stop)`: about 500, or about 1 MB."""
        live = self._live()
        _check(partition)
        if not 0 <= start < stop:
            raise ValueError(f"[{start}, {stop}) is not a range of offsets")
        return await live.reader.run(lambda connection: records.read(connection, start, stop))

    async def tail(self, positions: Mapping[int, int]) -> AsyncGenerator[LogBatch]:
        """Follow the log: at once for this process's appends, by polling for those of others."""
        live = self._live()
        for partition in positions:
            _check(partition)
        start = positions.get(records.PARTITION)
        busy_until = time.monotonic() + IDLE_AFTER
        with self._own:
            while True:
                self._refuse_closed()
                beats = live.pulse.beats
                if start is not None:
                    batch = await live.reader.run(_from(start))
                    if batch.records:
                        start = batch.next_offset
                        yield self._own.recognised(batch)
                        busy_until = time.monotonic() + IDLE_AFTER
                        continue
                await live.pulse.wait(beats, timeout=self._poll_interval(busy_until))

    def hurry(self) -> None:
        """Do nothing: the tails gather nothing."""

    async def end_position(self, partitions: Collection[int]) -> Position:
        """Return the end, as of a read that began during this call."""
        live = self._live()
        for partition in partitions:
            _check(partition)
        if not partitions:
            return Position()
        request = self._end_request
        if request is None or request.has_begun:
            request = _EndRequest()
            request.answer = asyncio.wrap_future(live.reader.submit(request.ask))
            self._end_request = request
        # Shielded: those who share the answer do not share a cancellation.
        bounds = await asyncio.shield(request.answer)
        return Position({records.PARTITION: bounds.end})

    async def first_position(self, partitions: Collection[int]) -> Position:
        """Return the first record's offset: 0, unless the front was removed."""
        live = self._live()
        for partition in partitions:
            _check(partition)
        bounds = await live.reader.run(records.bounds)
        return Position(dict.fromkeys(partitions, bounds.first))

    async def identity(self, partition: int) -> LogIdentity:
        """Read the identity record."""
        live = self._live()
        _check(partition)
        return await live.reader.run(lambda connection: records.identity(connection, self.name))

    async def erase(self, partition: int, keys: Sequence[bytes]) -> None:
        """Remove the records with these keys and append a tombstone for each.

        Both at once, some hundred keys at a time: the records are gone when this returns. Their
        bytes leave the file soon afterwards, the tombstones after their retention.

        Raises:
            ValueError: One of the keys is the identity record's.
        """
        live = self._live()
        _check(partition)
        distinct = list(dict.fromkeys(keys))
        for first in range(0, len(distinct), erasure.KEYS_AT_ONCE):
            some = distinct[first : first + erasure.KEYS_AT_ONCE]
            await live.writer.run(_erasing(some))
            self._announce()
        if distinct:
            self._sweeper.hurry()
            with contextlib.suppress(LogClosedError):
                self._sweeper.look(live.writer)

    async def close(self) -> None:
        """Wait for appends under way, then end the reader. The database stays open."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        async with self._setting_up:
            live = self._open
            if live is None:
                return
            live.pulse.beat()
            self._database.unlisten(live.pulse.beat_from_any_thread)
            await live.appender.drain()
            await self._database.release(live.reader)

    def _poll_interval(self, busy_until: float) -> float | None:
        if self._database.is_memory:
            return None
        return POLL_INTERVAL if time.monotonic() < busy_until else IDLE_POLL_INTERVAL

    def _announce(self) -> None:
        """Wake the tails of this instance, and of others on the same database."""
        live = self._open
        if live is not None:
            live.pulse.beat()
            self._database.announce(but=live.pulse.beat_from_any_thread)
            with contextlib.suppress(LogClosedError):
                self._sweeper.look(live.writer)

    def _live(self) -> _Open:
        self._refuse_closed()
        if self._open is None:
            raise RuntimeError(f"{self.name}: `setup` must come first")
        return self._open

    def _refuse_closed(self) -> None:
        if self._closing is not None:
            raise LogClosedError(self.name)


@dataclass(frozen=True, slots=True)
class _Open:
    """What an instance holds between `setup` and `close`."""

    writer: SqliteConnection
    """The database's: shared, never closed here."""
    reader: SqliteConnection
    appender: Appender
    pulse: Pulse


class _EndRequest:
    """A look at the log's end that calls may share until it begins."""

    __slots__ = ("answer", "has_begun")

    answer: asyncio.Future[records.Bounds]

    def __init__(self) -> None:
        self.has_begun = False
        """Set on the reader's OS thread before the read begins: a call that finds it unset began
        before the read does, so it may share it."""

    def ask(self, connection: apsw.Connection) -> records.Bounds:
        self.has_begun = True
        return records.bounds(connection)


def _from(start: int) -> Callable[[apsw.Connection], LogBatch]:
    return lambda connection: records.read(connection, start, None)


def _erasing(keys: Sequence[bytes]) -> Callable[[apsw.Connection], None]:
    return lambda connection: erasure.erase(connection, keys)


def _check(partition: int) -> None:
    if partition != records.PARTITION:
        raise ValueError(f"there is no partition {partition}: the log has one, 0")
