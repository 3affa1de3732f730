"""Serde: objects ↔ payloads by the user's serializer, sealed where that encrypts. Pure, no I/O.

What an `EncryptedSerializer` is given is serialized by the serializer inside it, and sealed here
with the place where it belongs. What it wrote itself, elsewhere or before, it still reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgpack
from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol

from eventstore.codec import DIGEST_BYTES
from eventstore.events import Payload, Version

from .errors import (
    CipherMissingError,
    InvalidConfigError,
    PieceUnreadableError,
    PlainValueError,
    UnknownKeyError,
)
from .place import MAX_NAME_BYTES, Place
from .sealed import SEALED, Spot, opened, sealed_whole
from .sealing import Sealer, encrypts

ALWAYS_READABLE: Final = frozenset({"run_id"})
"""Metadata that is never sealed: the checkpoints of a run are found by it."""

_BY_LANGGRAPH: Final = "+"
"""Stands between type and cipher in what `EncryptedSerializer` itself wrote."""


class Serde:
    """A serializer, and what is sealed with it. Made for each call, as clones have other ones.

    Args:
        serializer: The user's.
        reads_plain: Whether one that encrypts also reads what is not encrypted.
        sealed_metadata: Whether all metadata is sealed, or only what the serializer has to make.
        readable_metadata: What stays readable where all metadata is sealed.
    """

    def __init__(
        self,
        serializer: SerializerProtocol,
        *,
        reads_plain: bool = False,
        sealed_metadata: bool = False,
        readable_metadata: frozenset[str] = frozenset(),
    ) -> None:
        self.sealer = Sealer.of(serializer)
        if sealed_metadata and self.sealer is None:
            raise InvalidConfigError(
                "seal_metadata", reason="nothing can be sealed without an EncryptedSerializer"
            )
        self._inner = serializer
        self._cipher: CipherProtocol | None = None
        if encrypts(serializer):
            self._inner, self._cipher = serializer.serde, serializer.cipher
        self._reads_plain = reads_plain
        self._readable = readable_metadata | ALWAYS_READABLE if sealed_metadata else None

    def stays_readable(self, key: str) -> bool:
        """Tell whether a metadata value of a plain type is stored as it is."""
        return self._readable is None or key in self._readable

    def dumped(self, value: Any) -> Payload:
        """Return an object's payload, not sealed yet.

        Raises:
            Exception: The serializer's own error, unchanged.
        """
        kind, data = self._inner.dumps_typed(value)
        if len(kind) > MAX_NAME_BYTES:
            raise InvalidConfigError("serde", reason=f"a type name of {len(kind)} characters")
        if kind == SEALED:
            raise InvalidConfigError("serde", reason=f"the type name {kind!r} is taken")
        # Serializers may hand out bytearrays and memoryviews that live on.
        return Payload(kind, data if type(data) is bytes else bytes(data))

    def sealed(self, payload: Payload, spot: Spot, event_id: bytes) -> Payload:
        """Return what is stored of a payload that does not grow."""
        if self.sealer is None:
            return payload
        return Payload(SEALED, sealed_whole(self.sealer, payload, spot, event_id).data)

    def opened(self, payload: Payload, spot: Spot) -> Payload:
        """Return the payload that the inner serializer made, wherever it was stored.

        Raises:
            PlainValueError: It is not encrypted, and has to be.
            CipherMissingError: It is, and the serializer has no cipher.
            PieceMovedError, PiecesMixedError, PieceUnreadableError, UnknownKeyError: It cannot be
                opened.
        """
        if payload.type == SEALED:
            if self.sealer is None:
                raise CipherMissingError(*spot)
            return opened(self.sealer, payload.data, spot)
        if self._cipher is None:
            return anywhere(payload)
        kind, separator, cipher_name = payload.type.partition(_BY_LANGGRAPH)
        if separator:
            return Payload(kind, _decrypted(self._cipher, cipher_name, payload.data, spot))
        if not self._reads_plain:
            raise PlainValueError(*spot)
        return anywhere(payload)

    def loaded(self, payload: Payload, spot: Spot) -> Any:
        """Return the object of a payload as it is stored; raises what `opened` does."""
        return self.restored(self.opened(payload, spot))

    def restored(self, payload: Payload) -> Any:
        """Return the object of a payload that is open."""
        return self._inner.loads_typed((payload.type, payload.data))


def anywhere(payload: Payload) -> Payload:
    """Return a payload without the chunks that it came from: another event has its own."""
    return payload if type(payload) is Payload else Payload(payload.type, payload.data)


def _decrypted(cipher: CipherProtocol, name: str, data: bytes, spot: Spot) -> bytes:
    try:
        return cipher.decrypt(name, data)
    except UnknownKeyError as error:
        place = f"{spot.slot!r} of thread {spot.thread_id!r}"
        raise UnknownKeyError(error.key_id, known=error.known, place=place) from error
    except Exception as error:  # whatever the user's cipher raises
        raise PieceUnreadableError(
            spot.thread_id,
            namespace=spot.namespace,
            slot=spot.slot,
            event_id="",
            piece=0,
            cipher_name=name,
            reason=f"the cipher refused it ({type(error).__name__})",
        ) from error


# The places where payloads belong.


def channel_spot(thread_id: str, namespace: str, channel: str) -> Spot:
    """Return where a channel's values belong."""
    return Spot(thread_id, namespace, f"channel:{channel}")


def write_spot(place: Place, task_id: str, index: int, channel: str) -> Spot:
    """Return where a task's write belongs; the place is that of any checkpoint beside it."""
    slot = f"write:{_escaped(task_id)}:{index}:{channel}"
    return Spot(place.thread_id, place.namespace, slot)


def metadata_spot(place: Place, key: str) -> Spot:
    """Return where a metadata value of a checkpoint belongs."""
    slot = f"metadata:{_escaped(place.checkpoint_id or '')}:{key}"
    return Spot(place.thread_id, place.namespace, slot)


def body_spot(
    place: Place,
    parent_id: str | None,
    versions: Mapping[str, Version],
    sources: Mapping[str, bytes],
) -> Spot:
    """Return where a checkpoint's body belongs: beside its parent's id and its own values.

    `sources` names the event that sealed a channel's value, if that is sealed. So no checkpoint
    comes with the values of another one.
    """
    listed = [(name, version, sources.get(name, b"")) for name, version in sorted(versions.items())]
    packed: bytes = msgpack.packb((parent_id, listed))
    beside = blake2b(packed, digest_size=DIGEST_BYTES).hexdigest()
    slot = f"body:{_escaped(place.checkpoint_id or '')}:{beside}"
    return Spot(place.thread_id, place.namespace, slot)


def _escaped(text: str) -> str:
    """Return an id without the character that ends it in a slot."""
    return text.replace("%", "%25").replace(":", "%3A")
