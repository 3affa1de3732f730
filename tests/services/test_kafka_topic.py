"""The topic under the log: created right, verified, recognised."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from eventstore.errors import LogIdentityError, LogUnavailableError, UnsafeTopicError
from tests.kafka_admin import SAFE_SETTINGS, admin_of, create_topic, delete_topic
from tests.kafka_logs import config_for, opened, read_all, task_ids, writes_event
from tests.waiting import wait_until


async def settings_of(bootstrap: str, topic: str) -> Mapping[str, str]:
    async with admin_of(bootstrap) as admin:
        answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {entry[0]: entry[1] for entry in answers[0].resources[0][4]}


async def topics_at(bootstrap: str) -> list[str]:
    async with admin_of(bootstrap) as admin:
        found: list[str] = await admin.list_topics()
    return found


async def test_missing_topic_is_created_with_what_was_configured(
    kafka_bootstrap: str, topic: str
) -> None:
    """A new topic has the configured partitions, keeps history, and stamps with its own clock."""
    config = config_for(kafka_bootstrap, topic, partitions=5, max_compaction_lag=3600)
    async with opened(config) as log:
        assert log.partition_count == 5
    settings = await settings_of(kafka_bootstrap, topic)
    assert settings["cleanup.policy"] == "compact"
    assert settings["message.timestamp.type"] == "LogAppendTime"
    assert settings["max.compaction.lag.ms"] == "3600000"
    assert settings["unclean.leader.election.enable"] == "false"


async def test_existing_topic_keeps_its_partition_count(kafka_bootstrap: str, topic: str) -> None:
    """The configured partition count is for a new topic only."""
    async with opened(config_for(kafka_bootstrap, topic, partitions=3)) as log:
        identity = await log.identity(2)
        partition = log.partition_of("thread")
    async with opened(config_for(kafka_bootstrap, topic, partitions=8)) as log:
        assert log.partition_count == 3
        assert await log.identity(2) == identity
        assert log.partition_of("thread") == partition


async def test_creators_at_once_end_up_with_one_log(kafka_bootstrap: str, topic: str) -> None:
    """Several processes may create the log at the same moment; all see the same identities."""
    config = config_for(kafka_bootstrap, topic, partitions=3)

    async def identities() -> list[object]:
        async with opened(config) as log:
            await log.append(writes_event("task"))
            return [await log.identity(partition) for partition in range(3)]

    first, *others = await asyncio.gather(*[identities() for _ in range(4)])
    assert all(other == first for other in others)


async def test_set_up_twice_writes_one_identity(kafka_bootstrap: str, topic: str) -> None:
    """`setup` is idempotent, also when called twice at once."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        await asyncio.gather(log.setup(), log.setup())
        assert (await log.end_position([0])).next_offset(0) == 1


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"cleanup.policy": "delete"}, "retention.ms"),
        ({"cleanup.policy": "compact,delete"}, "retention.ms"),
        (
            {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1000000"},
            "retention.bytes",
        ),
        ({"message.timestamp.type": "CreateTime"}, "message.timestamp.type"),
    ],
    ids=["deleted by age", "compacted and deleted", "deleted by size", "writers' clocks"],
)
async def test_topic_that_loses_history_is_refused(
    kafka_bootstrap: str, topic: str, settings: dict[str, str], setting: str
) -> None:
    """A setting that would lose acknowledged events is named, with its cure; nothing is written."""
    await create_topic(kafka_bootstrap, topic, settings={**SAFE_SETTINGS, **settings})
    with pytest.raises(UnsafeTopicError) as refused:
        async with opened(config_for(kafka_bootstrap, topic)):
            pass
    assert setting in refused.value.setting
    assert refused.value.cure in str(refused.value)


async def test_topic_that_keeps_everything_is_accepted_with_a_warning(
    kafka_bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`delete` with unlimited retention loses nothing and cannot erase: it is reported."""
    keep = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    await create_topic(kafka_bootstrap, topic, settings={**SAFE_SETTINGS, **keep})
    with caplog.at_level(logging.WARNING, "langgraph_checkpoint_kafka.log"):
        async with opened(config_for(kafka_bootstrap, topic)) as log:
            await log.append(writes_event("task"))
            assert task_ids(await read_all(log)) == ["task"]
    assert "nothing can be erased" in caplog.text


async def test_few_replicas_are_warned_of(
    kafka_bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One replica is accepted, and said to be weak."""
    with caplog.at_level(logging.WARNING, "langgraph_checkpoint_kafka.log"):
        async with opened(config_for(kafka_bootstrap, topic)):
            pass
    assert "replication factor 1" in caplog.text


async def test_refused_creation_is_reported_and_creates_nothing(
    kafka_bootstrap: str, topic: str
) -> None:
    """The broker's reason is in the error, and no topic with its defaults appears instead."""
    with pytest.raises(LogUnavailableError, match="InvalidReplicationFactor"):
        async with opened(config_for(kafka_bootstrap, topic, replication_factor=9)):
            pass
    assert topic not in await topics_at(kafka_bootstrap)


async def test_foreign_topic_is_refused(kafka_bootstrap: str, topic: str) -> None:
    """A topic that begins with something else is not a log of ours."""
    await create_topic(kafka_bootstrap, topic)
    producer: Any = AIOKafkaProducer(bootstrap_servers=kafka_bootstrap)
    async with producer:
        await producer.send_and_wait(topic, b"not an event", key=b"key", partition=0)
    with pytest.raises(LogIdentityError, match="partition 0"):
        async with opened(config_for(kafka_bootstrap, topic)):
            pass


async def test_repartitioned_topic_is_refused(kafka_bootstrap: str, topic: str) -> None:
    """A topic that got more partitions would find its threads elsewhere."""
    async with opened(config_for(kafka_bootstrap, topic, partitions=2)):
        pass
    async with admin_of(kafka_bootstrap) as admin:
        await admin.create_partitions({topic: NewPartitions(3)})
    with pytest.raises(LogIdentityError, match="2 partitions"):
        async with opened(config_for(kafka_bootstrap, topic)):
            pass


async def test_recreated_topic_has_another_identity(kafka_bootstrap: str, topic: str) -> None:
    """A topic deleted and created again is not taken for the old one."""
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        before = await log.identity(0)
    await delete_topic(kafka_bootstrap, topic)

    async def is_gone() -> bool:
        return topic not in await topics_at(kafka_bootstrap)

    gone: bool = await wait_until(is_gone, description="the topic is gone")
    assert gone
    async with opened(config_for(kafka_bootstrap, topic)) as log:
        after = await log.identity(0)
        assert after.log_id != before.log_id
        # A view of the old log that is further than the new one reaches.
        with pytest.raises(LogIdentityError):
            await log.read(0, 500, 501)
        tail = log.tail({0: 500})
        with pytest.raises(LogIdentityError):
            await anext(tail)
