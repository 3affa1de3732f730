"""What one process was told is saved, another one reads at once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from langgraph.checkpoint.kafka import AsyncKafkaSaver, ProjectorConfig
from tests.programs.steps import number_of, thread

ROUNDS = int(os.environ.get("LGK_READ_ROUNDS", "2000"))
"""How many puts of the one process are read by the other, in all."""

PAIRS = 16
"""Threads that do so at once, so that reads meet end-position requests of others under way."""


class Teller:
    """The process that puts; see `tests.programs.teller`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._told: dict[tuple[str, int], asyncio.Future[None]] = {}

    async def put(self, thread_id: str, number: int) -> None:
        """Return once that process was told that the checkpoint is saved."""
        told = self._told[thread_id, number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{thread_id} {number}\n".encode())
        await told

    async def listen(self) -> None:
        """Take what the process tells, until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            thread_id, number = line.decode().split()
            self._told.pop((thread_id, int(number))).set_result(None)
        for told in self._told.values():
            told.set_exception(AssertionError("the other process ended"))


@asynccontextmanager
async def teller(conn_string: str, *options: str) -> AsyncGenerator[Teller, None]:
    """Run the process that puts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.programs.teller", conn_string, *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    there = Teller(process)
    listening = asyncio.create_task(there.listen())
    try:
        yield there
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


async def read_back(saver: AsyncKafkaSaver, other: Teller, thread_id: str, rounds: int) -> int:
    """Return how many of the other process's puts on a thread were not read at once."""
    stale = 0
    for number in range(rounds):
        await other.put(thread_id, number)
        found = await saver.aget_tuple(thread(thread_id))
        if found is None or number_of(found.config) != number:
            stale += 1
    return stale


@pytest.mark.timeout(300)
@pytest.mark.parametrize("has_projector", [True, False], ids=["projectors", "no projector"])
async def test_put_is_read_at_once_by_another_process(
    kafka_bootstrap: str, redis_url: str, topic: str, *, has_projector: bool
) -> None:
    """A linearizable read sees every put that any process had acknowledged before it began."""
    url = f"kafka://{kafka_bootstrap}/{topic}?redis={redis_url}"
    projector = ProjectorConfig() if has_projector else None
    options = [] if has_projector else ["no-projector"]
    async with (
        AsyncKafkaSaver.from_conn_string(url, projector=projector) as saver,
        teller(url, *options) as other,
    ):
        stale = await asyncio.gather(
            *(read_back(saver, other, f"pair-{pair}", ROUNDS // PAIRS) for pair in range(PAIRS))
        )
    assert sum(stale) == 0
