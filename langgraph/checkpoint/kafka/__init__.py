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
from saver.cipher import RotatingCipher, aes_cipher
from saver.config import KafkaSaverConfig, SaverSettings
from saver.errors import (
    CipherMissingError,
    CopyRefusedError,
    InvalidConfigError,
    PieceMovedError,
    PiecesMixedError,
    PieceUnreadableError,
    PlainValueError,
    SaverClosedError,
    SaverError,
    SealedPieceError,
    ThreadDeletedError,
    UnknownKeyError,
)
from saver.place import ReadLevel
from saver.sync import KafkaSaver
from saver.threads import ThreadInfo, Threads

__version__ = version("langgraph-checkpoint-kafka")

__all__ = [
    "AppendOutcomeUnknownError",
    "AsyncKafkaSaver",
    "CipherMissingError",
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
    "PieceMovedError",
    "PieceUnreadableError",
    "PiecesMixedError",
    "PlainValueError",
    "ProjectionError",
    "ProjectionHaltedError",
    "ProjectionLagError",
    "ProjectorConfig",
    "ReadLevel",
    "RotatingCipher",
    "SaverClosedError",
    "SaverError",
    "SaverSettings",
    "SealedPieceError",
    "ThreadDeletedError",
    "ThreadInfo",
    "ThreadParkedError",
    "Threads",
    "UnknownEventVersionError",
    "UnknownKeyError",
    "UnsafeTopicError",
    "UnsafeViewError",
    "ValueCorruptedError",
    "ValueUnresolvedError",
    "ViewCorruptedError",
    "ViewUnavailableError",
    "ViewVersionError",
    "__version__",
    "aes_cipher",
]
