"""What the tests of the SQLite adapter share: a database and its log."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventstore.sqlite import SqliteDatabase, SqliteEventLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SqliteDatabase]:
    async with SqliteDatabase(path, timeout=0.2) as database:
        yield database


@pytest.fixture
async def log(database: SqliteDatabase) -> AsyncIterator[SqliteEventLog]:
    log = SqliteEventLog(database)
    await log.setup()
    yield log
    await log.close()
