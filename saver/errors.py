"""Everything that only the saver raises at run time.

SaverError
├── InvalidConfigError     a key of `configurable`, or an argument, that cannot be used
├── ThreadDeletedError     the put continues a deleted thread; nothing was appended
├── CopyRefusedError       the target of a copy holds checkpoints already
├── SealedPieceError       an encrypted piece of a value is not what it has to be
│   ├── PieceMovedError        sealed for another place
│   ├── PiecesMixedError       pieces of the right places, of another value
│   └── PieceUnreadableError   refused by the cipher, or no piece at all
├── UnknownKeyError        encrypted with a key that this process was not given
├── PlainValueError        stored in plain, where the saver's serializer encrypts
├── CipherMissingError     stored encrypted, where the saver's serializer does not
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


class SealedPieceError(SaverError):
    """An encrypted piece of a value is not what it has to be; nothing of it is shown.

    The key is wrong, or log or view were damaged or changed. The operator compares the keys of the
    processes first, then rebuilds the view; a piece that is bad in the log as well is lost.
    """

    def __init__(
        self,
        thread_id: str,
        *,
        namespace: str,
        slot: str,
        event_id: str,
        piece: int,
        cipher_name: str,
        reason: str,
    ) -> None:
        super().__init__(
            f"{slot!r} of thread {thread_id!r}, namespace {namespace!r}, cannot be opened (event "
            f"{event_id}, piece {piece}, cipher {cipher_name!r}): {reason}"
        )
        self.thread_id = thread_id
        self.namespace = namespace
        self.slot = slot
        self.event_id = event_id
        self.piece = piece
        self.cipher_name = cipher_name
        """With the key's id in it; empty where not even that can be read."""
        self.reason = reason


class PieceMovedError(SealedPieceError):
    """A piece was sealed for another place than the one where it was found."""


class PiecesMixedError(SealedPieceError):
    """Every piece is in its place, and together they are not the value that was sealed."""


class PieceUnreadableError(SealedPieceError):
    """The cipher refused a piece, or it is no sealed piece at all."""


class UnknownKeyError(SaverError):
    """Something was encrypted with a key that this process was not given.

    The operator gives it that key, as an older one. A key that was destroyed on purpose ends here.
    """

    def __init__(self, key_id: str, *, known: tuple[str, ...], place: str | None = None) -> None:
        super().__init__(
            f"{place or 'this'} was encrypted with the key of id {key_id!r}; known are "
            f"{', '.join(map(repr, known))}"
        )
        self.key_id = key_id
        self.known = known
        self.place = place
        """What was encrypted, where that is known."""


class PlainValueError(SaverError):
    """Something is stored in plain, and the saver's serializer encrypts; it is not shown.

    Whoever can write into log or view may have put it there. `reads_plain=True` reads threads that
    began without encryption; copying such a thread then encrypts it.
    """

    def __init__(self, thread_id: str, namespace: str, slot: str) -> None:
        super().__init__(
            f"{slot!r} of thread {thread_id!r}, namespace {namespace!r}, is stored in plain, and "
            f"this saver encrypts: open it with reads_plain=True to read it nevertheless"
        )
        self.thread_id = thread_id
        self.namespace = namespace
        self.slot = slot


class CipherMissingError(SaverError):
    """Something is stored encrypted, and the saver's serializer has no cipher.

    The operator gives this process the `EncryptedSerializer` that others use.
    """

    def __init__(self, thread_id: str, namespace: str, slot: str) -> None:
        super().__init__(
            f"{slot!r} of thread {thread_id!r}, namespace {namespace!r}, is encrypted, and this "
            f"saver was given no EncryptedSerializer"
        )
        self.thread_id = thread_id
        self.namespace = namespace
        self.slot = slot


class SaverClosedError(SaverError):
    """The saver was used after it had been closed, or closed while the call was under way.

    In the latter case what the call was to append may be saved or not.
    """

    def __init__(self) -> None:
        super().__init__("the saver is closed")
