"""The topic: created if it is missing, with settings that keep history, and verified."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.errors import (
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    NoError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from aiokafka.protocol.metadata import MetadataRequest

from eventstore.config import KafkaConfig
from eventstore.errors import LogUnavailableError, UnsafeTopicError

from .client import ClusterClient
from .producer import BATCH_OVERHEAD

log = logging.getLogger("langgraph_checkpoint_kafka.log")

SAFE_REPLICAS: Final = 3
SAFE_IN_SYNC: Final = 2

_TOPIC_RESOURCE: Final = 2
_UNLIMITED: Final = -1
_SETTINGS: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "unclean.leader.election.enable",
)
_REFUSED: Final = (InvalidReplicationFactorError, InvalidTopicError, PolicyViolationError)


@dataclass(frozen=True, slots=True)
class TopicState:
    """What is known of the topic."""

    partitions: int
    replicas: int
    settings: dict[str, str]

    @property
    def record_limit(self) -> int:
        """How large a record may be that stands alone in its batch."""
        return int(self.settings["max.message.bytes"]) - BATCH_OVERHEAD

    @property
    def can_erase(self) -> bool:
        """Whether tombstones make the broker forget records."""
        return "compact" in self.settings["cleanup.policy"]


async def ensure_topic(client: ClusterClient, config: KafkaConfig) -> TopicState:
    """Return the topic's state, after creating it if it was missing.

    Raises:
        UnsafeTopicError: A setting would lose history.
        LogUnavailableError: It can be neither created nor described.
    """

    async def attempt() -> tuple[int, int]:
        # Never asked in a way that lets the broker create it with its own defaults.
        found = await _describe(client)
        if found is None:
            await _create(client, config)
            raise LeaderNotAvailableError(f"topic {config.topic} is being created")
        return found

    partitions, replicas = await client.until_answered(f"opening topic {config.topic}", attempt)
    await client.follow_topic()

    async def has_leaders() -> None:
        leaders = client.partitions()
        if len(leaders) != partitions or -1 in leaders.values():
            raise LeaderNotAvailableError(f"topic {config.topic}")

    await client.until_answered(f"waiting for leaders of topic {config.topic}", has_leaders)
    state = TopicState(partitions, replicas, await read_settings(client))
    verify(config.topic, state)
    return state


async def read_settings(client: ClusterClient) -> dict[str, str]:
    """Return the topic's settings that matter here."""

    async def attempt() -> dict[str, str]:
        resource = (_TOPIC_RESOURCE, client.topic, list(_SETTINGS))
        answer = await client.ask(DescribeConfigsRequest([resource]))
        code, message, _, _, entries = answer.resources[0]
        _check(code, message)
        settings = {entry[0]: entry[1] for entry in entries}
        if missing := set(_SETTINGS) - set(settings):
            # What cannot be verified is not taken for safe.
            reason = f"the broker does not tell {', '.join(sorted(missing))}"
            raise LogUnavailableError(f"reading the settings of {client.topic}", reason=reason)
        return settings

    return await client.until_answered(f"reading the settings of {client.topic}", attempt)


def verify(topic: str, state: TopicState) -> None:
    """Refuse settings that lose history; warn of those that are merely weak.

    Raises:
        UnsafeTopicError: A setting would lose history.
    """
    settings = state.settings
    policy = settings["cleanup.policy"]
    if "delete" in policy:
        for name in ("retention.ms", "retention.bytes"):
            if int(settings[name]) != _UNLIMITED:
                raise UnsafeTopicError(
                    topic,
                    setting=f"cleanup.policy={policy} with {name}",
                    value=settings[name],
                    cure=f"set cleanup.policy=compact, or {name}=-1",
                )
    if settings["message.timestamp.type"] != "LogAppendTime":
        # Also the only sign by which a made-up offset of a recognised retry can be told.
        raise UnsafeTopicError(
            topic,
            setting="message.timestamp.type",
            value=settings["message.timestamp.type"],
            cure="events are aged by the log's own clock: set it to LogAppendTime",
        )
    if state.replicas > 1 and settings["unclean.leader.election.enable"] == "true":
        raise UnsafeTopicError(
            topic,
            setting="unclean.leader.election.enable",
            value="true",
            cure="a broker without the last events could become leader: set it to false",
        )
    if not state.can_erase:
        log.warning(
            "topic %s keeps everything (cleanup.policy=%s): nothing can be erased", topic, policy
        )
    in_sync = int(settings["min.insync.replicas"])
    if state.replicas < SAFE_REPLICAS or in_sync < SAFE_IN_SYNC:
        log.warning(
            "topic %s survives fewer failures than it should: replication factor %d (3 is safe), "
            "min.insync.replicas %d (2 is safe)",
            topic,
            state.replicas,
            in_sync,
        )


async def _describe(client: ClusterClient) -> tuple[int, int] | None:
    """Return the topic's partition count and replication factor; None when there is none."""
    answer = await client.ask(MetadataRequest([client.topic], allow_auto_topic_creation=False))
    code, _, _, partitions = answer.topics[0]
    if for_code(code) is UnknownTopicOrPartitionError:
        return None
    _check(code, f"topic {client.topic}")
    return len(partitions), min(len(entry[3]) for entry in partitions)


async def _create(client: ClusterClient, config: KafkaConfig) -> None:
    replicas = config.replication_factor or min(SAFE_REPLICAS, client.brokers())
    settings: dict[str, str] = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": str(SAFE_IN_SYNC if replicas >= SAFE_REPLICAS else 1),
        "min.compaction.lag.ms": str(int(config.min_compaction_lag * 1000)),
        "max.compaction.lag.ms": str(int(config.max_compaction_lag * 1000)),
        "unclean.leader.election.enable": "false",
    }
    topic: tuple[Any, ...] = (config.topic, config.partitions, replicas, [], list(settings.items()))
    request = CreateTopicsRequest([topic], int(config.request_timeout * 1000), False)  # noqa: FBT003
    answer = await client.ask_controller(request)
    _, code, message = answer.topic_errors[0]
    error = for_code(code)
    # Somebody else was faster: then it is theirs that counts.
    if error is TopicAlreadyExistsError:
        return
    _check(code, message)
    log.info(
        "created topic %s: %d partitions, replication factor %d, %s",
        config.topic,
        config.partitions,
        replicas,
        settings,
    )


def _check(code: int, message: str | None) -> None:
    """Raise for the error code that an answer of this kind carries instead of failing."""
    error: type[KafkaError] = for_code(code)
    if error in _REFUSED:
        raise LogUnavailableError("creating the topic", reason=f"{error.__name__}: {message}")
    if error is not NoError:
        raise error(message)
