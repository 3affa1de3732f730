"""What a saver's store takes, and how it is removed, by its connection string."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO

import apsw
from aiokafka.admin import AIOKafkaAdminClient
from psycopg import AsyncConnection
from redis.asyncio import Redis

from langgraph.checkpoint.kafka import KafkaSaverConfig

POSTGRES_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")

_DESCRIBE_LOG_DIRS = 35
_VERSION = 1  # the newest one without tagged fields
_CORRELATION = 1
_CLIENT = b"benchmarks"

_SQLITE_PAGES = """
    SELECT
        coalesce(sum(pgsize) FILTER (WHERE tbl_name LIKE 'log%'), 0),
        coalesce(sum(pgsize) FILTER (WHERE tbl_name LIKE 'view%'), 0)
    FROM dbstat JOIN sqlite_schema USING (name) WHERE aggregate = TRUE
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that a store takes; None where it has no such part, or it was not measured."""

    log: int | None = None
    """Kafka: the topic's segments, as the broker tells. SQLite: pages of the log's tables."""
    view: int | None = None
    """Redis: MEMORY USAGE of all keys of the view. SQLite: pages of the view's tables."""
    whole: int | None = None
    """Both, or PostgreSQL's three tables with their indexes and what is stored out of line."""

    def __sub__(self, before: Footprint) -> Footprint:
        return Footprint(
            _difference(self.log, before.log),
            _difference(self.view, before.view),
            _difference(self.whole, before.whole),
        )


async def footprint(url: str) -> Footprint:
    """Measure a store; of memory, nothing."""
    if url.startswith("postgresql:"):
        return Footprint(whole=await _postgres_bytes(url))
    if not url:
        return Footprint()
    config = KafkaSaverConfig.from_conn_string(url)
    if config.sqlite_path is not None:
        log, view = await asyncio.to_thread(_sqlite_bytes, config.sqlite_path)
    else:
        kafka, redis_url = config.servers()
        log = await asyncio.to_thread(_topic_bytes, kafka.bootstrap_servers, kafka.topic)
        view = await _keys_bytes(redis_url.get_secret_value(), kafka.topic)
    return Footprint(log, view, log + view)


async def remove(url: str) -> None:
    """Delete the topic and the keys that a `kafka://` string names."""
    kafka, redis_url = KafkaSaverConfig.from_conn_string(url).servers()
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await admin.start()
    try:
        await admin.delete_topics([kafka.topic])
    finally:
        await admin.close()
    async with _redis(redis_url.get_secret_value()) as redis:
        async for key in _keys(redis, kafka.topic):
            await redis.execute_command("UNLINK", key)


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


async def empty(url: str) -> None:
    """Remove all that PostgreSQL has of checkpoints."""
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"TRUNCATE {', '.join(POSTGRES_TABLES)}")


async def _postgres_bytes(url: str) -> int:
    sizes = " + ".join(f"pg_total_relation_size('{table}')" for table in POSTGRES_TABLES)
    async with await AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(f"SELECT {sizes}")
        found = await cursor.fetchone()
    return 0 if found is None else int(found[0])


def _sqlite_bytes(path: str) -> tuple[int, int]:
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        log, view = next(connection.execute(_SQLITE_PAGES))
    return int(str(log)), int(str(view))


def _redis(url: str) -> Any:
    client: Any = Redis
    return client.from_url(url)


async def _keys(redis: Any, topic: str) -> AsyncIterator[bytes]:
    async for key in redis.scan_iter(match=f"{{{topic}:*", count=1_000):
        yield key


async def _keys_bytes(url: str, topic: str) -> int:
    async with _redis(url) as redis:
        # Samples 0: all of a key's members are counted, not a few extrapolated.
        return sum(
            [
                await redis.execute_command("MEMORY", "USAGE", key, "SAMPLES", "0") or 0
                async for key in _keys(redis, topic)
            ]
        )


def _topic_bytes(servers: str, topic: str) -> int:
    """Return what the topic's segments take, on all brokers named."""
    return sum(_broker_bytes(server, topic) for server in servers.split(","))


def _broker_bytes(server: str, topic: str) -> int:
    host, _, port = server.strip().rpartition(":")
    name = topic.encode()
    request = struct.pack(
        f">hhih{len(_CLIENT)}s", _DESCRIBE_LOG_DIRS, _VERSION, _CORRELATION, len(_CLIENT), _CLIENT
    )
    # All topics (a null array): one topic would have to be asked for with its partitions.
    request += struct.pack(">i", -1)
    with (
        socket.create_connection((host, int(port)), timeout=10) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(struct.pack(">i", len(request)) + request)
        _length, _correlation, _throttle, folders = _read(stream, ">iiii")
        return sum(_folder_bytes(stream, name) for _ in range(folders))


def _folder_bytes(stream: BinaryIO, wanted: bytes) -> int:
    (error,) = _read(stream, ">h")
    if error:
        raise OSError(f"the broker refused to tell its sizes: error {error}")
    _text(stream)
    found = 0
    for _ in range(_read(stream, ">i")[0]):
        name = _text(stream)
        for _ in range(_read(stream, ">i")[0]):
            _partition, size, _lag, _is_future = _read(stream, ">iqq?")
            found += size if name == wanted else 0
    return found


def _text(stream: BinaryIO) -> bytes:
    return stream.read(_read(stream, ">h")[0])


def _read(stream: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(form, stream.read(struct.calcsize(form)))
