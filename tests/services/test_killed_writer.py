"""A process that is killed while it writes loses nothing that it was told is saved."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from langgraph.checkpoint.kafka import AsyncKafkaSaver
from tests.programs.steps import number_of, thread

KILLS = int(os.environ.get("LGK_KILLS", "5"))
THREADS = 16
MOST_LINES = 2_000
"""A writer is killed after some number of acknowledgements up to this one."""


async def run_and_kill(conn_string: str, prefix: str, lines: int) -> list[list[str]]:
    """Run a writer until it has told `lines` acknowledgements, kill it, return all it told."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.programs.writer", conn_string, prefix, str(THREADS)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    told: list[list[str]] = []
    while len(told) < lines and (line := await process.stdout.readline()):
        told.append(line.decode().split())
    process.kill()
    rest = await process.stdout.read()
    told += [line.split() for line in rest.decode().splitlines()]
    await process.wait()
    return told


async def check(saver: AsyncKafkaSaver, told: list[list[str]]) -> None:
    """Check one killed writer's threads against what it was told."""
    puts: dict[str, int] = defaultdict(int)
    writes: set[tuple[str, int, str]] = set()
    for kind, thread_id, count, *task in told:
        if kind == "put":
            puts[thread_id] = max(puts[thread_id], int(count))
        else:
            writes.add((thread_id, int(count), task[0]))
    for thread_id, last in puts.items():
        found = [item async for item in saver.alist(thread(thread_id))]
        newest = number_of(found[0].config)
        assert newest >= last
        assert [number_of(item.config) for item in found] == list(range(newest, -1, -1))
        for item in found:
            number = number_of(item.config)
            assert item.checkpoint["channel_values"] == {"count": number}
            parent = item.parent_config
            assert (parent is None) == (number == 0)
            if parent is not None:
                assert number_of(parent) == number - 1
            tasks = {write[0] for write in item.pending_writes or []}
            # The writes of a checkpoint were begun before its child was put.
            if number < newest:
                assert tasks == {"a", "b"}
            assert tasks >= {
                task for where, at, task in writes if (where, at) == (thread_id, number)
            }


async def kill_repeatedly(conn_string: str) -> int:
    """Kill writers one after the other; return how many acknowledgements were checked."""
    random.seed(20)
    checked = 0
    for kill in range(KILLS):
        told = await run_and_kill(conn_string, f"killed-{kill}", random.randint(50, MOST_LINES))
        async with AsyncKafkaSaver.from_conn_string(conn_string) as saver:
            await check(saver, told)
        checked += len(told)
    return checked


@pytest.mark.timeout(600)
async def test_killed_writer_on_kafka_loses_nothing_acknowledged(
    kafka_bootstrap: str, redis_url: str, topic: str
) -> None:
    """Every acknowledged put and write is there after SIGKILL, and in order, on Kafka and Redis."""
    url = f"kafka://{kafka_bootstrap}/{topic}?redis={redis_url}"
    assert await kill_repeatedly(url) >= KILLS


@pytest.mark.timeout(600)
async def test_killed_writer_on_sqlite_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Every acknowledged put and write is there after SIGKILL, and in order, in a SQLite file."""
    assert await kill_repeatedly(f"sqlite:///{tmp_path / 'killed.db'}") >= KILLS
