"""Stored values: whole ones, and versions of a growing one as ranges of what is stored already.

What one channel grows by lies in one append-only *buffer* per scope, namespace and channel, cut
into blocks: full ones never change, the last one, the *tip*, is written anew until it is full. A
version is a few bytes of its own and a list of *pieces*: ranges of the buffer, and of values that
were stored whole. A fork refers to ranges too, so nothing is ever copied. Pure, no I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from eventstore.events import Payload

from .layout import BLOCKS, CHUNKS, VALUES, sized, u64, value_field

BLOCK_BYTES: Final = 4_096
"""Appending writes the tip again, half a block on average; reading 1 MB takes 256 look-ups."""

INLINE_BYTES: Final = 64
"""A longer beginning is put into the buffer: otherwise every later version would repeat it."""

MAX_PIECES: Final = 65_535
"""What the entry's count can hold. Writers store the whole value long before: see `bases`."""

_TIP: Final = b"\xff" * 8

_HEAD = struct.Struct(">H16sH")
_U16 = struct.Struct(">H")
_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_PIECE = struct.Struct(">cQQQ")


class MissingRangeError(Exception):
    """A version refers to what its base does not have. Caught by the fold: it is unresolved."""


class Piece(Struct, frozen=True, gc=False):
    """A range of what is stored."""

    source: bytes
    """`VALUES`: of a value that was stored whole; `BLOCKS`: of the buffer; `CHUNKS`: of a chunk."""
    offset: int
    """Of the event that stored the value or the chunk; 0 for the buffer."""
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Return how many bytes it has."""
        return self.stop - self.start


class StoredVersion(Struct, frozen=True, gc=False):
    """An entry of `VALUES`. Without pieces, `inline` is the whole value.

    Packed: count of pieces (2), digest (16), type (2 bytes length, text), `inline`; with pieces:
    namespace (4 bytes length, text), length of `inline` (2), `inline`, and per piece: source (1),
    offset (8), start (8), stop (8).
    """

    type: str
    digest: bytes
    inline: bytes
    """The first bytes."""
    namespace: str = ""
    """Whose buffer the pieces lie in."""
    pieces: tuple[Piece, ...] = ()

    @property
    def size(self) -> int:
        """Return how many bytes the value has."""
        return len(self.inline) + sum(piece.size for piece in self.pieces)

    def pack(self) -> bytes:
        """Return the entry's bytes."""
        kind = self.type.encode()
        parts = [_HEAD.pack(len(self.pieces), self.digest, len(kind)), kind]
        if self.pieces:
            parts += [sized(self.namespace), _U16.pack(len(self.inline))]
        parts.append(self.inline)
        parts += [_PIECE.pack(p.source, p.offset, p.start, p.stop) for p in self.pieces]
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> StoredVersion:
        """Return the version of `pack`'s bytes."""
        count, digest, size = _HEAD.unpack_from(data)
        at = _HEAD.size + size
        kind = data[_HEAD.size : at].decode()
        if not count:
            return cls(kind, digest, data[at:])
        start = at + 4
        end: int = start + _U32.unpack_from(data, at)[0]
        at = end + 2
        last: int = at + _U16.unpack_from(data, end)[0]
        pieces = tuple([Piece(*fields) for fields in _PIECE.iter_unpack(data[last:])])
        return cls(kind, digest, data[at:last], data[start:end].decode(), pieces)


def pack_value(payload: Payload, digest: bytes) -> bytes:
    """Return the entry of a value that is stored whole."""
    kind = payload.type.encode()
    return b"".join((_HEAD.pack(0, digest, len(kind)), kind, payload.data))


def unpack_value(data: bytes) -> tuple[Payload, bytes]:
    """Return (payload, digest) of a whole value, or of one that `assembled` made whole."""
    _, digest, size = _HEAD.unpack_from(data)
    end = _HEAD.size + size
    return Payload(data[_HEAD.size : end].decode(), data[end:]), digest


def count_of_pieces(data: bytes) -> int:
    """Return how many pieces an entry has or, once it is assembled, had."""
    count: int = _U16.unpack_from(data)[0]
    return count


def assembled(data: bytes, contents: Iterable[bytes]) -> bytes:
    """Return an entry with its pieces' contents in their place; its count of pieces stays."""
    version = StoredVersion.unpack(data)
    kind = version.type.encode()
    head = _HEAD.pack(len(version.pieces), version.digest, len(kind))
    return b"".join((head, kind, version.inline, *contents))


# Where the parts of pieces lie. A cell of `VALUES` holds a whole value behind its head.


def tip_field(namespace: str, channel: str) -> bytes:
    """Return the field of `BLOCKS` that holds a buffer's last block, and how long the buffer is."""
    return sized(namespace) + sized(channel) + _TIP


def is_tip(field: bytes) -> bool:
    """Tell whether a field of `BLOCKS` is that of a tip."""
    return field.endswith(_TIP)


def block_field(namespace: str, channel: str, number: int) -> bytes:
    """Return the field of `BLOCKS` that holds a full block."""
    return sized(namespace) + sized(channel) + u64(number)


def fields_of(namespace: str, channel: str, piece: Piece) -> list[tuple[bytes, bytes]]:
    """Return (letter, field) of each cell that reading a piece takes, the buffer's tip last."""
    if piece.source == VALUES:
        return [(VALUES, value_field(piece.offset, channel))]
    if piece.source == CHUNKS:
        return [(CHUNKS, u64(piece.offset))]
    numbers = range(piece.start // BLOCK_BYTES, (piece.stop - 1) // BLOCK_BYTES + 1)
    fields = [(BLOCKS, block_field(namespace, channel, number)) for number in numbers]
    return [*fields, (BLOCKS, tip_field(namespace, channel))]


def content_of(piece: Piece, cells: Sequence[bytes | None]) -> bytes | None:
    """Return a piece's bytes, given the cells of `fields_of`; None when some of it is missing."""
    if piece.source == VALUES:
        data = cells[0]
        if data is None or count_of_pieces(data):
            return None
        payload, _ = unpack_value(data)
        content = payload.data[piece.start : piece.stop]
    elif piece.source == CHUNKS:
        content = (cells[0] or b"")[piece.start : piece.stop]
    else:
        *blocks, tip = cells
        first = piece.start // BLOCK_BYTES
        buffer = Buffer.unpack(tip)
        last = buffer.length // BLOCK_BYTES
        parts = [
            buffer.tip if block is None and number == last else block
            for number, block in enumerate(blocks, first)
        ]
        joined = b"".join([part for part in parts if part is not None])
        start = piece.start - first * BLOCK_BYTES
        content = joined[start : start + piece.size]
    return content if len(content) == piece.size else None


class Buffer:
    """A buffer's length and tip, and the blocks that become full meanwhile."""

    def __init__(self, length: int = 0, tip: bytes = b"") -> None:
        self.length = length
        self.tip = tip
        self.full: dict[int, bytes] = {}
        """Number → block, of those that were filled since this was unpacked."""

    @classmethod
    def unpack(cls, data: bytes | None) -> Buffer:
        """Return the buffer of a tip's cell; an empty one without a cell."""
        return cls() if data is None else cls(_U64.unpack_from(data)[0], data[8:])

    def pack(self) -> bytes:
        """Return the tip's cell: the buffer's length (8), the bytes behind the last full block."""
        return _U64.pack(self.length) + self.tip

    def append(self, data: bytes) -> Piece:
        """Append bytes; return where they stand."""
        piece = Piece(BLOCKS, 0, self.length, self.length + len(data))
        number = self.length // BLOCK_BYTES
        joined = self.tip + data
        full = len(joined) // BLOCK_BYTES
        for at in range(full):
            self.full[number + at] = joined[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES]
        self.tip = joined[full * BLOCK_BYTES :]
        self.length = piece.stop
        return piece


def extended(
    base: StoredVersion,
    base_offset: int,
    *,
    own: StoredVersion,
    span: tuple[int, int],
    tail: bytes,
    buffer: Buffer,
) -> StoredVersion:
    """Return a version that is `own.inline`, then the base's bytes in `span`, then the tail.

    `own` has the type, the digest, the head and the namespace. What is new goes into the buffer.

    Raises:
        MissingRangeError: The base is shorter or lies in another buffer, or the version would have
            too many pieces.
    """
    start, stop = span
    if base.pieces and base.namespace != own.namespace:
        raise MissingRangeError(f"bytes of a value in the namespace {base.namespace!r}")
    if not 0 <= start <= stop <= base.size:
        raise MissingRangeError(f"bytes {start} to {stop} of a value that has {base.size}")
    inline = own.inline + (base.inline[start:stop] if base.pieces else b"")
    pieces = [*_clipped(_pieces_of(base, base_offset), start, stop)]
    if len(inline) > INLINE_BYTES:
        pieces.insert(0, buffer.append(inline))
        inline = b""
    if tail:
        pieces.append(buffer.append(tail))
    merged = _merged(pieces)
    if len(merged) > MAX_PIECES:
        raise MissingRangeError(f"a version of {len(merged)} pieces")
    return StoredVersion(own.type, own.digest, inline, own.namespace, tuple(merged))


def _pieces_of(base: StoredVersion, offset: int) -> Iterable[tuple[int, Piece]]:
    """Yield each piece of a version with the place where it begins in the value."""
    if not base.pieces:
        yield 0, Piece(VALUES, offset, 0, len(base.inline))
        return
    at = len(base.inline)
    for piece in base.pieces:
        yield at, piece
        at += piece.size


def _clipped(pieces: Iterable[tuple[int, Piece]], start: int, stop: int) -> Iterable[Piece]:
    for at, piece in pieces:
        first, last = max(start - at, 0), min(stop - at, piece.size)
        if first < last:
            yield Piece(piece.source, piece.offset, piece.start + first, piece.start + last)


def _merged(pieces: Iterable[Piece]) -> list[Piece]:
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and (last.source, last.offset, last.stop) == (
            piece.source,
            piece.offset,
            piece.start,
        ):
            found[-1] = Piece(last.source, last.offset, last.start, piece.stop)
        else:
            found.append(piece)
    return found


Lookup = Callable[[Sequence[tuple[bytes, bytes]]], Sequence[bytes | None]]
"""(letter, field) pairs of one life of a thread → their cells."""


def whole(data: bytes, channel: str, look_up: Lookup) -> bytes | None:
    """Return an entry as `assembled` makes it; None when a part of it is missing."""
    version = StoredVersion.unpack(data)
    if not version.pieces:
        return data
    fields = [fields_of(version.namespace, channel, piece) for piece in version.pieces]
    cells = iter(look_up([field for each in fields for field in each]))
    contents: list[bytes] = []
    for piece, each in zip(version.pieces, fields, strict=True):
        content = content_of(piece, [next(cells) for _ in each])
        if content is None:
            return None
        contents.append(content)
    return assembled(data, contents)
