"""What each kind of growth costs, in bytes, and which items its cut keeps."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import BaseModel

from saver.increments import Cut, cut, index_of

SERDE = JsonPlusSerializer()
HEADER = 16
"""More than any header of a list or map, and than all of those around one that grows."""


@dataclass
class State:
    name: str
    entries: list[Any]
    after: int


class Model(BaseModel):
    entries: list[Any]
    after: str


def text_of(size: int, seed: int) -> str:
    return "".join(Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=size))


def message(number: int, size: int = 380) -> AnyMessage:
    """Return a message that takes about 600 bytes."""
    kind = HumanMessage if number % 2 else AIMessage
    return kind(text_of(size, number), id=str(UUID(int=number)))


MESSAGES = [message(number) for number in range(302)]


def size_of(value: Any) -> int:
    return len(SERDE.dumps_typed(value)[1])


def found(base: Any, value: Any) -> Cut | None:
    """Return the cut of a value, checked to give it back."""
    base_type, base_data = SERDE.dumps_typed(base)
    type_, data = SERDE.dumps_typed(value)
    found, _ = cut(index_of(base_type, base_data), type_, data)
    if found is not None:
        assert found.head + base_data[found.start : found.stop] + found.tail == data
    return found


def cost(base: Any, value: Any) -> int:
    """Return how many new bytes a value needs."""
    cut_ = found(base, value)
    return size_of(value) if cut_ is None else len(cut_.head) + len(cut_.tail)


def kept(base: Any, value: Any) -> int | None:
    cut_ = found(base, value)
    return None if cut_ is None else cut_.kept_items


@pytest.mark.parametrize("count", [1, 2, 14, 15, 16, 60, 300])
def test_an_appended_message_costs_its_own_bytes(count: int) -> None:
    """The old messages stay, at any length of the list."""
    base, value = MESSAGES[:count], MESSAGES[: count + 1]
    assert cost(base, value) <= size_of(MESSAGES[count]) + HEADER
    assert kept(base, value) == count


def test_the_head_of_an_appended_list_is_its_header() -> None:
    """The tail is the new items, which can be decoded alone."""
    cut_ = found(MESSAGES[:300], MESSAGES[:302])
    assert cut_ is not None
    assert cut_.head == b"\xdc" + (302).to_bytes(2)
    assert cut_.tail == b"".join(SERDE.dumps_typed(each)[1] for each in MESSAGES[300:302])


def test_a_changed_last_message_costs_its_own_bytes() -> None:
    """Those before it stay."""
    value = [*MESSAGES[:299], message(1_000)]
    assert cost(MESSAGES[:300], value) <= size_of(message(1_000)) + HEADER
    assert kept(MESSAGES[:300], value) == 299


def test_a_changed_last_small_item_costs_little() -> None:
    """Small items share blocks, which are smaller near the end."""
    base = [text_of(20, number) for number in range(500)]
    assert cost(base, [*base[:-1], "changed"]) <= 64 + 2 * 21 + HEADER


@pytest.mark.parametrize(("first", "last"), [(0, 299), (1, 300), (5, 300), (150, 300), (2, 290)])
def test_removed_messages_cost_nothing(first: int, last: int) -> None:
    """Whether the newest ones go, the oldest ones, or both."""
    assert cost(MESSAGES[:300], MESSAGES[first:last]) <= HEADER
    assert kept(MESSAGES[:300], MESSAGES[first:last]) == last - first


@pytest.mark.parametrize("trimmed", [1, 2, 30, 200])
def test_a_window_that_moves_costs_what_comes_in(trimmed: int) -> None:
    """The oldest messages go and new ones come: only these are stored."""
    new = [message(1_000), message(1_001)]
    value = [*MESSAGES[trimmed:300], *new]
    assert cost(MESSAGES[:300], value) <= sum(map(size_of, new)) + HEADER
    assert kept(MESSAGES[:300], value) == 300 - trimmed


def test_messages_that_come_in_front_cost_their_own_bytes() -> None:
    """The head holds them, behind the header."""
    value = [message(1_000), *MESSAGES[:300]]
    assert cost(MESSAGES[:300], value) <= size_of(message(1_000)) + HEADER
    assert kept(MESSAGES[:300], value) == 300


def test_a_change_inside_keeps_the_larger_side() -> None:
    """One range is kept: what is before the change or what is behind it."""
    for place, larger in ((100, 199), (250, 250)):
        value = [*MESSAGES[:place], message(1_000), *MESSAGES[place + 1 : 300]]
        assert kept(MESSAGES[:300], value) == larger


def test_what_stays_between_two_changes_is_found() -> None:
    """Neither start nor end has to be the same."""
    value = [message(1_000), message(1_001, 100), *MESSAGES[2:290], message(1_002, 5)]
    assert kept(MESSAGES[:300], value) == 288


@pytest.mark.parametrize("count", [15, 16, 300])
def test_a_map_that_gains_keys_costs_the_new_pairs(count: int) -> None:
    """Pairs count as items."""
    pairs = {f"key {number}": text_of(50, number) for number in range(count)}
    value = {**pairs, "new": "value", "newer": 1}
    assert cost(pairs, value) <= size_of({"new": "value", "newer": 1}) + HEADER
    assert kept(pairs, value) == count


def test_list_headers_of_any_size_are_replaced() -> None:
    """65,536 items need a longer header than 65,535; a list too long to be scanned grows too."""
    base = list(range(65_535))
    assert cost(base, [*base, 65_535]) <= 5 + 5
    assert kept(base, [*base, 65_535]) == 65_535


@pytest.mark.parametrize("size", [600, 65_530, 1_000_000])
def test_text_and_bytes_that_grow_cost_what_is_new(size: int) -> None:
    """At any length of the header before them."""
    text = text_of(size, 1)
    assert cost(text, text + "more" * 5) <= 20 + 5
    assert cost(text.encode(), text.encode() + b"more" * 5) <= 20
    assert kept(text, text + "more" * 5) is None


@pytest.mark.parametrize("count", [1, 2, 15, 16, 120])
def test_nested_lists_grow_for_the_new_items(count: int) -> None:
    """The headers around a list that grows change too: head and what is behind it are replaced."""
    old, new = MESSAGES[:count], MESSAGES[: count + 1]
    for base, value in (
        (State("name", old, 7), State("name", new, 7)),
        (Model(entries=old, after="end"), Model(entries=new, after="end")),
        ({"a": 1, "entries": old}, {"a": 1, "entries": new}),
        (_DeltaSnapshot(old), _DeltaSnapshot(new)),
    ):
        assert cost(base, value) <= size_of(value) - size_of(base) + 150 + HEADER


def test_a_large_item_that_changes_is_cut_inside() -> None:
    """To keep whole items would cost too much: no count of items is given."""
    for base, value in (
        ({"n": 1, "log": text_of(90_000, 1)}, {"n": 2, "log": text_of(90_000, 1) + "more"}),
        ([MESSAGES[:300]], [MESSAGES[:301]]),
        (
            [text_of(30_000, 2), text_of(60_000, 1)],
            [text_of(30_000, 2), text_of(60_000, 1)[:-1] + "!"],
        ),
        ([MESSAGES[0], message(1, 50_000)], [MESSAGES[0], message(1, 50_000), 1]),
    ):
        assert cost(base, value) <= 4_200
    assert kept([MESSAGES[:300]], [MESSAGES[:301]]) is None


def test_a_list_put_into_another_keeps_no_items() -> None:
    """Its bytes stay, but they are no items of the new list."""
    value = [MESSAGES[:300], 1]
    assert cost(MESSAGES[:300], value) <= HEADER
    assert kept(MESSAGES[:300], value) is None


def test_a_map_is_no_successor_of_a_list() -> None:
    """Bytes may be kept, a count of items would mean two things."""
    base = [1, text_of(4_000, 1)]
    assert kept(base, {1: text_of(4_000, 1)}) is None
    assert cost(base, {1: text_of(4_000, 1)}) <= 64


@pytest.mark.parametrize("value", [MESSAGES, {"a": "x" * 200}, "x" * 999, b"x" * 128])
def test_an_unchanged_value_is_one_range(value: Any) -> None:
    """Nothing is new, and the index stays what it was."""
    type_, data = SERDE.dumps_typed(value)
    index = index_of(type_, data)
    assert cut(index, type_, data) == (Cut(b"", 0, len(data), b"", None), index)


@pytest.mark.parametrize(
    ("base", "value"),
    [
        ("x" * 100, "x" * 101),
        ("x" * 200, b"x" * 202),
        (MESSAGES[:5], [message(number) for number in range(500, 505)]),
        (MESSAGES[:1], [*MESSAGES[:1], text_of(3_000, 1)]),
        (None, MESSAGES),
        (MESSAGES, None),
        ([], MESSAGES),
    ],
)
def test_what_saves_too_little_is_stored_whole(base: Any, value: Any) -> None:
    """Small values, other types, and ranges that are a small part of the value."""
    assert found(base, value) is None
