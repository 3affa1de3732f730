"""Position: where in the log something is. It merges by maximum and only moves forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class Position(Mapping[int, int]):
    """A vector partition → next offset: everything below it is meant.

    `Position({0: 5})` covers offsets 0 to 4 of partition 0. A partition that is not named is at 0.
    Immutable; `merged` gives a new one.
    """

    __slots__ = ("_offsets",)

    def __init__(self, offsets: Mapping[int, int] | None = None) -> None:
        self._offsets = {p: o for p, o in (offsets or {}).items() if o > 0}

    def __getitem__(self, partition: int) -> int:
        return self._offsets[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def next_offset(self, partition: int) -> int:
        """Return the offset after the last one covered in `partition` (0 when none is)."""
        return self._offsets.get(partition, 0)

    def merged(self, other: Mapping[int, int]) -> Position:
        """Return the smallest position that covers both."""
        offsets = dict(self._offsets)
        for partition, offset in other.items():
            if offset > offsets.get(partition, 0):
                offsets[partition] = offset
        return Position(offsets)

    def covers(self, other: Mapping[int, int]) -> bool:
        """Tell whether everything below `other` is below this position too."""
        return all(self._offsets.get(p, 0) >= o for p, o in other.items())

    def __repr__(self) -> str:
        return f"Position({self._offsets!r})"
