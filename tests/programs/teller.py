"""Puts a checkpoint whenever it is asked to, and answers when that is acknowledged.

`python -m tests.programs.teller <connection string> [no-projector]`: reads lines
`<thread> <number>` and writes each back once checkpoint `number` of that thread is saved.
"""

from __future__ import annotations

import asyncio
import os
import sys

from langgraph.checkpoint.kafka import AsyncKafkaSaver, ProjectorConfig

from .steps import put


async def main(conn_string: str, *, has_projector: bool) -> None:
    """Serve until the input ends."""
    projector = ProjectorConfig() if has_projector else None
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with AsyncKafkaSaver.from_conn_string(conn_string, projector=projector) as saver:

        async def serve(thread_id: str, number: int) -> None:
            await put(saver, thread_id, number)
            os.write(1, f"{thread_id} {number}\n".encode())

        async with asyncio.TaskGroup() as tasks:
            while line := await reader.readline():
                thread_id, number = line.decode().split()
                tasks.create_task(serve(thread_id, int(number)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], has_projector="no-projector" not in sys.argv[2:]))
