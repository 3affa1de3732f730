"""Everything that a view and its projector can raise at run time.

ProjectionError
├── ProjectionLagError       the view did not reach the wanted position in time
├── ThreadParkedError        the thread waits behind an event that cannot be read
├── ValueUnresolvedError     a value refers to something that is not there
├── ProjectionHaltedError    an event type newer than this fold
├── ViewVersionError         the view was made by another version of the fold
├── ViewUnavailableError     the view's server did not answer
├── UnsafeViewError          the view's server has a setting that would lose parts of the view
└── ViewCorruptedError       the view contradicts itself: rebuild it
"""

from __future__ import annotations

from typing import Final

from eventstore.errors import (
    EventStoreError,
    LogIdentityError,
    LogTruncatedError,
    LogUnavailableError,
)


class ProjectionError(EventStoreError):
    """The root of what the projection of the log can raise."""


class ProjectionLagError(ProjectionError, TimeoutError):
    """The view did not reach the position that the read wanted, and helping did not bring it there.

    The read was not answered: this never means "no checkpoint". The operator looks at
    `langgraph-kafka projector status`; the caller may call again.
    """

    retriable = True

    def __init__(
        self, partition: int, *, wanted: int, applied: int, waited: float, rate: float
    ) -> None:
        super().__init__(
            f"the view of partition {partition} has applied offsets below {applied} and the read "
            f"wants {wanted}; after {waited:.1f} s it moves at {rate:.0f} events/s"
        )
        self.partition = partition
        self.wanted = wanted
        self.applied = applied
        self.waited = waited
        self.rate = rate


class ThreadParkedError(ProjectionError):
    """The thread waits behind an event that cannot be read; its later events are not applied."""

    def __init__(self, thread_id: str, *, partition: int, offset: int, reason: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is parked at partition {partition}, offset {offset}: {reason}; "
            f"deleting the thread clears it"
        )
        self.thread_id = thread_id
        self.partition = partition
        self.offset = offset
        self.reason = reason


class ValueUnresolvedError(ProjectionError):
    """A channel's value refers to what another event stored, and that is not in the view."""

    def __init__(
        self, thread_id: str, *, channel: str, partition: int, offset: int, missing: str
    ) -> None:
        super().__init__(
            f"channel {channel!r} of thread {thread_id!r} (event at partition {partition}, offset "
            f"{offset}) cannot be read: {missing}"
        )
        self.thread_id = thread_id
        self.channel = channel
        self.partition = partition
        self.offset = offset
        self.missing = missing


class ProjectionHaltedError(ProjectionError):
    """The log holds an event type or version newer than this program; upgrade it."""

    def __init__(self, partition: int, offset: int, *, type_name: str, version: int) -> None:
        super().__init__(
            f"the projection of partition {partition} stops in front of offset {offset}, which "
            f"holds {type_name!r} version {version}: newer than this program; upgrade it"
        )
        self.partition = partition
        self.offset = offset
        self.type_name = type_name
        self.version = version


class ViewVersionError(ProjectionError):
    """The view was made by another version of the fold than this program's; nothing was read.

    Raised by readers and projectors that meet the view of a newer program, which they leave alone:
    upgrade them. Raised by readers that meet the view of an older one: a projector of this version
    discards it and makes a new one as soon as it runs.
    """

    def __init__(self, view: str, *, partition: int, found: int, expected: int) -> None:
        cure = (
            "it is newer than this program; upgrade it"
            if found > expected
            else "a projector of this version makes it anew, or `langgraph-kafka projector rebuild`"
        )
        super().__init__(
            f"{view}, partition {partition}, was made by fold version {found}, and this program "
            f"has version {expected}: {cure}"
        )
        self.view = view
        self.partition = partition
        self.found = found
        self.expected = expected


class ViewUnavailableError(ProjectionError):
    """The view's server did not answer, or refused; nothing was read. Calling again may succeed."""

    retriable = True

    def __init__(self, view: str, *, reason: str) -> None:
        super().__init__(f"{view} is unavailable: {reason}")
        self.view = view
        self.reason = reason


class UnsafeViewError(ProjectionError):
    """The view's server has a setting under which parts of the view would vanish."""

    def __init__(self, view: str, *, setting: str, value: str, cure: str) -> None:
        super().__init__(f"{view} has {setting}={value}: {cure}")
        self.view = view
        self.setting = setting
        self.value = value
        self.cure = cure


class ViewCorruptedError(ProjectionError):
    """The view contradicts itself; rebuild it with `langgraph-kafka projector rebuild`."""

    def __init__(self, view: str, *, partition: int, reason: str) -> None:
        super().__init__(
            f"{view}, partition {partition}, is corrupt: {reason}; rebuild it with "
            f"`langgraph-kafka projector rebuild`"
        )
        self.view = view
        self.partition = partition
        self.reason = reason


UNREACHABLE: Final = (LogUnavailableError, ViewUnavailableError)
"""What time cures: a projector tries again."""

HALTING: Final = (
    ProjectionHaltedError,
    LogIdentityError,
    LogTruncatedError,
    ViewVersionError,
    ViewCorruptedError,
    UnsafeViewError,
)
"""What stops the projection of one partition until someone does something about it."""
