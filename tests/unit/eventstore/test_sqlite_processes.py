"""Several processes on one SQLite file, and processes that are killed while they write."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from eventstore import codec
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from tests.contracts.log_suite import read_all, task_ids

ROOT = Path(__file__).parents[3]


async def start_writer(path: Path, name: str, *, count: int, at_once: int) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.unit.eventstore.sqlite_writer"),
        *(str(path), name, str(count), str(at_once)),
        cwd=ROOT,
        stdout=PIPE,
    )


async def test_processes_append_to_one_file_at_once(tmp_path: Path) -> None:
    """Processes that create and fill one file together lose nothing and keep their own order."""
    path = tmp_path / "log.sqlite"
    names = ["a", "b", "c", "d"]
    writers = await asyncio.gather(
        *(start_writer(path, name, count=200, at_once=5) for name in names)
    )
    outputs = await asyncio.gather(*(writer.communicate() for writer in writers))
    assert [writer.returncode for writer in writers] == [0] * len(names)
    expected = [str(number) for number in range(200)]
    assert all(output.decode().split() == expected for output, _ in outputs)
    async with SqliteDatabase(path) as database:
        log = SqliteEventLog(database)
        await log.setup()
        records = await read_all(log, 0)
        await log.close()
    assert [record.offset for record in records] == list(range(801))
    for name in names:
        mine = [record for record in records if codec.thread_of(record) == name]
        assert task_ids(mine) == expected


@pytest.mark.parametrize("at_once", [1, 16])
async def test_killed_writer_loses_nothing_acknowledged(tmp_path: Path, at_once: int) -> None:
    """After `kill -9` under load every acknowledged event is there, in order, without a hole."""
    path = tmp_path / "log.sqlite"
    for life in range(3):
        name = f"life {life}"
        writer = await start_writer(path, name, count=1_000_000, at_once=at_once)
        assert writer.stdout is not None
        acknowledged = 0
        while acknowledged < 150 * (life + 1):
            acknowledged = int(await writer.stdout.readline()) + 1
        writer.kill()
        # What it had said before it died, but for a line that was cut.
        rest = (await writer.stdout.read()).decode().rpartition("\n")[0].split()
        await writer.wait()
        acknowledged = int(rest[-1]) + 1 if rest else acknowledged
        async with SqliteDatabase(path) as database:
            log = SqliteEventLog(database)
            await log.setup()
            records = await read_all(log, 0)
            await log.close()
        found = task_ids([r for r in records if codec.thread_of(r) == name])
        assert found == [str(number) for number in range(len(found))]
        assert len(found) >= acknowledged
        assert [record.offset for record in records] == list(range(len(records)))


async def test_tail_meets_what_another_process_appends(tmp_path: Path) -> None:
    """A tail in this process follows a writer in another one, from its first event to its last."""
    path = tmp_path / "log.sqlite"
    async with SqliteDatabase(path) as database:
        log = SqliteEventLog(database)
        await log.setup()
        writer = await start_writer(path, "other", count=300, at_once=10)
        seen: list[str] = []
        batches = log.tail({0: 1})
        async for batch in batches:
            seen += task_ids(list(batch.records))
            if len(seen) == 300:
                break
        await batches.aclose()
        await writer.communicate()
        await log.close()
    assert seen == [str(number) for number in range(300)]
