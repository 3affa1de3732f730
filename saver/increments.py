"""What of a value is new: head bytes, a range of its predecessor, tail bytes. Pure.

Where in the new value the range might be is guessed; that the bytes there are equal is then checked
block by block. Whatever the bytes are, a cut gives back the value, and nothing is raised.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from .tokens import Scan, Shape
from .value_index import (
    MAX_SIZE,
    MIN_SIZE,
    SAMPLE,
    UNKNOWN,
    Run,
    ValueIndex,
    index_of,
    scanned,
    settled,
    shape_of,
    succeeding,
    with_body,
)

__all__ = ["Cut", "ValueIndex", "cut", "index_of"]

MIN_SHARE: Final = 4
"""A range makes each read longer; a fourth of the value is worth it."""

MAX_ITEM_LOSS: Final = 1024
"""A range is cut back to whole items for no more than this, or than a fourth of it."""

_NEAR: Final = 16
"""The headers around a list that grows grow by fewer bytes than this."""

_HITS: Final = 4
"""Places at which a sample is taken for what it was, at most."""

_PASSES: Final = 4
"""The new value is searched no more often than this."""

_NOTHING: Final = Run(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """A value as a range of its predecessor between new bytes."""

    head: bytes
    start: int
    """First byte of the range, inclusive."""
    stop: int
    """Last byte of the range, exclusive."""
    tail: bytes
    kept_items: int | None
    """How many items (of a map: pairs) of a top-level list or map the range holds.

    Head and tail then hold whole items too, the head after the header. None where the range begins
    or ends inside an item, and where it is the whole value, with neither head nor tail.
    """


def cut(base: ValueIndex, type_: str, data: bytes) -> tuple[Cut | None, ValueIndex]:
    """Return what of a value is new and what is the base's, and the value's own index.

    The cut is None where the value had better be stored whole.
    """
    size = len(data)
    if base.type != type_ or min(base.size, size) < MIN_SIZE or max(base.size, size) > MAX_SIZE:
        return None, index_of(type_, data)
    appended = _appended(base, data)
    run = appended or _longest_run(base, data)
    if not _is_worth(run, size):
        return None, index_of(type_, data)
    if run.size == base.size == size:
        return Cut(b"", 0, size, b"", None), base
    found, index = _between_items(base, data, run) or (
        _cut_of(base, data, run, None),
        _rescanned(base, data, run),
    )
    grown = None
    if appended is not None and base.body is not None:
        grown = base.body.copy()
        grown.update(memoryview(data)[base.size + run.shift :])
    return found, with_body(index, data, grown)


def _appended(base: ValueIndex, data: bytes) -> Run | None:
    """Return all of a list, map or text behind its header, if the new value begins with that."""
    shape, block, last = shape_of(base.type, data), base.body_block, len(base.ends)
    if base.body is None or (shape is None) != (base.shape is None):
        return None
    shift = 0 if shape is None or base.shape is None else shape.body - base.shape.body
    start, view = base.start_of(block), memoryview(data)
    if base.size + shift > len(data):
        return None
    # One block tells most others.
    if not base.has(last - 1, view[base.start_of(last - 1) + shift : base.size + shift]):
        return None
    if sha256(view[start + shift : base.size + shift]).digest() != base.body.digest():
        return None
    if block and not shift and base.has(0, view[:start]):
        return Run(0, last, 0, base.size)
    return Run(block, last, shift, base.size - start)


def _is_worth(run: Run, size: int) -> bool:
    return run.size >= MIN_SIZE and run.size * MIN_SHARE >= size


def _cut_of(base: ValueIndex, data: bytes, run: Run, kept_items: int | None) -> Cut:
    start, stop = base.start_of(run.first), base.start_of(run.last)
    return Cut(data[: start + run.shift], start, stop, data[stop + run.shift :], kept_items)


def _rescanned(base: ValueIndex, data: bytes, run: Run) -> ValueIndex:
    """Return the index of a value that has a run of the base somewhere inside."""
    run = run._replace(last=settled(base, run))
    if base.type == "msgpack":
        scan = scanned(base.type, data, shape_of(base.type, data))
    else:
        scan = Scan(data)
        scan.strides(0, base.start_of(run.first) + run.shift)
        scan.strides(base.start_of(run.last) + run.shift, len(data))
    return succeeding(base, data, scan, run, moved=None)


# The longest run: likely shifts, each followed as far as the blocks are equal.


def _longest_run(base: ValueIndex, data: bytes) -> Run:
    view = memoryview(data)
    best, found = _NOTHING, 0
    runs: list[Run] = []
    tried: set[tuple[int, int]] = set()
    for block, shift in _likely(base, data):
        is_known = any(run.shift == shift and run.first <= block < run.last for run in runs)
        if is_known or (block, shift) in tried:
            continue
        tried.add((block, shift))
        run = _followed(base, view, block, shift)
        if run.size:
            runs.append(run)
            found += run.size
        if run.size > best.size:
            best = run
        # A longer run would overlap those found. This also bounds what is hashed to two passes.
        if best.size + found >= base.size:
            break
    return best


def _followed(base: ValueIndex, view: memoryview, block: int, shift: int) -> Run:
    """Return the run of equal blocks around a block."""
    first = last = block
    start = stop = base.start_of(block)
    if start + shift < 0:
        return _NOTHING
    for end in base.ends[block:]:
        if end + shift > len(view) or not base.has(last, view[stop + shift : end + shift]):
            break
        stop, last = end, last + 1
    if last == block:
        return _NOTHING
    while first > 0:
        end, start = start, base.start_of(first - 1)
        if start + shift < 0 or not base.has(first - 1, view[start + shift : end + shift]):
            start = end
            break
        first -= 1
    return Run(first, last, shift, stop - start)


def _likely(base: ValueIndex, data: bytes) -> Iterator[tuple[int, int]]:
    """Return blocks of the base, each with a distance by which it may have moved."""
    shape, blocks = shape_of(base.type, data), len(base.ends)
    grown = len(data) - base.size
    if base.shape is not None and shape is not None and blocks > 1:
        yield 1, shape.body - base.shape.body
    else:
        yield 0, 0
    yield blocks - 1, grown
    samples = base.sampled()
    for at, sample in samples:
        for shift in (0, grown):
            low = max(0, at + shift - _NEAR)
            found = data.find(sample, low, low + 2 * _NEAR + SAMPLE)
            if found >= 0:
                yield bisect_right(base.ends, at), found - at
    yield from _far(base, data, samples)


def _far(
    base: ValueIndex, data: bytes, samples: Iterable[tuple[int, bytes]]
) -> Iterator[tuple[int, int]]:
    """Search the samples everywhere."""
    left = _PASSES * len(data)
    for at, sample in samples:
        low = 0
        for _ in range(_HITS):
            found = data.find(sample, low)
            left -= (len(data) if found < 0 else found) - low
            if found < 0:
                break
            yield bisect_right(base.ends, at), found - at
            low = found + 1
        if left <= 0:
            return


# The run without the items that it splits, and a scan of only what is new around it.


def _between_items(base: ValueIndex, data: bytes, run: Run) -> tuple[Cut, ValueIndex] | None:
    """Return the cut to whole items; None where there is no such, or it would lose too much."""
    shape = shape_of(base.type, data)
    if shape is None or base.shape is None or shape.width != base.shape.width:
        return None
    whole = _whole_items(base, run)
    loss = run.size - whole.size
    if not _is_worth(whole, len(data)) or loss > max(MAX_ITEM_LOSS, run.size // 4):
        return None
    scan = Scan(data)
    in_front = _items_in_front(scan, shape, base.start_of(whole.first) + whole.shift)
    if in_front is None:
        return None
    # Its last blocks are scanned again if they are small, from the end of an item.
    last = settled(base, whole)
    while base.items_before(last) == UNKNOWN:
        last -= 1
    before = base.items_before(whole.first)
    moved = in_front - before
    resumed = base.start_of(last) + whole.shift
    if not scan.through(shape, resumed, base.items_before(last) + moved):
        return None
    kept = base.items_before(whole.last) - before
    new = succeeding(base, data, scan, whole._replace(last=last), moved=moved)
    return _cut_of(base, data, whole, kept), new


def _whole_items(base: ValueIndex, run: Run) -> Run:
    first, last = run.first, run.last
    while first < last and base.items_before(first) == UNKNOWN:
        first += 1
    while first < last and base.items_before(last) == UNKNOWN:
        last -= 1
    return Run(first, last, run.shift, base.start_of(last) - base.start_of(first))


def _items_in_front(scan: Scan, shape: Shape, start: int) -> int | None:
    """Scan up to a run; return how many items are before it, None if it begins inside one."""
    if start < shape.body:
        return None
    scan.cut(shape.body, 0)
    at, items = scan.pass_items(shape, shape.body, 0, start)
    return items if at == start else None
