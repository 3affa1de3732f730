"""A position only moves forward, and says what it covers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eventstore.position import Position

positions = st.dictionaries(st.integers(0, 5), st.integers(0, 50), max_size=6).map(Position)


def test_unnamed_partition_is_at_the_beginning() -> None:
    """Nothing of it is covered, and an explicit 0 says no more."""
    position = Position({0: 5, 1: 0})
    assert position.next_offset(0) == 5
    assert position.next_offset(1) == position.next_offset(9) == 0
    assert dict(position) == {0: 5}
    assert len(Position()) == 0
    assert position == {0: 5}
    assert repr(position) == "Position({0: 5})"


def test_position_does_not_follow_the_mapping_it_was_made_of() -> None:
    """It is immutable."""
    offsets = {0: 5}
    position = Position(offsets)
    offsets[0] = 9
    assert position[0] == 5


@given(positions, positions)
def test_merging_covers_both_and_no_more(one: Position, other: Position) -> None:
    """The smallest position that covers both, in whichever order."""
    merged = one.merged(other)
    assert merged.covers(one)
    assert merged.covers(other)
    assert merged == other.merged(one)
    for partition in merged:
        assert merged[partition] == max(one.next_offset(partition), other.next_offset(partition))


@given(positions, positions, positions)
def test_merging_is_associative(one: Position, two: Position, three: Position) -> None:
    assert one.merged(two).merged(three) == one.merged(two.merged(three))


@given(positions, positions)
def test_covering_is_an_order(one: Position, other: Position) -> None:
    """Everything covers itself; two that cover each other are equal; merging keeps what covers."""
    assert one.covers(one)
    assert not (one.covers(other) and other.covers(one)) or one == other
    assert one.covers(other) == (one.merged(other) == one)
