"""A log whose front is gone: refused until someone accepts the loss."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from langgraph.checkpoint.kafka import AsyncKafkaSaver, LogTruncatedError
from tests.kafka_admin import delete_records
from tests.programs.steps import number_of, put, thread

FIRST = 4
"""The first offset that is left; offset 0 has the identity record, and 1 to 6 have checkpoints."""


async def rebuild(url: str, *options: str) -> int:
    """Run the command that makes the view anew; return its exit code."""
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("langgraph-kafka"),
        *("projector", "rebuild", "--url", url, *options),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait()


async def test_lost_front_of_the_log_is_refused_until_it_is_accepted(
    kafka_bootstrap: str, redis_url: str, topic: str
) -> None:
    """Neither reads nor a rebuild take a truncated log for a whole one, but for `--accept-loss`."""
    url = f"kafka://{kafka_bootstrap}/{topic}?partitions=1&redis={redis_url}"
    async with AsyncKafkaSaver.from_conn_string(url, projector=None) as saver:
        for number in range(6):
            await put(saver, "thread", number)
        await delete_records(kafka_bootstrap, topic, 0, FIRST)
        with pytest.raises(LogTruncatedError) as refused:
            await saver.aget_tuple(thread("thread"))
        assert refused.value.first == FIRST
        assert refused.value.wanted < FIRST
    assert await rebuild(url) != 0
    assert await rebuild(url, "--accept-loss") == 0
    async with AsyncKafkaSaver.from_conn_string(url) as saver:
        left = [number_of(item.config) async for item in saver.alist(thread("thread"))]
        assert left == [5, 4, 3]
