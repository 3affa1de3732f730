"""What `SqliteEventLog` promises beyond its port: its bounds, its commits, its erasures."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import apsw
import pytest

from eventstore import codec
from eventstore.errors import (
    LogClosedError,
)
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from tests.contracts.log_suite import key_of, read_all, task_ids, writes_event
from tests.waiting import wait_until

# Its arguments


async def test_places_that_do_not_exist_are_refused(log: SqliteEventLog) -> None:
    """Another partition, an empty range or one beyond the end is a mistake, not an empty answer."""
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: log.read(1, 0, 1),
        lambda: log.read(0, 1, 1),
        lambda: log.read(0, -1, 1),
        lambda: log.read(0, 0, 2),
        lambda: log.read(0, 2, 3),
        lambda: anext(log.tail({0: 2})),
        lambda: anext(log.tail({1: 0})),
        lambda: log.end_position([1]),
        lambda: log.first_position([0, 1]),
        lambda: log.identity(7),
        lambda: log.erase(1, [b"key"]),
        lambda: log.append(writes_event("thread", "task"), partition=1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"partition|range|beyond"):
            await call()


@pytest.mark.parametrize("limit", [0, -1, 1 << 40])
def test_record_limit_is_checked(limit: int) -> None:
    """A limit that SQLite or a reader cannot keep is refused."""
    with pytest.raises(ValueError, match="max_record_bytes"):
        SqliteEventLog(SqliteDatabase(":memory:"), max_record_bytes=limit)


# Commits


async def test_appends_at_once_share_commits(log: SqliteEventLog, database: SqliteDatabase) -> None:
    """Appends that wait together are committed together."""
    commits: list[int] = []

    def count(connection: apsw.Connection) -> None:
        def committing() -> bool:
            commits.append(1)
            return False

        connection.set_commit_hook(committing)

    await (await database.writer()).run(count)
    waiting = [log.append(writes_event("thread", str(number))) for number in range(200)]
    for awaitable in waiting:
        await awaitable
    # One for what the first append set off, one for each group behind it.
    assert 1 <= len(commits) < 20


async def test_more_than_a_group_is_committed_in_order(log: SqliteEventLog) -> None:
    """A queue longer than a group, in records or in bytes, goes in in its order."""
    data = os.urandom(900_000)
    waiting = [log.append(writes_event("t", str(n), data[: 9 * n])) for n in range(600)]
    waiting += [log.append(writes_event("t", str(600 + n), data)) for n in range(20)]
    for awaitable in waiting:
        await awaitable
    assert await names_in(log) == [str(number) for number in range(620)]


async def test_event_appended_twice_is_refused_alone(log: SqliteEventLog) -> None:
    """The log holds an event once; the appends that share its commit are not harmed."""
    twice = writes_event("thread", "twice")
    await log.append(twice)
    before = log.append(writes_event("thread", "before"))
    again = log.append(twice)
    after = log.append(writes_event("thread", "after"))
    await before
    with pytest.raises(ValueError, match="in the log already"):
        await again
    appended = await after
    assert await names_in(log) == ["twice", "before", "after"]
    assert appended.offset == 3


async def test_batches_are_bounded(log: SqliteEventLog) -> None:
    """One read gives about 500 records or about 1 MB, and a large record whole."""
    for awaitable in [log.append(writes_event("thread", str(n))) for n in range(600)]:
        await awaitable
    big = os.urandom(300_000)
    for awaitable in [log.append(writes_event("thread", "big", big)) for _ in range(10)]:
        await awaitable
    huge = writes_event("thread", "huge", os.urandom(3_000_000))
    offset = (await log.append(huge)).offset
    assert offset is not None
    assert len((await log.read(0, 0, offset)).records) == 500
    assert len((await log.read(0, 601, offset)).records) == 4
    (record,) = (await log.read(0, offset, offset + 1)).records
    assert codec.decode(record).event == huge.event


# Erasing


async def test_erased_bytes_leave_the_file(log: SqliteEventLog, path: Path) -> None:
    """Soon after an erasure neither the file nor its WAL holds the value's bytes."""
    secret = b"a secret that must not stay behind"
    waiting = [
        log.append(writes_event("thread", str(number), secret * (number % 40 + 1)))
        for number in range(100)
    ]
    for awaitable in waiting:
        await awaitable
    records = await read_all(log, 0, 1)
    # Small bodies are stored as they are, so the search below would find the bytes.
    assert secret in content_of(path)
    await log.erase(0, [record.key for record in records if record.key is not None])
    await wait_until(
        lambda: secret not in content_of(path), description="the erased bytes are gone"
    )


async def test_tombstones_go_after_their_retention(path: Path) -> None:
    """In the end the erased record's key is gone too, and no offset is used twice."""
    async with SqliteDatabase(path) as database:
        log = SqliteEventLog(database, tombstone_retention=-1.0)
        await log.setup()
        events = [writes_event("thread-of-a-person", str(number)) for number in range(700)]
        for awaitable in [log.append(event) for event in events]:
            await awaitable
        await log.erase(0, [key_of(event) for event in events])
        await log.append(writes_event("other", "next"))
        await log.erase(0, [])
        await log.erase(0, [key_of(writes_event("other", "unknown"))])
        await wait_until(
            lambda: b"thread-of-a-person" not in content_of(path),
            description="the tombstones are gone",
        )
        offsets = [record.offset for record in await read_all(log, 0)]
        assert offsets == [0, 1401, 1402]
        await log.close()


async def test_identity_cannot_be_erased(log: SqliteEventLog) -> None:
    """The record that the log is known by stays, and so do those named with it."""
    await log.append(writes_event("thread", "task"))
    keys = [record.key for record in await read_all(log, 0) if record.key is not None]
    with pytest.raises(ValueError, match="identity"):
        await log.erase(0, keys)
    assert await names_in(log) == ["task"]
    await log.identity(0)


# Tails


async def test_tail_of_no_partition_waits(log: SqliteEventLog) -> None:
    """A tail that follows nothing ends with the log."""
    async with aclosing(log.tail({})) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        await log.append(writes_event("thread", "task"))
        assert not waiting.done()
        await log.close()
        with pytest.raises(LogClosedError):
            await waiting


async def names_in(log: SqliteEventLog) -> list[str]:
    return task_ids(await read_all(log, 0))


def content_of(path: Path) -> bytes:
    """Return what is on disk: the file and its WAL."""
    wal = path.with_name(f"{path.name}-wal")
    return path.read_bytes() + (wal.read_bytes() if wal.exists() else b"")
