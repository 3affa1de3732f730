"""Sealing: encrypted pieces of values that know where they belong. Pure, no I/O.

A serialized value is cut into pieces; each is compressed, joined with its identity, and encrypted.
LangGraph's ciphers take no associated data, so the identity stands inside the plaintext.

A *sealed piece*; numbers are unsigned and big-endian:

    1 byte    version: 1
    1 byte    length of the cipher's name
    n bytes   the cipher's name, UTF-8, as the cipher returned it; a key's id is a part of it
    the rest  the ciphertext

Its *plaintext*:

    32 bytes  BLAKE2b with 32 bytes of output, no key, over the canonical identity
    1 byte    flags: 1 the data is a Zstandard frame, 2 a head follows; all others are 0
    head      only where flagged, in a value's piece 0, and of the whole value:
                16 bytes  BLAKE2b with 16 bytes of output, no key, over its bytes
                2 bytes   length of its type
                n bytes   its type, UTF-8: the serializer's name for it
    the rest  the data, or the one frame around it, which tells its size

The *canonical identity*: a byte 1 (the version), then thread id, namespace, slot (all UTF-8) and
event id, each behind its length in 4 bytes, then the piece's number in 8 bytes.

An event stores a value's *own* bytes, cut every `chunk` bytes into pieces 0, 1, …; at least one.
They are all of the value, or what it does not take over from pieces of earlier events.

What this gives is as strong as the cipher. Behind an authenticating one (AES in EAX mode) nobody
without the key changes a piece, moves it elsewhere, or mixes pieces of several values, unnoticed.
Behind one that decrypts anything (XOR), the same checks catch accidents: a piece moved or damaged
is refused, one forged on purpose is not. Never bound: what stands beside the pieces in clear, and
which events there are. Never hidden: the length of what a piece became when compressed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import Final, NamedTuple, TypeGuard

import zstandard
from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from eventstore.codec import COMPRESS_FROM_BYTES, DIGEST_BYTES, digest_of
from eventstore.events import Payload

from .errors import (
    PieceMovedError,
    PiecesMixedError,
    PieceUnreadableError,
    SealedPieceError,
    UnknownKeyError,
)

CHUNK_BYTES: Final = 1 << 18
"""Where values are cut by default: a sealed piece fits into one record, beside others."""

MAX_PIECE_BYTES: Final = 1 << 26
"""What one piece may hold, and all that is decompressed for one."""

MAX_CIPHER_NAME_BYTES: Final = 255
MAX_TYPE_BYTES: Final = 65_535

_VERSION: Final = 1
_IDENTITY_BYTES: Final = 32
_COMPRESSED: Final = 1
_HAS_HEAD: Final = 2


@dataclass(frozen=True, slots=True)
class PieceIdentity:
    """Where a piece belongs, and nowhere else."""

    thread_id: str
    namespace: str
    slot: str
    """Of a body, a channel, metadata or a write; `serde` names them."""
    event_id: bytes
    """The event that stores it."""
    piece: int = 0

    def at(self, piece: int) -> PieceIdentity:
        """Return the identity of another piece of the same value."""
        return replace(self, piece=piece)

    def digest(self) -> bytes:
        """Return the digest of the canonical identity."""
        texts = (self.thread_id.encode(), self.namespace.encode(), self.slot.encode())
        parts = [bytes([_VERSION])]
        for part in (*texts, self.event_id):
            parts += (len(part).to_bytes(4), part)
        parts.append(self.piece.to_bytes(8))
        return blake2b(b"".join(parts), digest_size=_IDENTITY_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Cut:
    """Some of a piece's data, from `start` to before `stop`; all of it by default."""

    identity: PieceIdentity
    sealed: bytes
    start: int = 0
    stop: int | None = None


class _Head(NamedTuple):
    digest: bytes
    type: str


class _Opened(NamedTuple):
    data: bytes
    head: _Head | None
    cipher_name: str


@lru_cache(maxsize=64)
def _is_encrypting(kind: type) -> bool:
    return issubclass(kind, EncryptedSerializer)


def encrypts(serde: SerializerProtocol) -> TypeGuard[EncryptedSerializer]:
    """Tell whether a serializer encrypts. Asked at every call, and `isinstance` is slow here."""
    return _is_encrypting(type(serde))


class Sealer:
    """Seals and opens pieces. Safe from any OS thread if the cipher is, as LangGraph's AES is."""

    def __init__(self, cipher: CipherProtocol) -> None:
        self._cipher = cipher

    @classmethod
    def of(cls, serde: SerializerProtocol) -> Sealer | None:
        """Return the sealer of an encrypting serializer, None for any other.

        What is sealed is made by the serializer inside it, `serde.serde`.
        """
        return cls(serde.cipher) if encrypts(serde) else None

    def seal(self, data: bytes, identity: PieceIdentity) -> bytes:
        """Return one piece without a head, sealed.

        Raises:
            ValueError: The data is too large for a piece, or the cipher's name is too long.
            Exception: The cipher's own error, unchanged.
        """
        return self._seal(data, identity, b"")

    def open(self, sealed: bytes, identity: PieceIdentity) -> bytes:
        """Return the data of one piece.

        Raises:
            PieceMovedError: It was sealed for another place.
            PieceUnreadableError: The cipher refused it, or it is no piece.
            UnknownKeyError: It was sealed with a key that a `RotatingCipher` does not have.
        """
        return self._open(sealed, identity).data

    def seal_value(
        self,
        whole: Payload,
        identity: PieceIdentity,
        *,
        own: bytes | None = None,
        chunk: int = CHUNK_BYTES,
    ) -> list[bytes]:
        """Return the sealed pieces of what an event stores of a value.

        Args:
            whole: The value; its type and its digest stand inside piece 0.
            identity: Where it belongs; the pieces are numbered from 0.
            own: What the event itself stores, where it takes over the rest; else all.
            chunk: Bytes in each piece but the last.

        Raises:
            ValueError: `chunk` or the value's type is out of bounds; further as `seal`.
        """
        if not 0 < chunk <= MAX_PIECE_BYTES:
            raise ValueError(f"pieces of {chunk} bytes: expected 1 to {MAX_PIECE_BYTES}")
        kind = whole.type.encode()
        if len(kind) > MAX_TYPE_BYTES:
            raise ValueError(f"a type of {len(kind)} bytes, the limit is {MAX_TYPE_BYTES}")
        data = memoryview(whole.data if own is None else own)
        head = b"".join((digest_of(whole.data), len(kind).to_bytes(2), kind))
        pieces = [self._seal(data[:chunk], identity.at(0), head)]
        for number, start in enumerate(range(chunk, len(data), chunk), 1):
            pieces.append(self._seal(data[start : start + chunk], identity.at(number), b""))
        return pieces

    def open_value(self, cuts: Sequence[Cut]) -> Payload:
        """Return the value that the cuts make up, checked against the digest in its head.

        The first cut is of piece 0 of the event that stored this value, even where it takes no data
        of it. A piece that is cut more than once is opened once.

        Raises:
            PiecesMixedError: Every piece is in its place, and they are not this value's.
            PieceMovedError, PieceUnreadableError, UnknownKeyError: As `open`, of any piece.
        """
        opened: dict[PieceIdentity, _Opened] = {}
        parts: list[bytes] = []
        for cut in cuts:
            piece = opened.get(cut.identity)
            if piece is None:
                piece = opened[cut.identity] = self._open(cut.sealed, cut.identity)
            parts.append(piece.data[cut.start : cut.stop])
        first = cuts[0].identity
        head = opened[first].head
        if head is None:
            raise _unreadable(first, opened[first].cipher_name, "a value's piece 0 has a head")
        data = b"".join(parts)
        if not compare_digest(digest_of(data), head.digest):
            raise _error(
                PiecesMixedError,
                first,
                opened[first].cipher_name,
                f"these {len(data)} bytes are not the value that was sealed",
            )
        return Payload(head.type, data)

    def _seal(self, data: bytes | memoryview, identity: PieceIdentity, head: bytes) -> bytes:
        if len(data) > MAX_PIECE_BYTES:
            raise ValueError(f"a piece of {len(data)} bytes, the limit is {MAX_PIECE_BYTES}")
        flags = _HAS_HEAD if head else 0
        if len(data) >= COMPRESS_FROM_BYTES:
            packed = _zstd.compressor.compress(data)
            if len(packed) < len(data):
                data = packed
                flags |= _COMPRESSED
        plaintext = b"".join((identity.digest(), bytes([flags]), head, data))
        cipher_name, ciphertext = self._cipher.encrypt(plaintext)
        name = cipher_name.encode()
        if len(name) > MAX_CIPHER_NAME_BYTES:
            raise ValueError(
                f"a cipher's name of {len(name)} bytes, the limit is {MAX_CIPHER_NAME_BYTES}"
            )
        return b"".join((bytes([_VERSION, len(name)]), name, ciphertext))

    def _open(self, sealed: bytes, identity: PieceIdentity) -> _Opened:
        cipher_name, ciphertext = _split(sealed, identity)
        try:
            plaintext = self._cipher.decrypt(cipher_name, ciphertext)
        except UnknownKeyError as error:
            place = f"{identity.slot!r} of thread {identity.thread_id!r}"
            raise UnknownKeyError(error.key_id, known=error.known, place=place) from error
        except Exception as error:  # whatever the user's cipher raises
            raise _unreadable(
                identity, cipher_name, f"the cipher refused it ({type(error).__name__})"
            ) from error
        if len(plaintext) <= _IDENTITY_BYTES:
            raise _unreadable(identity, cipher_name, f"{len(plaintext)} bytes of plaintext")
        if not compare_digest(plaintext[:_IDENTITY_BYTES], identity.digest()):
            raise _error(PieceMovedError, identity, cipher_name, "it was sealed for another place")
        try:
            head, data = _unpack(plaintext)
        except (ValueError, zstandard.ZstdError) as error:
            raise _unreadable(identity, cipher_name, f"bad plaintext: {error}") from error
        return _Opened(data, head, cipher_name)


def pieces_covering(start: int, stop: int, *, chunk: int) -> list[tuple[int, int, int]]:
    """Return (piece, start, stop) of the cuts that together are `[start, stop)` of own bytes."""
    return [
        (piece, max(start - piece * chunk, 0), min(stop - piece * chunk, chunk))
        for piece in range(start // chunk, -(-stop // chunk))
        if start < stop
    ]


class _Zstd(threading.local):
    """Contexts per OS thread: zstd works without the interpreter's lock, one caller at a time."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def _split(sealed: bytes, identity: PieceIdentity) -> tuple[str, bytes]:
    """Return the cipher's name and the ciphertext."""
    if len(sealed) < 2:  # noqa: PLR2004 - the version and a length
        raise _unreadable(identity, "", f"{len(sealed)} bytes are no sealed piece")
    if sealed[0] != _VERSION:
        raise _unreadable(identity, "", f"version {sealed[0]} of sealed pieces is unknown")
    end = 2 + sealed[1]
    try:
        cipher_name = sealed[2:end].decode()
    except UnicodeDecodeError as error:
        raise _unreadable(identity, "", "the cipher's name is not UTF-8") from error
    if len(sealed) < end:
        raise _unreadable(identity, "", "it ends within the cipher's name")
    return cipher_name, sealed[end:]


def _unpack(plaintext: bytes) -> tuple[_Head | None, bytes]:
    """Return the head and the data behind the identity.

    Raises:
        ValueError, zstandard.ZstdError: It is not what `_seal` makes; the message holds no data.
    """
    flags = plaintext[_IDENTITY_BYTES]
    if flags > _COMPRESSED | _HAS_HEAD:
        raise ValueError(f"unknown flags {flags}")
    start = _IDENTITY_BYTES + 1
    head = None
    if flags & _HAS_HEAD:
        head, start = _head_at(plaintext, start)
    data = plaintext[start:]
    if flags & _COMPRESSED:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= MAX_PIECE_BYTES:
            raise ValueError(f"the frame claims {size} bytes")
        data = _zstd.decompressor.decompress(data, allow_extra_data=False)
    return head, data


def _head_at(plaintext: bytes, start: int) -> tuple[_Head, int]:
    size_at = start + DIGEST_BYTES
    type_at = size_at + 2
    end = type_at + int.from_bytes(plaintext[size_at:type_at])
    if len(plaintext) < end:
        raise ValueError("it ends within the head")
    return _Head(plaintext[start:size_at], plaintext[type_at:end].decode()), end


def _error(
    kind: type[SealedPieceError], identity: PieceIdentity, cipher_name: str, reason: str
) -> SealedPieceError:
    return kind(
        identity.thread_id,
        namespace=identity.namespace,
        slot=identity.slot,
        event_id=identity.event_id.hex(),
        piece=identity.piece,
        cipher_name=cipher_name,
        reason=reason,
    )


def _unreadable(identity: PieceIdentity, cipher_name: str, reason: str) -> SealedPieceError:
    return _error(PieceUnreadableError, identity, cipher_name, reason)
