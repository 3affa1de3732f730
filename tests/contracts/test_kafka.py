"""`KafkaEventLog` keeps the contract of the `EventLog` port, on a real broker."""

from __future__ import annotations

import pytest

from eventstore.config import KafkaConfig
from eventstore.events import LogNudged, NewEvent
from eventstore.kafka import KafkaEventLog
from eventstore.log import EventLog
from tests.kafka_admin import delete_records, hasten_compaction

from .event_log import EventLogContract, LogStorage


class KafkaLogStorage(LogStorage):
    """One topic. Its erased records may be cleaned as soon as the broker comes round."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._config = KafkaConfig(
            bootstrap_servers=bootstrap, topic=topic, partitions=4, max_compaction_lag=0.01
        )
        self.max_record_bytes = self._config.max_record_bytes

    def new_log(self) -> EventLog:
        return KafkaEventLog(self._config)

    async def truncate(self, log: EventLog, partition: int, first: int) -> None:
        await delete_records(self._bootstrap, self._config.topic, partition, first)

    async def compact(self, log: EventLog, partition: int) -> None:
        await hasten_compaction(self._bootstrap)
        # The segment that is written to is never cleaned; an append after the lag begins another.
        for _ in range(2):
            await log.append(NewEvent(None, LogNudged()), partition=partition)


class TestKafkaEventLog(EventLogContract):
    @pytest.fixture
    def storage(self, kafka_bootstrap: str, topic: str) -> LogStorage:
        return KafkaLogStorage(kafka_bootstrap, topic)
