"""Makes super-steps on many threads for ever, and tells on its output what was acknowledged.

`python -m tests.programs.writer <connection string> <prefix> <threads>`; lines are
`put <thread> <number>` and `writes <thread> <number> <task>`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .steps import put, write


def tell(*words: object) -> None:
    """Write one line at once: what is told must not get lost in a buffer when we are killed."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def follow(saver: BaseCheckpointSaver[Any], thread_id: str) -> None:
    """Make the super-steps of one thread."""

    async def task(number: int, name: str) -> None:
        await write(saver, thread_id, number, name)
        tell("writes", thread_id, number, name)

    number = 0
    await put(saver, thread_id, number)
    while True:
        # The next checkpoint is put while the writes are under way, as LangGraph does it.
        writes = [asyncio.ensure_future(task(number, name)) for name in ("a", "b")]
        await asyncio.sleep(0)
        number += 1
        await put(saver, thread_id, number)
        tell("put", thread_id, number)
        await asyncio.gather(*writes)


async def main(conn_string: str, prefix: str, threads: int) -> None:
    """Run until killed."""
    async with AsyncKafkaSaver.from_conn_string(conn_string) as saver:
        await asyncio.gather(*(follow(saver, f"{prefix}-{i}") for i in range(threads)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
