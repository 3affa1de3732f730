"""Where a serialized value can be cut: the ends of msgpack tokens and of top-level items. Pure.

Only lengths are read, nothing is decoded. What is found here is a hint: bytes that are no msgpack,
or end too early, give cuts that are less useful, never an error.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

BLOCK: Final = 256
"""Bytes between two cuts, at least, at the end of an item: a usual message is one block."""

INNER: Final = 1024
"""The same within an item."""

FINE: Final = 1024
"""In this many last bytes, cuts are four times as dense: most changes are made there."""

STRIDE: Final = 4096
"""Texts and extensions longer than this are cut inside, as is what cannot be read."""

_TOKENS: Final = 20_000
_BYTES_PER_TOKEN: Final = 256
"""A scan ends after so many tokens, and one more per so many bytes: linear, and no seconds."""

_MARKS: Final = 256
"""Cuts around large containers, at most; they may lie close together."""

_DEPTH: Final = 16
"""Containers and extensions nested deeper than this are not cut around, or inside."""

_NOWHERE: Final = sys.maxsize
"""Behind every end."""

_MAP: Final = 2
_LIST: Final = 1


def _fixed_sizes() -> tuple[int, ...]:
    """Return by first byte the size of each token that needs no look at the second one, or 0."""
    sizes = [1] * 256
    sizes[0x81:0x90] = [0] * 15
    sizes[0x91:0xA0] = [0] * 15
    sizes[0xA0:0xC0] = range(1, 33)
    sizes[0xC4:0xCA] = [0] * 6
    sizes[0xCA:0xD4] = [5, 9, 2, 3, 5, 9, 2, 3, 5, 9]
    sizes[0xD4:0xD9] = [3, 4, 6, 10, 18]
    sizes[0xD9:0xE0] = [0] * 7
    return tuple(sizes)


_FIXED: Final = _fixed_sizes()

_COUNTED: Final = {0xDC: (_LIST, 2), 0xDD: (_LIST, 4), 0xDE: (_MAP, 2), 0xDF: (_MAP, 4)}
"""Containers with a count of their own: tokens per item, bytes of the count."""

_MEASURED: Final = {
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    0xC7: (1, 1),
    0xC8: (2, 1),
    0xC9: (4, 1),
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
}
"""Bytes of the length, bytes between it and the content: 1 marks an extension."""


class Shape(NamedTuple):
    """A list or a map, as its header says."""

    width: int
    """Tokens per item: 1 in a list, 2 in a map."""
    items: int
    """How many it has."""
    body: int
    """Where the first one begins."""


def shape_at(data: bytes, at: int = 0) -> Shape | None:
    """Return the list or map that begins at `at`, None if there is none."""
    if at >= len(data):
        return None
    byte = data[at]
    if 0x80 <= byte < 0xA0:  # noqa: PLR2004 - msgpack's fixmap and fixarray
        return Shape(_MAP if byte < 0x90 else _LIST, byte & 15, at + 1)  # noqa: PLR2004
    counted = _COUNTED.get(byte)
    if counted is None:
        return None
    width, size = counted
    body = at + 1 + size
    if body > len(data):
        return None
    return Shape(width, int.from_bytes(data[at + 1 : body], "big"), body)


class Scan:
    """Cuts of a value, found in one or more passes from left to right."""

    __slots__ = ("_cuts", "_data", "_fine", "_large", "_last", "_left", "_marks", "items")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fine = len(data) - FINE
        # Containers from this size on are cut around, so that one that grows is replaced alone.
        self._large = max(BLOCK, len(data) // 32)
        # Tokens that may still be read.
        self._left = _TOKENS + len(data) // _BYTES_PER_TOKEN
        self._cuts: list[int] = []
        self._marks: list[int] = []
        # The rightmost cut: the next one keeps its distance.
        self._last = 0
        # Cut → how many top-level items lie before it, where it is the end of one.
        self.items: dict[int, int] = {}

    @property
    def is_spent(self) -> bool:
        """Whether it gave up for the number of tokens."""
        return self._left <= 0

    @property
    def cuts(self) -> list[int]:
        """Return what was found, in order."""
        return sorted({*self._cuts, *self._marks})

    def cut(self, at: int, items: int | None = None) -> None:
        """Cut here; `items` are the top-level items before it."""
        self._cuts.append(at)
        self._last = at
        if items is not None:
            self.items[at] = items

    def whole(self, shape: Shape | None) -> None:
        """Cut the whole value, which is msgpack."""
        size = len(self._data)
        if shape is None:
            self.walk(0, size, 0)
        else:
            self.cut(shape.body, 0)
            self.through(shape, shape.body, 0)

    def through(self, shape: Shape, at: int, before: int) -> bool:
        """Cut from the top-level item at `at` to the end of the value.

        Tells whether the end is that of the last item, as far as it was seen: what is too long to
        be scanned is taken for sound.
        """
        size = len(self._data)
        at, before = self.pass_items(shape, at, before, size)
        is_sound = self.is_spent or (at == size and before == shape.items)
        self.strides(at, size)
        if is_sound:
            self.items[size] = shape.items
        return is_sound

    def pass_items(self, shape: Shape, at: int, before: int, stop: int) -> tuple[int, int]:
        """Cut between the top-level items up to `stop`; return the last boundary seen, its count.

        `before` items lie before `at`.
        """
        self._last = at
        while before < shape.items and at < stop:
            end = at
            for _ in range(shape.width):
                end = self._value(end, stop, 0)
                if end == _NOWHERE:
                    return at, before
            before += 1
            is_apart = end - self._last >= (BLOCK if end < self._fine else BLOCK // 4)
            if is_apart or end - at >= INNER or end == self._last:
                self.cut(end, before)
            at = end
        return at, before

    def walk(self, at: int, stop: int, depth: int) -> None:
        """Cut a stretch that should hold whole objects."""
        self._last = at
        while at < stop:
            end = self._value(at, stop, depth)
            if end == _NOWHERE:
                break
            at = end
        self.strides(at, stop)

    def strides(self, at: int, stop: int) -> None:
        """Cut a stretch that nothing is known of, and at its end."""
        for cut in range(max(at, self._last) + STRIDE, stop, STRIDE):
            self.cut(cut)
        self.cut(stop)

    def _value(self, at: int, stop: int, depth: int) -> int:
        """Cut inside the object at `at`; return its end, `_NOWHERE` if that is not found."""
        # Of the innermost open container: objects to come, where its first one began.
        left, body = 1, at
        outer: list[tuple[int, int]] = []
        while True:
            if at >= stop or self._left <= 0:
                return _NOWHERE
            self._left -= 1
            size = _FIXED[self._data[at]]
            if size:
                at += size
            else:
                at, inside = self._long(at, stop, depth)
                if inside:
                    outer.append((left, body))
                    left, body = inside, at
                    continue
            if at > stop:
                return _NOWHERE
            left -= 1
            while not left and outer:
                if at - body >= self._large and len(outer) <= _DEPTH:
                    self._mark(body, at)
                left, body = outer.pop()
                left -= 1
            if not left:
                return at
            if at - self._last >= (INNER if at < self._fine else INNER // 4):
                self.cut(at)

    def _long(self, at: int, stop: int, depth: int) -> tuple[int, int]:
        """Return the end of a token that says how long it is, and the objects that follow inside.

        An extension's content is part of its token. What is long is cut inside.
        """
        measured = _MEASURED.get(self._data[at])
        if measured is None:
            shape = shape_at(self._data, at)
            return (_NOWHERE, 0) if shape is None else (shape.body, shape.items * shape.width)
        width, kind = measured
        body = at + 1 + width + kind
        end = body + int.from_bytes(self._data[at + 1 : at + 1 + width], "big")
        # The value itself is looked into at any length: nothing else would be cut.
        if end <= stop and (end - body > STRIDE or at == 0):
            self.cut(body)
            if kind and depth < _DEPTH:
                self.walk(body, end, depth + 1)
            else:
                self.strides(body, end)
        return end, 0

    def _mark(self, *cuts: int) -> None:
        if len(self._marks) < _MARKS:
            self._marks.extend(cuts)
