"""An event-sourced LangGraph checkpointer: Kafka is the log, Redis the view, SQLite both in one.

Everything that users import is here; the packages behind it may change.
"""

from importlib.metadata import version

from eventstore.config import KafkaConfig
from eventstore.errors import (
    AppendOutcomeUnknownError,
    CorruptEventError,
    EventStoreError,
    EventTooLargeError,
    LogClosedError,
    LogIdentityError,
    LogTruncatedError,
    LogUnavailableError,
    UnknownEventVersionError,
    UnsafeTopicError,
    ValueCorruptedError,
)
from projector.config import ProjectorConfig
from projector.errors import (
    ProjectionError,
    ProjectionHaltedError,
    ProjectionLagError,
    ThreadParkedError,
    UnsafeViewError,
    ValueUnresolvedError,
    ViewCorruptedError,
    ViewUnavailableError,
    ViewVersionError,
)
from saver.aio import AsyncKafkaSaver
from saver.config import KafkaSaverConfig, SaverSettings
from saver.errors import (
    CopyRefusedError,
    InvalidConfigError,
    SaverClosedError,
    SaverError,
    ThreadDeletedError,
)
from saver.place import ReadLevel
from saver.sync import KafkaSaver
from saver.threads import ThreadInfo, Threads

__version__ = version("langgraph-checkpoint-kafka")

__all__ = [
    "AppendOutcomeUnknownError",
    "AsyncKafkaSaver",
    "CopyRefusedError",
    "CorruptEventError",
    "EventStoreError",
    "EventTooLargeError",
    "InvalidConfigError",
    "KafkaConfig",
    "KafkaSaver",
    "KafkaSaverConfig",
    "LogClosedError",
    "LogIdentityError",
    "LogTruncatedError",
    "LogUnavailableError",
    "ProjectionError",
    "ProjectionHaltedError",
    "ProjectionLagError",
    "ProjectorConfig",
    "ReadLevel",
    "SaverClosedError",
    "SaverError",
    "SaverSettings",
    "ThreadDeletedError",
    "ThreadInfo",
    "ThreadParkedError",
    "Threads",
    "UnknownEventVersionError",
    "UnsafeTopicError",
    "UnsafeViewError",
    "ValueCorruptedError",
    "ValueUnresolvedError",
    "ViewCorruptedError",
    "ViewUnavailableError",
    "ViewVersionError",
    "__version__",
]
