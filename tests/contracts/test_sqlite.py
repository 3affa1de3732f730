"""`SqliteEventLog` under the contract of its port, in a file and in memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from eventstore.log import EventLog
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from eventstore.sqlite.statement import execute

from .event_log import EventLogContract, LogStorage


class SqliteStorage(LogStorage):
    """A database of one process; every instance of the log is handed the same one."""

    max_record_bytes = 400_000

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database

    def new_log(self) -> EventLog:
        return SqliteEventLog(self.database, max_record_bytes=self.max_record_bytes)

    async def truncate(self, log: EventLog, partition: int, first: int) -> None:
        def delete(connection: apsw.Connection) -> None:
            execute(connection, "DELETE FROM log_records WHERE offset < ?", (first,))

        await (await self.database.writer()).run(delete)

    async def compact(self, log: EventLog, partition: int) -> None:
        """Nothing to bring forward: `erase` removes the records itself."""


class SeparateStorage(SqliteStorage):
    """A file; every instance of the log opens it by itself, as another process would."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteDatabase(path))
        self.path = path
        self.others: list[SqliteDatabase] = []

    def new_log(self) -> EventLog:
        database = SqliteDatabase(self.path)
        self.others.append(database)
        return SqliteEventLog(database, max_record_bytes=self.max_record_bytes)


class TestSqliteFile(EventLogContract):
    """Instances of one process that share a file's connections."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[LogStorage]:
        async with SqliteDatabase(tmp_path / "log.sqlite") as database:
            yield SqliteStorage(database)


class TestSqliteFileOpenedTwice(EventLogContract):
    """Instances that meet in the file only."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[LogStorage]:
        storage = SeparateStorage(tmp_path / "log.sqlite")
        async with storage.database:
            yield storage
        for database in storage.others:
            await database.close()


class TestSqliteMemory(EventLogContract):
    """Instances of one process that share a database in memory."""

    @pytest.fixture
    async def storage(self) -> AsyncIterator[LogStorage]:
        async with SqliteDatabase(":memory:") as database:
            yield SqliteStorage(database)
