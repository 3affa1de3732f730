"""The log on Kafka."""

from .log import KafkaEventLog

__all__ = ["KafkaEventLog"]
