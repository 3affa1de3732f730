"""What the quickstart plays on: lines on a terminal, other processes, a look into the log."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from eventstore.codec import decode
from eventstore.events import RecordedEvent
from langgraph.checkpoint.kafka import KafkaSaverConfig
from saver.wiring import open_ports

ROOT = Path(__file__).parent.parent
URL_VARIABLE = "LANGGRAPH_KAFKA_URL"
PATIENCE = 30.0  # seconds for another process to do what it is expected to do

console = Console(highlight=False)


def title(number: int, text: str) -> None:
    """Introduce an act."""
    console.print(f"\n[bold yellow]{number}. {text}[/]")


def say(text: str) -> None:
    """Print a line."""
    console.print(f"  {text}")


def check(is_so: bool, what: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Print that something is as it should be, or leave because it is not."""
    console.print(f"  [green]✓[/] {what}" if is_so else f"  [red]✗ not so:[/] {what}")
    if not is_so:
        sys.exit(1)


def table(*columns: str) -> Table:
    """Return a table without lines."""
    return Table(*columns, box=None, padding=(0, 1, 0, 2))


async def until(what: str, holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until something holds."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = holds()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        check(is_so=False, what=what)


@asynccontextmanager
async def process(url: str, *command: str | Path) -> AsyncGenerator[Process]:
    """Run a command that is told the address; it does not outlive the block.

    It is told by the environment, as a command line is there for all to see.
    """
    environment = {**os.environ, URL_VARIABLE: url}
    started = await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=ROOT, stderr=DEVNULL
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


@contextmanager
def own_servers() -> Generator[str]:
    """Start a Kafka and a Redis, or find them running; give the address of a new log on them."""
    # The tool that starts real servers for the tests; no part of the distribution.
    from services import default_services  # noqa: PLC0415 - whoever has servers does not need it

    # One broker on purpose: the log's warning that it has no replicas would come with every act.
    logging.getLogger("langgraph_checkpoint_kafka").setLevel(logging.ERROR)
    with default_services().held("kafka", "redis") as servers:
        yield f"kafka://{servers.kafka}/demo-{uuid4().hex}?redis={servers.redis}"


def projector_command() -> list[str | Path]:
    """Return the command that runs the projector as a service."""
    return [Path(sys.executable).with_name("langgraph-kafka"), "projector", "run"]


async def events_of(url: str, thread_id: str) -> AsyncIterator[tuple[str, RecordedEvent]]:
    """Yield a thread's events from the log. `docs/event-format.md` does it with plain aiokafka."""
    async with open_ports(KafkaSaverConfig.from_conn_string(url)) as (log, _):
        await log.setup()
        partition = log.partition_of(thread_id)
        offset = (await log.first_position([partition])).next_offset(partition)
        end = (await log.end_position([partition])).next_offset(partition)
        while offset < end:
            batch = await log.read(partition, offset, end)
            for record in batch.records:
                headers = dict(record.headers)
                if record.value is not None and headers["ce_subject"] == thread_id.encode():
                    yield headers["ce_type"].decode(), decode(record)
            offset = batch.next_offset
