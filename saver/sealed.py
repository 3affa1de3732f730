"""Chains of sealed entries: the bytes of a payload of the type `sealed`. Pure, no I/O.

`docs/event-format.md` specifies them. A chain grows by whole entries, so that log and view extend
it without a key. Each entry makes a value: own bytes around a range of the value before it. Of the
*rope* of a value, the ranges of entries' own bytes that it is made of, only those are opened.

Nothing that stands in an entry in clear is trusted: the sealed pieces know where they belong, and
the last entry's first piece has the digest of the whole value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from eventstore.codec import DIGEST_BYTES
from eventstore.events import Payload

from .errors import PieceUnreadableError
from .sealing import CHUNK_BYTES, Cut, PieceIdentity, Sealer, pieces_covering

SEALED: Final = "sealed"
"""The type of a payload that is a chain."""

MAX_SEGMENTS: Final = 64
"""Ranges that a value is made of, at most: opening a small piece with LangGraph's AES takes about
0.15 ms."""

MIN_MERGED: Final = 16
"""How many of the last ranges are stored again as one where there are too many, at least."""

MAX_ENTRIES: Final = 4_096
"""Of a chain: going through so many takes some milliseconds as well."""

ENTRY_COST: Final = 160
"""About what an entry takes in bytes beside its own ones."""

_HEAD = struct.Struct(">16sQQIII")
_U32 = struct.Struct(">I")


class Spot(NamedTuple):
    """Where a payload belongs."""

    thread_id: str
    namespace: str
    slot: str

    def identity(self, event_id: bytes) -> PieceIdentity:
        """Return the identity of what an event stores here."""
        return PieceIdentity(self.thread_id, self.namespace, self.slot, event_id)


class Segment(NamedTuple):
    """A range of an entry's own bytes."""

    entry: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Return how many bytes it has."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Chain:
    """What is kept of a stored chain: enough to append to it, without its bytes."""

    event_id: bytes
    """The event of its last entry."""
    size: int
    """Bytes that are stored."""
    entries: int
    cost: int
    """About what all entries take: their own bytes, and `ENTRY_COST` each."""
    rope: tuple[Segment, ...]
    state: blake2b
    """Of the bytes that are stored; copied, never changed."""

    @property
    def digest(self) -> bytes:
        """Return the digest of the bytes that are stored."""
        return self.state.digest()

    @property
    def weight(self) -> int:
        """Return about how many bytes of memory this takes."""
        return 640 + 160 * len(self.rope)

    @classmethod
    def of(cls, data: bytes) -> Chain:
        """Return what is kept of a chain that was read.

        Raises:
            ValueError: It is none.
        """
        entries = _entries(data)
        cost = sum(entry.own + ENTRY_COST for entry in entries)
        state = blake2b(data, digest_size=DIGEST_BYTES)
        return cls(entries[-1].event_id, len(data), len(entries), cost, _rope(entries), state)


class Link(NamedTuple):
    """An entry to be stored, and the chain that it then ends."""

    data: bytes
    chain: Chain


class _Entry(NamedTuple):
    event_id: bytes
    start: int
    stop: int
    head: int
    own: int
    pieces: tuple[tuple[int, int], ...]
    """Where each sealed piece stands in the chain's bytes."""

    @property
    def size(self) -> int:
        """Return how many bytes its value has."""
        return self.own + self.stop - self.start


def sealed_whole(sealer: Sealer, payload: Payload, spot: Spot, event_id: bytes) -> Link:
    """Return a payload as a chain of one entry.

    Raises:
        Exception: The cipher's own error, unchanged.
    """
    size = len(payload.data)
    data = _packed(sealer, payload, spot.identity(event_id), _Entry(event_id, 0, 0, size, size, ()))
    rope = _joined(0, (), size, size)
    state = blake2b(data, digest_size=DIGEST_BYTES)
    return Link(data, Chain(event_id, len(data), 1, size + ENTRY_COST, rope, state))


def sealed_next(
    sealer: Sealer,
    payload: Payload,
    spot: Spot,
    event_id: bytes,
    *,
    chain: Chain,
    span: tuple[int, int, int],
    limit: int,
) -> Link | None:
    """Return the entry of a value that takes over a range of the chain's value.

    `span` is how many bytes of the value stand in front of the range, where in the chain's value
    that begins, and where it ends. `limit` is for the value's own bytes.

    None where more than half of what the chain holds would not be needed any more, or something is
    above its limit: then the value had better be stored whole.

    Raises:
        Exception: The cipher's own error, unchanged.
    """
    head, start, stop = span
    data = payload.data
    taken = [*_sliced(chain.rope, start, stop)]
    kept = _kept(taken, len(data) - (stop - start))
    stop = start + sum(segment.size for segment in taken[:kept])
    own = data[:head] + data[head + stop - start :]
    cost = chain.cost + len(own) + ENTRY_COST
    is_costly = cost > 2 * (len(data) + ENTRY_COST) or chain.entries >= MAX_ENTRIES
    if is_costly or len(own) > limit:
        return None
    entry = _Entry(event_id, start, stop, head, len(own), ())
    packed = _packed(sealer, payload, spot.identity(event_id), entry, own)
    rope = _joined(chain.entries, taken[:kept], head, len(own))
    state = chain.state.copy()
    state.update(packed)
    size = chain.size + len(packed)
    return Link(packed, Chain(event_id, size, chain.entries + 1, cost, rope, state))


def opened(sealer: Sealer, data: bytes, spot: Spot) -> Payload:
    """Return the payload that a chain ends with.

    Raises:
        PieceMovedError, PiecesMixedError, PieceUnreadableError, UnknownKeyError: It cannot be had.
    """
    try:
        entries = _entries(data)
        rope = _rope(entries)
    except ValueError as error:
        raise PieceUnreadableError(
            spot.thread_id,
            namespace=spot.namespace,
            slot=spot.slot,
            event_id="",
            piece=0,
            cipher_name="",
            reason=f"no chain of sealed entries: {error}",
        ) from error
    last = len(entries) - 1
    identities = {last: spot.identity(entries[last].event_id)}
    cuts = [Cut(identities[last], _piece(data, entries[last], 0), 0, 0)]
    for number, begin, end in rope:
        identity = identities.get(number)
        if identity is None:
            identity = identities[number] = spot.identity(entries[number].event_id)
        for piece, start, stop in pieces_covering(begin, end, chunk=CHUNK_BYTES):
            sealed = _piece(data, entries[number], piece)
            cuts.append(Cut(identity.at(piece), sealed, start, stop))
    return sealer.open_value(cuts)


def event_of(data: bytes) -> bytes:
    """Return the event of a chain's last entry, nothing if it is no chain."""
    at = last = 0
    while at + 4 <= len(data):
        last, at = at, at + 4 + int(_U32.unpack_from(data, at)[0])
    return data[last + 4 : last + 20] if at == len(data) else b""


# Entries and their bytes.


def _packed(
    sealer: Sealer,
    payload: Payload,
    identity: PieceIdentity,
    entry: _Entry,
    own: bytes | None = None,
) -> bytes:
    pieces = sealer.seal_value(payload, identity, own=own)
    parts = [_HEAD.pack(*entry[:5], len(pieces))]
    for piece in pieces:
        parts += (_U32.pack(len(piece)), piece)
    packed = b"".join(parts)
    return _U32.pack(len(packed)) + packed


def _entries(data: bytes) -> list[_Entry]:
    """Return the entries of a chain.

    Raises:
        ValueError: It is none.
    """
    entries: list[_Entry] = []
    at = size = 0
    while at < len(data):
        stop = _after(data, at, len(data))
        entry = _entry(data, at + 4, stop)
        if not entry.start <= entry.stop <= size or entry.head > entry.own:
            raise ValueError(f"entry {len(entries)} takes what is not there")
        size = entry.size
        entries.append(entry)
        at = stop
    if not entries:
        raise ValueError("it is empty")
    return entries


def _entry(data: bytes, at: int, stop: int) -> _Entry:
    if at + _HEAD.size > stop:
        raise ValueError("an entry ends within its numbers")
    event_id, first, last, head, own, count = _HEAD.unpack_from(data, at)
    if count != max(1, -(-own // CHUNK_BYTES)):
        raise ValueError(f"{count} pieces for {own} bytes")
    at += _HEAD.size
    pieces: list[tuple[int, int]] = []
    for _ in range(count):
        begin, at = at + 4, _after(data, at, stop)
        pieces.append((begin, at))
    if at != stop:
        raise ValueError("something stands behind an entry's pieces")
    return _Entry(event_id, first, last, head, own, tuple(pieces))


def _after(data: bytes, at: int, stop: int) -> int:
    """Return where something ends that stands behind its length."""
    if at + 4 > stop:
        raise ValueError("it ends within a length")
    end = at + 4 + int(_U32.unpack_from(data, at)[0])
    if end > stop:
        raise ValueError("it ends too early")
    return end


def _piece(data: bytes, entry: _Entry, number: int) -> bytes:
    start, stop = entry.pieces[number]
    return data[start:stop]


# Ropes.


def _rope(entries: Sequence[_Entry]) -> tuple[Segment, ...]:
    """Return what the last entry's value is made of.

    Of each value that is a single range: it is followed from the last one to the first.
    """
    front: list[Segment] = []
    back: list[Segment] = []
    start, stop = 0, entries[-1].size
    for number in range(len(entries) - 1, -1, -1):
        _, first, last, head, _, _ = entries[number]
        taken = last - first
        front.append(Segment(number, start, min(stop, head)))
        back.append(Segment(number, max(start - taken, head), stop - taken))
        start, stop = max(start - head, 0) + first, min(stop - head, taken) + first
        if start >= stop:
            break
    back.reverse()
    return _filled((*front, *back))


def _joined(number: int, taken: Iterable[Segment], head: int, own: int) -> tuple[Segment, ...]:
    return _filled((Segment(number, 0, head), *taken, Segment(number, head, own)))


def _filled(parts: Iterable[Segment]) -> tuple[Segment, ...]:
    return tuple([part for part in parts if part.start < part.stop])


def _sliced(rope: Iterable[Segment], start: int, stop: int) -> Iterator[Segment]:
    at = 0
    for entry, first, last in rope:
        begin, end = max(start - at, 0), min(stop - at, last - first)
        if begin < end:
            yield Segment(entry, first + begin, first + end)
        at += last - first


def _kept(taken: Sequence[Segment], new: int) -> int:
    """Return how many segments stay as they are, beside the new bytes; the rest is stored again.

    Those that go together with others are at least doubled, so that each byte is stored again only
    a few times, however long the value becomes.
    """
    if len(taken) + 2 <= MAX_SEGMENTS:
        return len(taken)
    kept = len(taken) - MIN_MERGED
    merged = new + sum(segment.size for segment in taken[kept:])
    while kept and taken[kept - 1].size <= merged:
        kept -= 1
        merged += taken[kept].size
    return kept
