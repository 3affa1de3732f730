"""The SQLite file: what is opened and what is refused, how, and what is left behind."""

import functools
import os
import threading
from pathlib import Path

import apsw
import pytest

from eventstore import codec
from eventstore.errors import (
    EventStoreError,
    LogClosedError,
    LogIdentityError,
    LogUnavailableError,
)
from eventstore.events import LogStarted, NewEvent
from eventstore.sqlite import SqliteDatabase, SqliteEventLog, faults
from eventstore.sqlite.statement import execute, row
from tests.contracts.log_suite import read_range, writes_event

SET_FIRST = "UPDATE log_records SET value = ? WHERE offset = 0"


async def test_name_is_the_path(log: SqliteEventLog, path: Path) -> None:
    """People find the log by its name."""
    assert log.name == str(path)
    assert SqliteEventLog(SqliteDatabase(":memory:")).name == ":memory:"


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.0"])
def test_library_that_corrupts_is_refused(version: str) -> None:
    """A SQLite with the WAL fault is refused by its version, and told so."""
    with pytest.raises(EventStoreError, match=rf"SQLite {version} can corrupt"):
        faults.check_library(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "4.0"])
def test_fixed_library_is_accepted(version: str) -> None:
    """A SQLite from the fix on is used."""
    faults.check_library(version)


async def test_connections_are_durable_and_safe(database: SqliteDatabase) -> None:
    """Every connection syncs each commit to a WAL and maps no memory."""
    for connection in [await database.writer(), await database.reader()]:
        for pragma, value in [
            ("journal_mode", "wal"),
            ("synchronous", 2),
            ("mmap_size", 0),
            ("secure_delete", 1),
        ]:
            assert await connection.run(functools.partial(row, sql=f"PRAGMA {pragma}")) == value


async def test_other_programs_database_is_left_alone(path: Path) -> None:
    """A file with other tables is an error, and not a byte of it changes."""
    with apsw.Connection(str(path)) as other:
        execute(other, "CREATE TABLE checkpoints (id); INSERT INTO checkpoints VALUES (1)")
    other.close()
    before = content_of(path)
    async with SqliteDatabase(path) as database:
        with pytest.raises(LogIdentityError, match=r"another program's .*checkpoints"):
            await SqliteEventLog(database).setup()
    assert content_of(path) == before


async def test_file_that_is_no_database_is_left_alone(path: Path) -> None:
    """Any other file is an error, and not a byte of it changes."""
    replace_content(path, b"Dear diary, " * 1000)
    async with SqliteDatabase(path) as database:
        with pytest.raises(LogIdentityError, match="no SQLite database"):
            await SqliteEventLog(database).setup()
    assert content_of(path) == b"Dear diary, " * 1000


async def test_newer_layout_is_refused(path: Path) -> None:
    """A file of a newer release asks for an upgrade."""
    async with SqliteDatabase(path) as database:
        await (await database.writer()).run(lambda c: execute(c, "PRAGMA user_version = 99"))
    async with SqliteDatabase(path) as database:
        with pytest.raises(LogIdentityError, match="layout version 99 of a newer release"):
            await SqliteEventLog(database).setup()


async def test_identity_of_several_partitions_is_refused(
    log: SqliteEventLog, database: SqliteDatabase
) -> None:
    """A first record that tells of another partition count is not accepted."""
    value = codec.encode(NewEvent(None, LogStarted(b"x" * 16, 8))).value
    writer = await database.writer()
    await writer.run(functools.partial(execute, sql=SET_FIRST, values=(value,)))
    with pytest.raises(LogIdentityError, match="of 8"):
        await SqliteEventLog(database).setup()


async def test_log_without_identity_is_refused(
    log: SqliteEventLog, database: SqliteDatabase
) -> None:
    """A first record that is another event, or none at all, is no identity."""
    writer = await database.writer()
    event = codec.encode(writes_event("thread", "task"))
    for value, found in [(event.value, "bad body"), (b"junk", "bad body"), (None, "tombstone")]:
        await writer.run(functools.partial(execute, sql=SET_FIRST, values=(value,)))
        with pytest.raises(LogIdentityError, match=found):
            await log.identity(0)
    await writer.run(lambda c: execute(c, "DELETE FROM log_records"))
    with pytest.raises(LogIdentityError, match="no record"):
        await log.identity(0)


async def test_missing_folder_is_named(tmp_path: Path) -> None:
    """A file that cannot be created is an error that names it."""
    path = tmp_path / "missing" / "log.sqlite"
    async with SqliteDatabase(path) as database:
        with pytest.raises(LogUnavailableError, match=r"missing.*cannot be opened or created"):
            await SqliteEventLog(database).setup()


async def test_damaged_file_is_an_error(path: Path) -> None:
    """Records that cannot be read are never missing records."""
    async with SqliteDatabase(path) as database:
        log = SqliteEventLog(database)
        await log.setup()
        for number in range(50):
            await log.append(writes_event("thread", str(number), os.urandom(2000)))
        await log.close()
    content = bytearray(content_of(path))
    content[8 * 4096 :] = b"\xff" * (len(content) - 8 * 4096)
    replace_content(path, bytes(content))
    with pytest.raises(EventStoreError, match="is damaged"):
        await read_file(path)


async def test_relative_path_survives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections open the file that the path meant when it was given."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with SqliteDatabase("log.sqlite") as database:
        await database.writer()
        monkeypatch.chdir(tmp_path / "elsewhere")
        log = SqliteEventLog(database)
        await log.setup()
        await log.append(writes_event("thread", "task"))
        await log.close()
    assert (tmp_path / "log.sqlite").exists()
    assert files_in(tmp_path / "elsewhere") == []


def test_empty_path_is_refused() -> None:
    """No path is a mistake, not SQLite's temporary file."""
    with pytest.raises(ValueError, match="empty"):
        SqliteDatabase("")


@pytest.mark.parametrize("name", ["log.sqlite", ":memory:"])
async def test_close_leaves_nothing_behind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No OS thread stays, and the last connection has folded the WAL into the file."""
    monkeypatch.chdir(tmp_path)
    before = set(threading.enumerate())
    async with SqliteDatabase(name) as database:
        log = SqliteEventLog(database)
        await log.setup()
        await log.append(writes_event("thread", "task"))
        await log.close()
    assert set(threading.enumerate()) == before
    assert files_in(tmp_path) in ([], [name])


async def test_closed_database_refuses_its_log(path: Path) -> None:
    """A log whose database was closed first says that it is closed, and can still be closed."""
    database = SqliteDatabase(path)
    log = SqliteEventLog(database)
    await log.setup()
    await database.close()
    with pytest.raises(LogClosedError):
        await log.append(writes_event("thread", "task"))
    with pytest.raises(LogClosedError):
        await log.end_position([0])
    with pytest.raises(LogClosedError):
        await database.reader()
    await log.close()


async def test_setup_comes_first(database: SqliteDatabase) -> None:
    """A log that was not set up says what is missing."""
    with pytest.raises(RuntimeError, match="`setup` must come first"):
        await SqliteEventLog(database).end_position([0])


async def read_file(path: Path) -> None:
    async with SqliteDatabase(path) as database:
        log = SqliteEventLog(database)
        await log.setup()
        await read_range(log, 0, 0, 51)


def content_of(path: Path) -> bytes:
    """Return what is on disk: the file and its WAL."""
    wal = path.with_name(f"{path.name}-wal")
    return path.read_bytes() + (wal.read_bytes() if wal.exists() else b"")


def replace_content(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def files_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_file_that_is_gone_takes_no_more(log: SqliteEventLog, path: Path, how: str) -> None:
    """What would end with this process is not acknowledged, nor taken for the log's content."""
    await log.append(writes_event("t", "before"))
    for name in path.parent.glob(f"{path.name}*"):
        name.unlink()
    if how == "replaced":
        async with SqliteDatabase(path) as other:
            await SqliteEventLog(other).setup()
    appending = [log.append(writes_event("t", task_id)) for task_id in ("1", "2")]
    for append in appending:
        with pytest.raises(LogUnavailableError, match="removed or replaced"):
            await append
    with pytest.raises(LogUnavailableError, match="removed or replaced"):
        await log.end_position([0])
    with pytest.raises(LogUnavailableError, match="removed or replaced"):
        await log.read(0, 0, 2)
