"""What an index costs: memory, and bytes looked at, however long a chain and whatever the bytes."""

from __future__ import annotations

from array import array
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import saver.value_index
from saver.increments import Cut, ValueIndex, cut, index_of
from saver.tokens import BLOCK, FINE, STRIDE, Scan, shape_at
from saver.value_index import MAX_SIZE

SERDE = JsonPlusSerializer()
ITEM = 600


def items_of(count: int, size: int = ITEM) -> list[bytes]:
    random = Random(count)
    return [random.randbytes(size - 3) for _ in range(count)]


class Chain:
    """A value that changes, each time cut from the index of the time before."""

    def __init__(self, value: Any) -> None:
        self.type, self.data = SERDE.dumps_typed(value)
        self.index: ValueIndex = index_of(self.type, self.data)

    def put(self, value: Any) -> int:
        """Return how many new bytes the next value needs."""
        base, (self.type, self.data) = self.data, SERDE.dumps_typed(value)
        found, self.index = cut(self.index, self.type, self.data)
        if found is None:
            return len(self.data)
        assert found.head + base[found.start : found.stop] + found.tail == self.data
        return len(found.head) + len(found.tail)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the sizes of all that is hashed."""
    sizes: list[int] = []

    def counted(piece: memoryview) -> Any:
        sizes.append(len(piece))
        return sha256(piece)

    monkeypatch.setattr(saver.value_index, "sha256", counted)
    return sizes


def test_an_index_takes_a_twentieth_of_its_value() -> None:
    """One block for each item of 600 bytes, and some that is the same for all."""
    index = index_of(*SERDE.dumps_typed(items_of(1_000)))
    assert len(index.ends) == 1_001
    assert index.weight <= index.size / 20


def test_an_index_of_a_large_value_is_coarse_but_at_its_end() -> None:
    """Blocks are joined, but not those of the last items, so that these can change one by one."""
    items = items_of(10_000)
    chain = Chain(items)
    assert len(chain.index.ends) <= 2_048
    for change in (items[:-1], items[:-3], [*items[:-50], b"new"], [*items, items[0]]):
        chain = Chain(items)
        assert chain.put(change) <= ITEM + 16


def test_a_list_that_grows_long_keeps_a_small_index() -> None:
    """Each item costs its own bytes, also when blocks have been joined in between."""
    items = items_of(2_500)
    chain = Chain(items[:2_000])
    for count in range(2_001, 2_500, 7):
        assert chain.put(items[:count]) <= 7 * ITEM + 16
        assert len(chain.index.ends) <= 2_048
    assert chain.put(items[:2_400]) <= 16


@pytest.mark.parametrize("in_front", [False, True])
def test_small_items_that_come_one_by_one_share_blocks(in_front: bool) -> None:  # noqa: FBT001
    """A block of its own for each would make the index larger than the value."""
    items = [f"item {number:>8}" for number in range(400)]
    values = [items[-count:] if in_front else items[:count] for count in range(100, 401)]
    chain = Chain(values[0])
    for value in values[1:]:
        assert chain.put(value) <= 64
    assert len(chain.index.ends) <= 2 * chain.index.size // 256 + 16


def test_text_that_grows_word_by_word_shares_blocks() -> None:
    """As a streamed answer does."""
    words = "".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz ", k=6_000))
    for chain, as_bytes in ((Chain(words[:1_000]), False), (Chain(words[:1_000].encode()), True)):
        for size in range(1_010, len(words), 10):
            grown = words[:size]
            assert chain.put(grown.encode() if as_bytes else grown) <= 16
        assert len(chain.index.ends) <= len(words) // 256 + 16


@pytest.mark.parametrize("size", [2_000, 100_000])
def test_repetitive_bytes_are_hashed_a_few_times(size: int, hashed: list[int]) -> None:
    """Many places look right; they are not all followed to the end."""
    for base, data in (
        (b"\0" * size, b"\1" + b"\0" * size + b"\2"),
        (b"ab" * size, b"ba" * (size // 2) + b"c" + b"ab" * (size // 2)),
        (b"\0" * size + b"\1" * size, (b"\0" * 500 + b"\1" * 500) * (size // 500)),
    ):
        index = index_of("bytes", base)
        hashed.clear()
        cut(index, "bytes", data)
        assert sum(hashed) <= 3 * len(base) + len(data) + 64 * STRIDE


def test_an_appended_item_is_all_that_is_hashed_twice(hashed: list[int]) -> None:
    """The base is looked at once, to compare it, and makes the new index with the new items."""
    items = items_of(601)
    chain = Chain(items[:600])
    hashed.clear()
    chain.put(items)
    assert sum(hashed) <= len(chain.data) + 16


def test_a_scan_ends_after_some_tokens() -> None:
    """What is behind them is cut at even distances, and its end is taken for an item's."""
    _, data = SERDE.dumps_typed([1] * 200_000)
    shape = shape_at(data)
    assert shape is not None
    scan = Scan(data)
    scan.whole(shape)
    assert scan.is_spent
    assert len(scan.items) < 200
    assert max(b - a for a, b in zip(scan.cuts, scan.cuts[1:], strict=False)) <= STRIDE + BLOCK
    assert scan.items[len(data)] == 200_000


def test_cuts_are_denser_near_the_end() -> None:
    """A changed last token costs little, however deep it lies."""
    chain = Chain({"state": {f"key {number}": number for number in range(1_000)}})
    value = {"state": {f"key {number}": number for number in range(999)} | {"key 999": "new"}}
    assert chain.put(value) <= FINE // 4 + 64


def test_deep_nesting_is_cut_without_an_error() -> None:
    """Neither containers nor extensions are followed down without a limit."""
    lists = b"\x91" * 300_000
    extensions = b"".join(b"\xc9" + (300_000 - 6 * n).to_bytes(4) + b"\0" for n in range(1, 900))
    for data in (lists, extensions.ljust(300_000, b"\0"), extensions):
        index = index_of("msgpack", data)
        assert len(index.ends) <= 2_048
        found, _ = cut(index, "msgpack", data + b"\0")
        assert found is None or found.head + data[found.start : found.stop] + found.tail == (
            data + b"\0"
        )


def test_what_is_too_large_for_an_index_is_stored_whole() -> None:
    """Its index says how large it is, and nothing else."""
    base = ValueIndex("bytes", MAX_SIZE + 1, None, array("I"), array("I"), b"", b"")
    found, _ = cut(base, "bytes", b"x" * 1_000)
    assert found is None


def test_a_value_that_is_damaged_keeps_no_items() -> None:
    """Bytes behind the last item, or too few of them, make the number of items unknown."""
    _, data = SERDE.dumps_typed(items_of(20))
    index = index_of("msgpack", data)
    for damaged in (data + b"\1", data[:-1]):
        found, _ = cut(index, "msgpack", damaged)
        assert isinstance(found, Cut)
        assert found.kept_items is None
