"""ValueIndex: what is kept of a value in order to find its bytes again in its successor. Pure.

Blocks are compared by the first 16 bytes of their SHA-256. That is as hard to forge as the
BLAKE2b-128 that every value carries, and needs no key. With the instructions that usual processors
have for it, it is 1.3 times (600 bytes) to 1.7 times (4 KB) as fast as BLAKE2b, the next best.
Python's `hash` would be faster still, but has 64 bits, and a seed that users may fix.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, NamedTuple, Protocol, Self

from .tokens import BLOCK, FINE, Scan, Shape, shape_at

UNKNOWN: Final = (1 << 32) - 1
"""Stands for the number of items before a place that is inside one."""

MIN_SIZE: Final = 128
"""Smaller values, and ranges, save too little: the event and the place take about 64 bytes."""

MAX_SIZE: Final = UNKNOWN
"""Larger values are not indexed: a position has four bytes."""

SAMPLE: Final = 24
"""Bytes of each sample."""
_SAMPLES: Final = 16

_DIGEST: Final = 16
_SCANNED: Final = 512
"""Smaller values are two blocks, header and body, without a look inside; and have no samples."""

_BODY_SIZE: Final = 1 << 14
"""Of smaller values the blocks are hashed as fast."""

_MAX_BLOCKS: Final = 2048
_EDGE: Final = 1 << 16
"""With more blocks than that, those outside of so many last bytes are joined."""


class Hasher(Protocol):
    """What `hashlib` returns."""

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""
        ...

    def digest(self) -> bytes:
        """Return the digest of all so far."""
        ...

    def copy(self) -> Self:
        """Return one that goes on from here by itself."""
        ...


@dataclass(frozen=True, slots=True)
class ValueIndex:
    """A value's blocks and some samples of it."""

    type: str
    size: int
    shape: Shape | None
    """The value itself, if it is a list or a map in msgpack."""
    ends: array[int]
    """Where each block ends, the first one beginning at 0."""
    items: array[int]
    """The top-level items before each end, `UNKNOWN` where that is inside one."""
    digests: bytes
    """Of each block."""
    samples: bytes
    """Short pieces of the value, evenly spread."""
    body: Hasher | None = None
    """SHA-256 from `body_block` on, of a value that is long enough: whether all of it is at the
    front of its successor is asked at once, and not block by block. Copied, never changed."""

    @property
    def body_block(self) -> int:
        """Return the first block behind the header of a list or a map; the first one of others."""
        return 1 if self.shape is not None and len(self.ends) > 1 else 0

    @property
    def weight(self) -> int:
        """Return about how many bytes of memory this takes."""
        return 1024 + 24 * len(self.ends) + len(self.samples)

    def start_of(self, block: int) -> int:
        """Return where a block begins; of the one behind the last, where the value ends."""
        return self.ends[block - 1] if block else 0

    def items_before(self, block: int) -> int:
        """Return how many top-level items end before a block, `UNKNOWN` if it begins inside one."""
        return self.items[block - 1] if block else UNKNOWN

    def has(self, block: int, piece: memoryview) -> bool:
        """Tell whether a block has these bytes."""
        at = block * _DIGEST
        return sha256(piece).digest()[:_DIGEST] == self.digests[at : at + _DIGEST]

    def sampled(self) -> list[tuple[int, bytes]]:
        """Return the samples and where each is from, some that are far from each other first."""
        count = len(self.samples) // SAMPLE
        return [
            (_sample_at(self.size, number, count), self.samples[number * SAMPLE :][:SAMPLE])
            for number in sorted(range(count), key=lambda number: number % 5)
        ]


class Run(NamedTuple):
    """Consecutive blocks of a value that its successor has too."""

    first: int
    last: int
    """Exclusive."""
    shift: int
    """What is added to a position in the value to get that in its successor."""
    size: int
    """Bytes."""


def index_of(type_: str, data: bytes) -> ValueIndex:
    """Return the index of a value seen whole, for instance one just read."""
    if not MIN_SIZE <= len(data) <= MAX_SIZE:
        return ValueIndex(type_, len(data), None, array("I"), array("I"), b"", b"")
    shape = shape_of(type_, data)
    scan = scanned(type_, data, shape)
    ends = scan.cuts
    counts = [scan.items.get(end, UNKNOWN) for end in ends]
    return with_body(_indexed(type_, data, shape, ends, counts), data, None)


def with_body(index: ValueIndex, data: bytes, grown: Hasher | None) -> ValueIndex:
    """Return an index with the hash of its body: `grown`, where that is known already."""
    if len(data) < _BODY_SIZE:
        return index
    body = grown or sha256(memoryview(data)[index.start_of(index.body_block) :])
    return replace(index, body=body)


def shape_of(type_: str, data: bytes) -> Shape | None:
    """Return what a value is, None if neither a list nor a map."""
    return shape_at(data) if type_ == "msgpack" else None


def scanned(type_: str, data: bytes, shape: Shape | None) -> Scan:
    """Return the cuts of a whole value."""
    scan = Scan(data)
    if type_ != "msgpack":
        scan.strides(0, len(data))
    elif len(data) >= _SCANNED:
        scan.whole(shape)
    else:
        if shape is not None:
            scan.cut(shape.body, 0)
        scan.cut(len(data), None if shape is None else shape.items)
    return scan


def settled(base: ValueIndex, run: Run) -> int:
    """Return the end of a run without its last blocks that are too small to stay."""
    last = run.last
    while last > run.first and base.ends[last - 1] - base.start_of(last - 1) < BLOCK:
        last -= 1
    return last


def succeeding(
    base: ValueIndex, data: bytes, scan: Scan, run: Run, *, moved: int | None
) -> ValueIndex:
    """Return the index of a successor, from the run's own blocks and the cuts around it.

    `moved` is what is added to the run's counts of items; None if the scan has counts for it.
    """
    first, last, shift, _ = run
    start, stop = base.start_of(first) + shift, base.start_of(last) + shift
    cuts, counts = scan.cuts, scan.items
    front = [cut for cut in cuts if cut < start]
    if start:
        front.append(start)
    back = [cut for cut in cuts if cut > stop]
    ends = base.ends[first:last]
    if shift:
        ends = array("I", [end + shift for end in ends])
    items = base.items[first:last]
    if moved is None:
        items = array("I", [counts.get(end, UNKNOWN) for end in ends])
    elif moved:
        items = array("I", [n if n == UNKNOWN else n + moved for n in items])
    front_items = [counts.get(end, UNKNOWN) for end in front]
    joined = 0
    # Small items that come in front, one with each value, become one block.
    if ends and len(front) > 1 and front[-1] - front[-2] < BLOCK and ends[0] - start < BLOCK:
        front[-1], front_items[-1], joined = ends[0], items[0], 1
    all_ends = array("I", front) + ends[joined:] + array("I", back)
    all_items = array("I", front_items) + items[joined:]
    all_items.extend(counts.get(end, UNKNOWN) for end in back)
    shape = shape_of(base.type, data)
    if len(all_ends) > _MAX_BLOCKS:
        return _indexed(base.type, data, shape, all_ends, all_items)
    view = memoryview(data)
    kept = base.digests[(first + joined) * _DIGEST : last * _DIGEST]
    digests = _hashed(view, 0, front) + kept + _hashed(view, stop, back)
    return ValueIndex(base.type, len(data), shape, all_ends, all_items, digests, _samples_of(data))


def _indexed(
    type_: str, data: bytes, shape: Shape | None, ends: Iterable[int], items: Iterable[int]
) -> ValueIndex:
    """Return the index with these blocks, or fewer if they are too many."""
    blocks = list(zip(ends, items, strict=True))
    if len(blocks) > _MAX_BLOCKS:
        blocks = list(_thinned(blocks, len(data)))
    kept = array("I", [end for end, _ in blocks])
    counts = array("I", [count for _, count in blocks])
    digests = _hashed(memoryview(data), 0, kept)
    return ValueIndex(type_, len(data), shape, kept, counts, digests, _samples_of(data))


def _thinned(blocks: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Join blocks that are neither among the first nor among the last bytes."""
    step = 1
    # A power of two, so that a value that grows keeps its blocks for long.
    while step * _MAX_BLOCKS < size * 2:
        step *= 2
    kept = 0
    for end, count in blocks:
        is_far = end - kept >= (step * 4 if count == UNKNOWN else step)
        if is_far or end <= FINE or end > size - _EDGE:
            yield end, count
            kept = end


def _hashed(view: memoryview, start: int, ends: Iterable[int]) -> bytes:
    """Return the digests of the blocks that end at these places."""
    digests: list[bytes] = []
    for end in ends:
        digests.append(sha256(view[start:end]).digest()[:_DIGEST])
        start = end
    return b"".join(digests)


def _samples_of(data: bytes) -> bytes:
    size = len(data)
    count = min(_SAMPLES, size // _SCANNED)
    places = [_sample_at(size, number, count) for number in range(count)]
    return b"".join([data[at : at + SAMPLE] for at in places])


def _sample_at(size: int, number: int, count: int) -> int:
    return (size - SAMPLE) * (2 * number + 1) // (2 * count)
