"""Which form a value takes in an event, what that costs, and that it always comes back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import BaseModel

from eventstore.events import (
    EMPTY,
    INHERITED,
    ChannelState,
    Extended,
    Full,
    Payload,
    Referenced,
)
from saver.bases import MAX_PIECES, MIN_BYTES, Bases
from saver.encoding import MAX_NEW_BYTES
from tests.properties.test_increments import EDITS, SHAPES, edited, value_of

from .encoded import SERDE, Encoded, body_size, items_in, packed

HEADERS = 24
"""More than the headers take that are written anew around a list that grows."""


@dataclass
class Holder:
    name: str
    entries: list[Any]
    after: int


class Model(BaseModel):
    entries: list[Any]
    after: str


@cache
def text_of(number: int, size: int = 380) -> str:
    return "".join(Random(number).choices("abcdefghijklmnopqrstuvwxyz ", k=size))


def messages(count: int) -> list[Any]:
    return [HumanMessage(text_of(number), id=str(number)) for number in range(count)]


def size_of(value: Any) -> int:
    return len(packed(value).data)


def cost_of(value: Extended) -> int:
    return len(value.head) + len(value.tail)


def extended(base: Any, value: Any) -> Extended:
    """Return the form of a value under the checkpoint with another one; it must extend that."""
    thread = Encoded()
    second = thread.put(thread.put(x=base), x=value)
    thread.check_all()
    return second.extended()


ITEMS = messages(41)
ITEM = size_of(ITEMS[40])
WORDS = text_of(7, 9_000)
PLAIN = ("a list", "a map", "a text", "bytes")
"""All others have names around the list: of keys, of classes and their modules."""
GROWN = {
    "a list": (ITEMS[:40], ITEMS),
    "a map": (
        {f"key {number}": item for number, item in enumerate(ITEMS[:40])},
        {f"key {number}": item for number, item in enumerate(ITEMS)},
    ),
    "a list in a map": ({"n": 1, "entries": ITEMS[:40]}, {"n": 2, "entries": ITEMS}),
    "a dataclass": (Holder("name", ITEMS[:40], 7), Holder("name", ITEMS, 8)),
    "a pydantic model": (
        Model(entries=ITEMS[:40], after="end"),
        Model(entries=ITEMS, after="end"),
    ),
    "a delta snapshot": (_DeltaSnapshot(ITEMS[:40]), _DeltaSnapshot(ITEMS)),
    "a text": (WORDS[:8_400], WORDS[: 8_400 + ITEM]),
    "bytes": (WORDS[:8_400].encode(), WORDS[: 8_400 + ITEM].encode()),
}


@pytest.mark.parametrize("kind", sorted(GROWN))
def test_what_grows_costs_what_is_new(kind: str) -> None:
    """An appended item is stored, its size and a few bytes of headers, whatever it is in."""
    base, value = GROWN[kind]
    names = 0 if kind in PLAIN else 80
    assert cost_of(extended(base, value)) <= ITEM + HEADERS + names


@pytest.mark.parametrize(
    ("value", "new"),
    [
        pytest.param([*ITEMS[:39], ITEMS[40]], ITEM, id="the last one changed"),
        pytest.param(ITEMS[:39], 0, id="the last one removed"),
        pytest.param(ITEMS[10:40], 0, id="the oldest ones trimmed"),
        pytest.param(ITEMS[20:], ITEM, id="a window moved"),
        pytest.param([ITEMS[40], *ITEMS[:40]], ITEM, id="one in front"),
    ],
)
def test_what_changes_at_an_end_costs_that_item(value: list[Any], new: int) -> None:
    """A list of messages in which something changed at its beginning or end."""
    assert cost_of(extended(ITEMS[:40], value)) <= new + HEADERS


@pytest.mark.parametrize("kind", ["a list", "a map", "bytes"])
def test_a_reference_to_the_base_takes_less_than_120_bytes(kind: str) -> None:
    """What an event says beside the new bytes: the base, the range, the digest, the type."""
    base, value = GROWN[kind]
    thread = Encoded()
    saved = thread.put(thread.put(x=base), x=value)
    whole = body_size(saved, ChannelState(1, saved.extended()))
    empty = body_size(saved, ChannelState(1, EMPTY))
    assert whole - empty - cost_of(saved.extended()) <= 120


@pytest.mark.parametrize(
    ("value", "in_front", "kept", "behind"),
    [
        (ITEMS, [], 40, ITEMS[40:]),
        ([*ITEMS[:39], ITEMS[40]], [], 39, ITEMS[40:]),
        (ITEMS[:35], [], 35, []),
        (ITEMS[10:], [], 30, ITEMS[40:]),
        ([ITEMS[40], *ITEMS[:40]], ITEMS[40:], 40, []),
    ],
)
def test_a_consumer_decodes_the_new_items_alone(
    value: list[Any], in_front: list[Any], kept: int, behind: list[Any]
) -> None:
    """Behind the list's header the head is whole items, so is the tail; the others are counted."""
    found = extended(ITEMS[:40], value)
    header = len(msgpack.Packer().pack_array_header(len(value)))
    assert items_in(found.head[header:]) == in_front
    assert found.kept_items == kept
    assert items_in(found.tail) == behind


def test_a_consumer_decodes_the_new_pairs_alone() -> None:
    """Of a map the tail is keys and values in turn."""
    found = extended(*GROWN["a map"])
    assert found.kept_items == 40
    assert items_in(found.tail) == ["key 40", ITEMS[40]]


def test_an_equal_value_with_a_new_version_is_a_reference() -> None:
    """To the event that stored it, also from its grandchild, and what grows then extends that."""
    thread = Encoded()
    first = thread.put(x=ITEMS[:40])
    second = thread.put(first, x=ITEMS[:40])
    third = thread.put(second, x=ITEMS[:40])
    assert second.value() == third.value() == Referenced(first.known.event_id, 1)
    assert thread.put(third, x=ITEMS).extended().event_id == first.known.event_id
    thread.check_all()


def test_the_same_version_is_inherited() -> None:
    """Nothing is said of a channel that did not change, and its value can be extended later."""
    thread = Encoded()
    first = thread.put(x=ITEMS[:40], y=1)
    second = thread.put(first, y=2)
    assert second.value("x") == INHERITED
    assert second.event.parent_event == first.known.event_id
    assert thread.put(second, x=ITEMS).extended().event_id == first.known.event_id
    thread.check_all()


def test_an_emptied_channel_extends_its_last_value_when_it_is_filled_again() -> None:
    """The bytes that the value had before are there still."""
    thread = Encoded()
    first = thread.put(x=ITEMS[:40])
    second = thread.put(first, emptied=["x"])
    assert second.value() == EMPTY
    third = thread.put(second, x=ITEMS)
    assert third.extended().event_id == first.known.event_id
    thread.check_all()


def test_small_values_are_stored_whole() -> None:
    """Naming a base would take about as many bytes."""
    thread = Encoded()
    value = packed("x" * (MIN_BYTES - 4))
    assert len(value.data) == MIN_BYTES - 1
    second = thread.put(thread.put(x=value), x=value)
    assert isinstance(second.value(), Full)
    larger = packed("x" * (MIN_BYTES - 3))
    assert isinstance(thread.put(thread.put(x=larger), x=larger).value(), Referenced)
    thread.check_all()


def test_a_value_that_grew_by_much_is_stored_whole() -> None:
    """All channels of an event count, so that it fits into a record."""
    thread = Encoded()
    data = text_of(1, MAX_NEW_BYTES).encode()
    first = thread.put(x=data, y=data)
    new = b"x" * (MAX_NEW_BYTES // 2)
    for value, form in ((data + new, Extended), (data + new + b"y", Full)):
        second = thread.put(first, x=data + new, y=value)
        assert isinstance(second.value("x"), Extended)
        assert isinstance(second.value("y"), form)
    thread.check_all()


def test_another_type_of_the_same_bytes_is_stored_whole() -> None:
    """The serializer's type is part of the value."""
    thread = Encoded()
    data = WORDS.encode()
    second = thread.put(thread.put(x=Payload("bytes", data)), x=Payload("bytearray", data))
    assert isinstance(second.value(), Full)
    thread.check_all()


def test_a_value_without_a_known_base_is_stored_whole() -> None:
    """Without a parent, under one of which nothing is known, or whose base is forgotten."""
    thread = Encoded()
    first = thread.put(x=ITEMS[:40])
    for parent, bases in ((None, thread.bases), (first, Bases())):
        assert isinstance(thread.put(parent, bases=bases, x=ITEMS).value(), Full)
    thread.check_all()


def test_a_checkpoint_that_was_read_is_extended() -> None:
    """A saver that has read it knows as much as the one that put it."""
    thread = Encoded()
    first = thread.put(x=ITEMS[:39])
    second = thread.put(first, x=ITEMS[:40])
    bases = Bases()
    known = thread.warmed(second, bases)
    third = thread.put(second, bases=bases, known=known, x=ITEMS)
    assert cost_of(third.extended()) <= ITEM + HEADERS
    thread.check_all()


def test_forks_extend_the_same_value_differently() -> None:
    """Each gets its own items back, though both go on in one buffer, and so do their children."""
    thread = Encoded()
    first = thread.put(x=ITEMS[:20])
    tips = [thread.put(first, x=[*ITEMS[:20], {"fork": fork}, *ITEMS[20:22]]) for fork in range(3)]
    for turn in range(6):
        for fork, tip in enumerate(tips):
            value = [*SERDE.loads_typed(("msgpack", tip.expected["x"])), text_of(turn * 3 + fork)]
            tips[fork] = thread.put(tip, x=value)
            assert cost_of(tips[fork].extended()) <= 400 + HEADERS
    thread.check_all()


# Pieces

FEW = [text_of(number) for number in range(20)]


def appending(turn: int) -> list[Any]:
    return FEW + [text_of(number, 150) for number in range(turn)]


def in_front(turn: int) -> list[Any]:
    return [f"small {number}" for number in range(turn, 0, -1)] + FEW


def large_in_front(turn: int) -> list[Any]:
    return [text_of(number, 90) for number in range(turn, 0, -1)] + FEW


def at_both_ends(turn: int) -> list[Any]:
    return in_front(turn) + [f"small {number}" for number in range(turn)]


def in_turns(turn: int) -> list[Any]:
    return large_in_front(turn // 2) + [text_of(number, 90) for number in range((turn + 1) // 2)]


def windowed(turn: int) -> list[Any]:
    return [text_of(number, 90) for number in range(turn, turn + 40)]


def last_changed(turn: int) -> list[Any]:
    return [*FEW, text_of(turn, 90)]


def nested(turn: int) -> Any:
    return {"n": text_of(turn, 5 + turn % 90), "entries": appending(turn), "after": turn}


GROWING = {
    grow.__name__: grow
    for grow in (
        *(appending, in_front, large_in_front, at_both_ends, in_turns, windowed),
        *(last_changed, nested),
    )
}
MANY = MAX_PIECES + 60


@pytest.mark.parametrize("way", sorted(GROWING))
def test_a_value_never_has_more_pieces_than_estimated(way: str) -> None:
    """However it grows, and the estimate is bounded: then the value is stored whole again."""
    thread = Encoded()
    last = thread.put(x=GROWING[way](0))
    for turn in range(1, MANY):
        last = thread.put(last, x=GROWING[way](turn))
        assert thread.pieces(last) <= last.stored["x"].pieces <= MAX_PIECES
    thread.check_all(every=5)


@pytest.mark.parametrize("forks", [1, 2])
def test_appending_needs_new_pieces_only_between_forks(forks: int) -> None:
    """What goes on at the buffer's end is one piece; forks that take turns are stored whole again.

    One of them is never stored whole: a conversation that only grows.
    """
    thread = Encoded()
    first = thread.put(x=FEW)
    tips = [first] * forks
    whole = 0
    for turn in range(1, MANY):
        for fork in range(forks):
            value = [*FEW, fork, *(text_of(number, 20) for number in range(turn))]
            tips[fork] = thread.put(tips[fork], x=value)
            whole += isinstance(tips[fork].value(), Full)
            assert thread.pieces(tips[fork]) <= tips[fork].stored["x"].pieces <= MAX_PIECES
    assert whole == (0 if forks == 1 else forks)
    thread.check_all(every=5)


# Random histories

Step = tuple[int, int, int, list[tuple[str, tuple[str, int, int]]]]
"""Which parent, which saver, whether it reads that first, and what it does to some channels."""

edits = st.tuples(st.sampled_from((*EDITS, "empty")), st.integers(0, 99), st.integers(0, 30))
steps = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 2),
        st.integers(0, 3),
        st.lists(st.tuples(st.sampled_from("ab"), edits), min_size=1, max_size=2),
    ),
    max_size=14,
)


class Tree:
    """A tree of checkpoints, put by savers of which each knows only what it read or put."""

    def __init__(self, shapes: dict[str, str], seeds: list[int]) -> None:
        self.thread = Encoded()
        self.shapes = shapes
        self.bases = [Bases(), Bases(limit=20_000)]
        values: dict[str, Any] = {
            channel: Payload(*value_of(shape, seeds)) for channel, shape in shapes.items()
        }
        self.nodes = [(self.thread.put(bases=self.bases[0], **values), dict.fromkeys("ab", seeds))]

    def grow(self, step: Step) -> None:
        at, saver, reading, changes = step
        parent, seeds = self.nodes[-1 - at % min(3, len(self.nodes))]
        bases = self.bases[saver] if saver < len(self.bases) else Bases()
        known = None if reading else self.thread.warmed(parent, bases)
        after, emptied = dict(seeds), list[str]()
        for channel, edit in changes:
            if edit[0] == "empty":
                emptied.append(channel)
            else:
                after[channel] = edited(after[channel], edit)
        values: dict[str, Any] = {
            channel: Payload(*value_of(self.shapes[channel], after[channel]))
            for channel, _ in changes
            if channel not in emptied
        }
        saved = self.thread.put(parent, bases=bases, known=known, emptied=emptied, **values)
        self.nodes.append((saved, after))


@settings(deadline=None, max_examples=150)
@given(
    st.fixed_dictionaries(dict.fromkeys("ab", st.sampled_from(sorted(SHAPES)))),
    st.lists(st.integers(0, 30), min_size=1, max_size=25),
    steps,
)
def test_every_checkpoint_of_a_random_tree_comes_back(
    shapes: dict[str, str], seeds: list[int], grown: list[Step]
) -> None:
    """Forks, emptied channels, savers that know little or nothing: each value is what was put."""
    tree = Tree(shapes, seeds)
    for step in grown:
        tree.grow(step)
    tree.thread.check_all()
