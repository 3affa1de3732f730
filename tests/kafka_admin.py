"""What tests do to topics and brokers behind the log's back, by plain aiokafka."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import NoError, for_code
from aiokafka.protocol.admin import AlterConfigsRequest
from aiokafka.structs import TopicPartition

SAFE_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",
}

_TOPIC, _BROKER = 2, 4


@asynccontextmanager
async def admin_of(bootstrap: str) -> AsyncGenerator[Any]:
    client: Any = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def create_topic(
    bootstrap: str, topic: str, *, partitions: int = 1, settings: Mapping[str, str] = SAFE_SETTINGS
) -> None:
    """Create a topic with exactly these settings."""
    new: Any = NewTopic(topic, partitions, 1, topic_configs=dict(settings))
    async with admin_of(bootstrap) as admin:
        answer = await admin.create_topics([new])
    _check(answer.topic_errors[0][1])


async def delete_topic(bootstrap: str, topic: str) -> None:
    async with admin_of(bootstrap) as admin:
        answer = await admin.delete_topics([topic])
    _check(answer.topic_error_codes[0][1])


async def set_topic(bootstrap: str, topic: str, **settings: str) -> None:
    """Give an existing topic safe settings and these; underscores stand for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    await _alter(bootstrap, _TOPIC, topic, {**SAFE_SETTINGS, **named})


async def hasten_compaction(bootstrap: str) -> None:
    """Let the brokers look for something to clean every 0.1 s and not every 15 s."""
    async with admin_of(bootstrap) as admin:
        nodes = [broker.nodeId for broker in admin._client.cluster.brokers()]
    for node in nodes:
        await _alter(bootstrap, _BROKER, str(node), {"log.cleaner.backoff.ms": "100"})


async def delete_records(bootstrap: str, topic: str, partition: int, first: int) -> None:
    """Delete the records below `first`, which Kafka does only where the policy names `delete`."""
    await set_topic(
        bootstrap, topic, cleanup_policy="compact,delete", retention_ms="-1", retention_bytes="-1"
    )
    async with admin_of(bootstrap) as admin:
        await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(first)})


async def _alter(bootstrap: str, kind: int, name: str, settings: Mapping[str, str]) -> None:
    request: Any = AlterConfigsRequest([(kind, name, list(settings.items()))])
    async with admin_of(bootstrap) as admin:
        answer = await admin._send_request(request)
    _check(answer.resources[0][0])


def _check(code: int) -> None:
    error = for_code(code)
    if error is not NoError:
        raise error
