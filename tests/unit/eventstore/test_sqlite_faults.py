"""The SQLite log when the file is locked, full, read-only or not synced."""

import asyncio
import os
from pathlib import Path

import apsw
import pytest

from eventstore.errors import (
    AppendOutcomeUnknownError,
    LogUnavailableError,
)
from eventstore.sqlite import SqliteDatabase, SqliteEventLog, faults
from eventstore.sqlite.statement import execute
from tests.contracts.log_suite import read_all, task_ids, writes_event


async def test_lock_held_too_long_is_unavailable(log: SqliteEventLog, path: Path) -> None:
    """An append that cannot get the lock in time raises, nothing is stored, and later ones are."""
    other = locking(path)
    waiting = [log.append(writes_event("thread", str(number))) for number in range(3)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, LogUnavailableError) for result in results)
    assert "another process kept it locked" in str(results[0])
    assert len({id(result) for result in results}) == 3
    with pytest.raises(LogUnavailableError):
        await log.erase(0, [b"key"])
    assert await names_in(log) == []
    execute(other, "ROLLBACK")
    other.close()
    await log.append(writes_event("thread", "later"))
    assert await names_in(log) == ["later"]


async def test_lock_freed_in_time_is_waited_for(path: Path) -> None:
    """An append outlasts another process's short transaction."""
    async with SqliteDatabase(path, timeout=20.0) as database:
        log = SqliteEventLog(database)
        await log.setup()
        other = locking(path)
        waiting = asyncio.ensure_future(log.append(writes_event("thread", "task")))
        await asyncio.sleep(0)
        assert not waiting.done()
        execute(other, "COMMIT")
        other.close()
        await waiting
        assert await names_in(log) == ["task"]
        await log.close()


@pytest.mark.parametrize(
    ("fault", "cure", "message"),
    [
        ("max_page_count = 1", "max_page_count = 1000000", "the disk is full"),
        ("query_only = ON", "query_only = OFF", "read-only"),
    ],
)
async def test_refused_write_stores_nothing(
    log: SqliteEventLog, database: SqliteDatabase, fault: str, cure: str, message: str
) -> None:
    """A disk that is full or read-only is named; what comes after it is stored."""
    writer = await database.writer()
    await writer.run(lambda c: execute(c, f"PRAGMA {fault}"))
    with pytest.raises(LogUnavailableError, match=message) as raised:
        await log.append(writes_event("thread", "lost", bytes(os.urandom(100_000))))
    assert isinstance(raised.value.__cause__, apsw.Error)
    await writer.run(lambda c: execute(c, f"PRAGMA {cure}"))
    await log.append(writes_event("thread", "kept"))
    assert await names_in(log) == ["kept"]


class _UnsyncedFile(apsw.VFSFile):
    """A file whose disk fails to sync while `is_failing`."""

    is_failing = False

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        if type(self).is_failing:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)


class _UnsyncedVFS(apsw.VFS):
    """The default file system, with those files."""

    def __init__(self) -> None:
        self._real = apsw.vfs_names()[0]
        super().__init__("unsynced", self._real, makedefault=True)

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _UnsyncedFile(self._real, name, flags)


async def test_failed_sync_leaves_the_outcome_open(path: Path) -> None:
    """A commit that was written and not synced may show after a crash: that is said as it is."""
    vfs = _UnsyncedVFS()
    try:
        async with SqliteDatabase(path) as database:
            log = SqliteEventLog(database)
            await log.setup()
            await log.append(writes_event("thread", "before"))
            _UnsyncedFile.is_failing = True
            event = writes_event("thread", "unsynced")
            with pytest.raises(AppendOutcomeUnknownError, match=event.event_id.hex()):
                await log.append(event)
            _UnsyncedFile.is_failing = False
            await log.append(writes_event("thread", "after"))
            assert await names_in(log) == ["before", "after"]
            await log.close()
    finally:
        _UnsyncedFile.is_failing = False
        vfs.unregister()


@pytest.mark.parametrize("code", [apsw.SQLITE_NOMEM, apsw.SQLITE_MISUSE, apsw.SQLITE_IOERR])
def test_every_fault_becomes_an_error_of_ours(code: int) -> None:
    """Whatever SQLite reports is told in our errors, with the file's name."""
    fault = apsw.exception_for(code)
    assert isinstance(fault, apsw.Error)
    assert "some.sqlite" in str(faults.translated(fault, "some.sqlite"))


async def names_in(log: SqliteEventLog) -> list[str]:
    return task_ids(await read_all(log, 0))


def locking(path: Path) -> apsw.Connection:
    """Return a connection of another program that holds the file's write lock."""
    other = apsw.Connection(str(path))
    other.set_busy_timeout(10_000)
    execute(other, "BEGIN IMMEDIATE")
    return other
