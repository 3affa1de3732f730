"""Whatever changes in a value, a cut gives it back, and says truly which items it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any, TypeAlias

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from saver.increments import Cut, ValueIndex, cut, index_of
from saver.tokens import STRIDE, shape_at
from saver.value_index import UNKNOWN

SERDE = JsonPlusSerializer()

Edit: TypeAlias = tuple[str, int, int]
"""What is done to the list, where, and a seed for what comes new."""

EDITS = (
    "append",
    "append",
    "last",
    "remove",
    "trim",
    "insert",
    "front",
    "change",
    "replace",
    "same",
)


@dataclass
class Holder:
    name: str
    entries: list[Any]
    after: int


class Model(BaseModel):
    before: dict[str, int]
    entries: list[Any]
    after: str


def text_of(random: Random, size: int) -> str:
    """Return a text, one in four times one that repeats itself."""
    if random.random() < 0.25:
        return "ab" * (size // 2)
    return "".join(random.choices("abcdefghij klmnopqrstuvwxyz äöü", k=size))


def item_of(seed: int) -> Any:
    """Return an item of any kind; small seeds are often drawn again and so repeat content."""
    random = Random(seed)
    size = random.choice((0, 3, 40, 250, 700, 5_000))
    text = text_of(random, size)
    return random.choice(
        (
            HumanMessage(text, id=str(seed)),
            AIMessage(text, id=str(seed), response_metadata={"n": [1, 2]}),
            {"role": "user", "parts": [text[::2]] * 2, "n": seed},
            list(range(size // 3)),
            random.randbytes(size),
            Holder(text, [1, "x"], seed),
            random.choice((seed, text, None, -seed, 0.5)),
        )
    )


SHAPES: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda items: items,
    "map": lambda items: {f"key {number}": item for number, item in enumerate(items)},
    "nested": lambda items: {"first": 1, "entries": items, "last": "x" * 50},
    "wrapped": lambda items: [items],
    "dataclass": lambda items: Holder("name", items, 7),
    "pydantic": lambda items: Model(before={"a": 1}, entries=items, after="end"),
    "text": lambda items: "".join(map(str, items)),
    "bytes": lambda items: "".join(map(str, items)).encode(),
}

items = st.integers(0, 30)
edits = st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 99), items), max_size=8)


def edited(seeds: list[int], edit: Edit) -> list[int]:
    kind, place, seed = edit
    at = place % (len(seeds) + 1)
    changed: dict[str, list[int]] = {
        "append": [*seeds, seed],
        "last": [*seeds[:-1], seed],
        "remove": seeds[:-1],
        "trim": seeds[place % 5 :],
        "insert": [*seeds[:at], seed, *seeds[at:]],
        "front": [seed, *seeds],
        "change": [*seeds[:at], seed, *seeds[at + 1 :]],
        "replace": [seed] * (place % 20),
        "same": seeds,
    }
    return changed[kind]


def value_of(shape: str, seeds: list[int]) -> tuple[str, bytes]:
    return SERDE.dumps_typed(SHAPES[shape]([item_of(seed) for seed in seeds]))


def objects_in(data: bytes) -> int:
    """Return how many msgpack objects these bytes are; they must be whole ones."""
    unpacker = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
    unpacker.feed(data)
    number = 0
    while unpacker.tell() < len(data):
        unpacker.skip()
        number += 1
    return number


def check_cut(base: bytes, data: bytes, found: Cut) -> None:
    assert found.head + base[found.start : found.stop] + found.tail == data
    assert 0 <= found.start < found.stop <= len(base)
    if found.kept_items is None:
        return
    shape = shape_at(data)
    assert shape is not None
    in_front = objects_in(found.head[shape.body :])
    kept = objects_in(base[found.start : found.stop])
    behind = objects_in(found.tail)
    assert kept == found.kept_items * shape.width
    assert in_front + kept + behind == shape.items * shape.width


def check_index(index: ValueIndex, data: bytes) -> None:
    """Check that an index says of a value only what is so."""
    if not index.ends:
        return
    assert index.ends[-1] == len(data) == index.size
    starts = [0, *index.ends[:-1]]
    assert all(start < end for start, end in zip(starts, index.ends, strict=True))
    for number, (start, end) in enumerate(zip(starts, index.ends, strict=True)):
        digest = index.digests[16 * number : 16 * number + 16]
        assert digest == sha256(data[start:end]).digest()[:16]
    assert index.shape == (shape_at(data) if index.type == "msgpack" else None)
    known = {end: n for end, n in zip(index.ends, index.items, strict=True) if n != UNKNOWN}
    if index.shape is None:
        assert not known
        return
    assert known[index.shape.body] == 0
    assert known[index.size] == index.shape.items
    at = index.shape.body
    for end, count in sorted(known.items()):
        assert objects_in(data[at:end]) == (count - known[at]) * index.shape.width
        at = end


def cost_of(found: Cut | None, data: bytes) -> int:
    return len(data) if found is None else len(found.head) + len(found.tail)


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(sorted(SHAPES)), st.lists(items, max_size=60), edits)
def test_a_chain_of_cuts_gives_back_every_value(
    shape: str, seeds: list[int], changes: list[Edit]
) -> None:
    """Each value is its head, range and tail, and what an index says of it is so."""
    type_, data = value_of(shape, seeds)
    index = index_of(type_, data)
    check_index(index, data)
    for change in changes:
        seeds = edited(seeds, change)
        base, (type_, data) = data, value_of(shape, seeds)
        found, index = cut(index, type_, data)
        check_index(index, data)
        if found is not None:
            check_cut(base, data, found)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(SHAPES)), st.lists(items, min_size=5, max_size=60), edits)
def test_an_index_of_a_chain_is_as_good_as_a_new_one(
    shape: str, seeds: list[int], changes: list[Edit]
) -> None:
    """A value costs about the same whether its base was read whole or made by cuts."""
    type_, data = value_of(shape, seeds)
    index = index_of(type_, data)
    for change in changes:
        seeds = edited(seeds, change)
        fresh, (type_, data) = index_of(type_, data), value_of(shape, seeds)
        expected, _ = cut(fresh, type_, data)
        found, index = cut(index, type_, data)
        assert cost_of(found, data) <= 2 * cost_of(expected, data) + 2 * STRIDE


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(("msgpack", "bytes", "other")),
    st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(1, 40)), max_size=30),
    st.lists(st.tuples(st.integers(0, 11), st.integers(1, 40)), max_size=30),
)
def test_random_bytes_are_cut_without_an_error(
    type_: str,
    pieces: list[bytes],
    first: list[tuple[int, int]],
    second: list[tuple[int, int]],
) -> None:
    """Bytes that are no msgpack, repetitive or not, come back from their cuts too."""
    base, data = (
        b"".join(pieces[number % len(pieces)] * times for number, times in picked)
        for picked in (first, second)
    )
    found, index = cut(index_of(type_, base), type_, data)
    assert found is None or found.head + base[found.start : found.stop] + found.tail == data
    again, _ = cut(index, type_, base)
    assert again is None or again.head + data[again.start : again.stop] + again.tail == base


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(sorted(SHAPES)),
    st.lists(items, min_size=2, max_size=30),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=5),
    st.integers(0),
)
def test_damaged_values_are_cut_without_an_error(
    shape: str, seeds: list[int], changes: list[tuple[int, int]], length: int
) -> None:
    """A value with wrong bytes or without its end is a base, and a successor, like any other."""
    type_, sound = value_of(shape, seeds)
    damaged = bytearray(sound)
    for place, byte in changes:
        damaged[place % min(len(damaged), 300)] = byte
    broken = bytes(damaged[: len(damaged) - length % 3 * (length % len(damaged))])
    for base, data in ((sound, broken), (broken, sound), (broken, broken + b"\x91" * 300)):
        found, _ = cut(index_of(type_, base), type_, data)
        assert found is None or found.head + base[found.start : found.stop] + found.tail == data
