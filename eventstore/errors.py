"""Everything that the log can raise at run time.

    EventStoreError
    ├── LogUnavailableError          no broker in time, nothing was written
    ├── AppendOutcomeUnknownError    sent, no answer, not found in the log: may still arrive
    ├── LogClosedError               the log was used after `close`
    ├── LogIdentityError             not the log that this view was built from
    ├── UnsafeTopicError             a policy that would lose history
    ├── ValueCorruptedError          a stored value's digest differs
    ├── EventTooLargeError           one event does not fit into one record
    ├── CorruptEventError            a record that is not an event of ours
    ├── UnknownEventVersionError     an event newer than this reader
    └── LogTruncatedError            the wanted position is gone from the log

Facts are constructor arguments and attributes; messages are built from them. Exceptions of client
libraries never leave an adapter.
"""

from __future__ import annotations

from typing import ClassVar


class EventStoreError(Exception):
    """The root of every error that this distribution raises at run time."""

    retriable: ClassVar[bool] = False
    """Whether the same call may succeed when it is simply made again."""


class LogUnavailableError(EventStoreError):
    """The log did not answer in time; nothing was written.

    Raised when no broker is reachable, when the topic has no leader, and when an append was refused
    before it was stored. The operator checks the brokers; the caller may call again.
    """

    retriable = True

    def __init__(self, what: str, *, reason: str) -> None:
        super().__init__(f"{what}: the log is unavailable ({reason})")
        self.what = what
        self.reason = reason


class AppendOutcomeUnknownError(EventStoreError):
    """An append was sent, no answer came, and the log does not hold the event yet.

    It may still arrive. It is never sent again by us; calling again makes a new event.
    """

    def __init__(self, event_id: str, *, partition: int, waited: float) -> None:
        super().__init__(
            f"event {event_id} was sent to partition {partition} and not acknowledged within "
            f"{waited:g} s; it is not in the log yet and may still arrive"
        )
        self.event_id = event_id
        self.partition = partition
        self.waited = waited


class LogClosedError(EventStoreError):
    """The log was used after it had been closed."""

    def __init__(self, log: str) -> None:
        super().__init__(f"{log} is closed")
        self.log = log


class LogIdentityError(EventStoreError):
    """This is not the log that the view was built from, or not one of ours at all.

    Raised when a topic was deleted and created again, when its number of partitions changed, or
    when a partition does not begin with an identity record. The operator either connects to the
    right topic or orders a rebuild of the view (`langgraph-kafka projector rebuild`).
    """

    def __init__(self, partition: int, *, expected: str, found: str) -> None:
        super().__init__(
            f"partition {partition} is not the log that was expected: expected {expected}, "
            f"found {found}; connect to the right log, or rebuild the view from this one with "
            f"`langgraph-kafka projector rebuild`"
        )
        self.partition = partition
        self.expected = expected
        self.found = found


class UnsafeTopicError(EventStoreError):
    """The topic has a setting under which acknowledged events would be lost."""

    def __init__(self, topic: str, *, setting: str, value: str, cure: str) -> None:
        super().__init__(f"topic {topic!r} has {setting}={value}, which loses history: {cure}")
        self.topic = topic
        self.setting = setting
        self.value = value
        self.cure = cure


class ValueCorruptedError(EventStoreError):
    """A stored value's bytes are not those that were saved."""

    def __init__(
        self, thread_id: str, *, channel: str, version: object, partition: int, offset: int
    ) -> None:
        super().__init__(
            f"the value of channel {channel!r} (version {version!r}) of thread {thread_id!r} is "
            f"corrupt: the digest of what partition {partition}, offset {offset} stored differs"
        )
        self.thread_id = thread_id
        self.channel = channel
        self.version = version
        self.partition = partition
        self.offset = offset


class EventTooLargeError(EventStoreError):
    """One event does not fit into one record; nothing was appended."""

    def __init__(self, what: str, *, size: int, limit: int) -> None:
        super().__init__(f"{what} takes {size} bytes, and a record may hold {limit}")
        self.what = what
        self.size = size
        self.limit = limit


class CorruptEventError(EventStoreError):
    """A record cannot be read as an event. It is never treated as "not there"."""

    def __init__(self, partition: int, offset: int, *, reason: str) -> None:
        super().__init__(
            f"partition {partition}, offset {offset} holds no readable event: {reason}"
        )
        self.partition = partition
        self.offset = offset
        self.reason = reason


class UnknownEventVersionError(EventStoreError):
    """An event of a type or version newer than this reader; upgrade it."""

    def __init__(self, partition: int, offset: int, *, type_name: str, version: int) -> None:
        super().__init__(
            f"partition {partition}, offset {offset} holds {type_name!r} version {version}, which "
            f"is newer than this reader; upgrade it"
        )
        self.partition = partition
        self.offset = offset
        self.type_name = type_name
        self.version = version


class LogTruncatedError(EventStoreError):
    """The wanted position is gone from the log; what the view lacks cannot be read any more.

    Raised when records were deleted from the front of a partition (retention, DeleteRecords). The
    operator restores the records, or orders a rebuild and accepts the loss.
    """

    def __init__(self, partition: int, *, wanted: int, first: int) -> None:
        super().__init__(
            f"partition {partition} begins at offset {first}, and offset {wanted} is wanted: the "
            f"records between are gone; restore them, or rebuild the view from what is left with "
            f"`langgraph-kafka projector rebuild --accept-loss`"
        )
        self.partition = partition
        self.wanted = wanted
        self.first = first
