"""Everything that only the saver raises at run time.

SaverError
├── InvalidConfigError     a key of `configurable`, or an argument, that cannot be used
├── ThreadDeletedError     the put continues a deleted thread; nothing was appended
├── CopyRefusedError       the target of a copy holds checkpoints already
└── SaverClosedError       the saver was used after it had been closed
"""

from __future__ import annotations

from eventstore.errors import EventStoreError


class SaverError(EventStoreError):
    """The root of what the saver itself raises."""


class InvalidConfigError(SaverError, ValueError):
    """Something in the call cannot be used as it is; nothing was read or appended."""

    def __init__(self, key: str, *, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class ThreadDeletedError(SaverError):
    """The put continues a checkpoint of a thread that was deleted; nothing was appended.

    The caller starts the thread anew, without a parent, if it wants it back.
    """

    def __init__(self, thread_id: str, *, deleted_at: int, parent_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} was deleted (at offset {deleted_at}), and checkpoint "
            f"{parent_id!r} with it: nothing was appended"
        )
        self.thread_id = thread_id
        self.deleted_at = deleted_at
        self.parent_id = parent_id


class CopyRefusedError(SaverError, ValueError):
    """The target of a copy holds checkpoints already; the copy is not visible."""

    def __init__(self, source_thread_id: str, *, target_thread_id: str) -> None:
        super().__init__(
            f"thread {source_thread_id!r} cannot be copied to {target_thread_id!r}, which holds "
            f"checkpoints already: copy to a new thread, or delete the target first"
        )
        self.source_thread_id = source_thread_id
        self.target_thread_id = target_thread_id


class SaverClosedError(SaverError):
    """The saver was used after it had been closed, or closed while the call was under way.

    In the latter case what the call was to append may be saved or not.
    """

    def __init__(self) -> None:
        super().__init__("the saver is closed")
