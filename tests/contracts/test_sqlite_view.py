"""`SqliteView` under the contract of its port, in a file and in memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventstore.sqlite import SqliteDatabase
from projector.sqlite import SqliteView
from projector.view import CheckpointView

from .checkpoint_view import CheckpointViewContract, ViewStorage


class SqliteStorage(ViewStorage):
    """A database of one process; every instance of the view is handed the same one."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database

    def new_view(self) -> CheckpointView:
        return SqliteView(self.database)


class SeparateStorage(ViewStorage):
    """A file; every instance of the view opens it by itself, as another process would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.databases: list[SqliteDatabase] = []

    def new_view(self) -> CheckpointView:
        self.databases.append(SqliteDatabase(self.path))
        return SqliteView(self.databases[-1])


class TestSqliteViewFile(CheckpointViewContract):
    """Instances of one process that share a file's connections."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[ViewStorage]:
        async with SqliteDatabase(tmp_path / "view.sqlite") as database:
            yield SqliteStorage(database)


class TestSqliteViewFileOpenedTwice(CheckpointViewContract):
    """Instances that meet in the file only."""

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[ViewStorage]:
        storage = SeparateStorage(tmp_path / "view.sqlite")
        yield storage
        for database in storage.databases:
            await database.close()


class TestSqliteViewMemory(CheckpointViewContract):
    """Instances of one process that share a database in memory."""

    @pytest.fixture
    async def storage(self) -> AsyncIterator[ViewStorage]:
        async with SqliteDatabase(":memory:") as database:
            yield SqliteStorage(database)
