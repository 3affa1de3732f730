"""Opens the savers that are compared, each on a fresh store."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

import services
from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .stores import empty, remove

POSTGRES_CONNECTIONS = 16

KAFKA_INSIDE = "Kafka + Redis, projector inside"
KAFKA_BESIDE = "Kafka + Redis, projector beside"
SQLITE = "SQLite file"
POSTGRES = "AsyncPostgresSaver"
MEMORY = "InMemorySaver"
ALL = (POSTGRES, KAFKA_INSIDE, KAFKA_BESIDE, SQLITE, MEMORY)


def conn_string() -> str:
    """Return the connection string of a new topic on the running Kafka and Redis."""
    kafka, redis = _address("kafka"), _address("redis")
    return f"kafka://{kafka}/benchmark-{uuid4().hex}?redis={redis}"


@asynccontextmanager
async def placed(name: str) -> AsyncGenerator[str, None]:
    """Make a fresh store for one of `ALL`, and remove it; its connection string, '' for memory."""
    if name == MEMORY:
        yield ""
    elif name == POSTGRES:
        url = _address("postgres")
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            await saver.setup()
        await empty(url)
        yield url
    elif name == SQLITE:
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'benchmark.db'}"
    else:
        url = conn_string()
        try:
            yield url
        finally:
            await remove(url)


@asynccontextmanager
async def opened(name: str) -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    """Open one of `ALL` on a fresh store."""
    async with placed(name) as url, opened_at(name, url) as saver:
        yield saver


@asynccontextmanager
async def opened_at(name: str, url: str) -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    """Open one of `ALL` on a store that `placed` made."""
    if name == MEMORY:
        yield InMemorySaver()
    elif name == POSTGRES:
        async with _postgres(url) as saver:
            yield saver
    elif name == KAFKA_BESIDE:
        async with (
            AsyncKafkaSaver.from_conn_string(url, projector=None) as saver,
            _projector(url),
        ):
            yield saver
    else:
        async with AsyncKafkaSaver.from_conn_string(url) as saver:
            yield saver


async def caught_up(saver: BaseCheckpointSaver[Any], *, pause: float = 0.002) -> None:
    """Wait until the view has all that was appended, where there is a view."""
    if isinstance(saver, AsyncKafkaSaver):
        while any((await saver.alag()).values()):  # noqa: ASYNC110 - a service may do the projecting
            await asyncio.sleep(pause)


def _address(name: services.ServiceName) -> str:
    """Return where a server is: what the environment says, or one that is started here."""
    return os.environ.get(f"LGK_{name.upper()}") or str(getattr(services.start(name), name))


@asynccontextmanager
async def _postgres(url: str) -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    async with AsyncConnectionPool[AsyncConnection[dict[str, Any]]](
        url,
        max_size=POSTGRES_CONNECTIONS,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        open=False,
    ) as pool:
        yield AsyncPostgresSaver(pool)


@asynccontextmanager
async def _projector(url: str) -> AsyncGenerator[None, None]:
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("langgraph-kafka"),
        *("projector", "run", "--url", url),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
        if process.returncode is not None:
            raise AssertionError(f"the projector ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
