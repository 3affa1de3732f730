"""Opens the savers that are compared, each on a fresh store."""

from __future__ import annotations

import asyncio
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

POSTGRES_CONNECTIONS = 16

KAFKA_INSIDE = "Kafka + Redis, projector inside"
KAFKA_BESIDE = "Kafka + Redis, projector beside"
SQLITE = "SQLite file"
POSTGRES = "AsyncPostgresSaver"
MEMORY = "InMemorySaver"
ALL = (POSTGRES, KAFKA_INSIDE, KAFKA_BESIDE, SQLITE, MEMORY)


def conn_string() -> str:
    """Return the connection string of a new topic on the running Kafka and Redis."""
    addresses = services.start("kafka", "redis")
    return f"kafka://{addresses.kafka}/benchmark-{uuid4().hex}?redis={addresses.redis}"


@asynccontextmanager
async def opened(name: str) -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    """Open one of `ALL`."""
    if name == MEMORY:
        yield InMemorySaver()
    elif name == POSTGRES:
        async with _postgres() as saver:
            yield saver
    elif name == SQLITE:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "benchmark.db"
            async with AsyncKafkaSaver.from_conn_string(f"sqlite:///{path}") as saver:
                yield saver
    elif name == KAFKA_INSIDE:
        async with AsyncKafkaSaver.from_conn_string(conn_string()) as saver:
            yield saver
    else:
        url = conn_string()
        async with (
            AsyncKafkaSaver.from_conn_string(url, projector=None) as saver,
            _projector(url),
        ):
            yield saver


@asynccontextmanager
async def _postgres() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
    url = services.start("postgres").postgres
    async with AsyncConnectionPool[AsyncConnection[dict[str, Any]]](
        str(url),
        max_size=POSTGRES_CONNECTIONS,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        open=False,
    ) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        async with pool.connection() as connection:
            await connection.execute("TRUNCATE checkpoints, checkpoint_blobs, checkpoint_writes")
        yield saver


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
