"""Versions of a growing value: whatever they are made of, they read back whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore.events import Payload
from projector.layout import BLOCKS, VALUES, value_field
from projector.values import (
    BLOCK_BYTES,
    INLINE_BYTES,
    MAX_PIECES,
    Buffer,
    MissingRangeError,
    Piece,
    StoredVersion,
    assembled,
    block_field,
    count_of_pieces,
    extended,
    fields_of,
    pack_value,
    tip_field,
    unpack_value,
    whole,
)

DIGEST = b"digest of 16 b.."
NAMESPACE, CHANNEL = "a:b|c", "messages é\0"
SIZES = (0, 1, 63, 64, 65, 700, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 10_000)

Step = tuple[int, int, int, int, int, int]
"""Kind, base, size of the head, where the range begins and ends (per cent), size of the tail."""

steps = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 99),
        st.sampled_from(SIZES),
        st.integers(0, 100),
        st.integers(0, 100),
        st.sampled_from(SIZES),
    ),
    min_size=1,
    max_size=12,
)


def some_bytes(size: int, seed: int = 0) -> bytes:
    """Return bytes of any value, other ones for another seed."""
    return Random(seed).randbytes(size)


@dataclass
class Store:
    """One channel's cells, and beside them what each version should be."""

    cells: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)
    expected: list[bytes] = field(default_factory=list)
    """By the offset of the event that stored the version."""

    def save(self, data: bytes) -> int:
        """Store a whole value; return its offset."""
        entry = pack_value(Payload("bytes", data), DIGEST)
        return self._put(entry, data)

    def extend(
        self, base: int, head: bytes = b"", span: tuple[int, int] | None = None, tail: bytes = b""
    ) -> int:
        """Store a version that extends another one, the whole of it by default."""
        start, stop = span or (0, len(self.expected[base]))
        buffer = Buffer.unpack(self.cells.get((BLOCKS, tip_field(NAMESPACE, CHANNEL))))
        own = StoredVersion("bytes", DIGEST, head, NAMESPACE)
        version = extended(
            self.version(base), base, own=own, span=(start, stop), tail=tail, buffer=buffer
        )
        for number, block in buffer.full.items():
            self.cells[BLOCKS, block_field(NAMESPACE, CHANNEL, number)] = block
        self.cells[BLOCKS, tip_field(NAMESPACE, CHANNEL)] = buffer.pack()
        return self._put(version.pack(), head + self.expected[base][start:stop] + tail)

    def version(self, offset: int) -> StoredVersion:
        """Return the entry of a version."""
        return StoredVersion.unpack(self.cells[VALUES, value_field(offset, CHANNEL)])

    def read(self, offset: int) -> bytes | None:
        """Return a version's bytes."""
        entry = whole(self.cells[VALUES, value_field(offset, CHANNEL)], CHANNEL, self._look_up)
        if entry is None:
            return None
        payload, digest = unpack_value(entry)
        assert (payload.type, digest) == ("bytes", DIGEST)
        return payload.data

    def needed(self, offset: int) -> set[tuple[bytes, bytes]]:
        """Return the cells that hold a part of a version, beside its own."""
        tip = BLOCKS, tip_field(NAMESPACE, CHANNEL)
        length = Buffer.unpack(self.cells.get(tip)).length
        found: set[tuple[bytes, bytes]] = set()
        for piece in self.version(offset).pieces:
            found |= set(fields_of(NAMESPACE, CHANNEL, piece)) & self.cells.keys() - {tip}
            if piece.source == BLOCKS and piece.stop > length // BLOCK_BYTES * BLOCK_BYTES:
                found.add(tip)
        return found

    def without(self, cell: tuple[bytes, bytes]) -> Store:
        """Return the same with a cell lost."""
        kept = {name: data for name, data in self.cells.items() if name != cell}
        return Store(kept, self.expected)

    def _put(self, entry: bytes, data: bytes) -> int:
        offset = len(self.expected)
        self.cells[VALUES, value_field(offset, CHANNEL)] = entry
        self.expected.append(data)
        return offset

    def _look_up(self, fields: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        return [self.cells.get(name) for name in fields]


def stored(chosen: list[Step]) -> Store:
    """Return a store in which the steps were done: whole values, appends, forks, trims, changes."""
    store = Store()
    store.save(some_bytes(900))
    for number, (kind, base, head, first, last, tail) in enumerate(chosen, 1):
        if kind == 0:
            store.save(some_bytes(tail, number))
            continue
        of = number - 1 if kind < 5 else base % number
        size = len(store.expected[of])
        start, stop = sorted((first * size // 100, last * size // 100))
        span = (0, size) if kind % 2 else (start, stop)
        store.extend(of, some_bytes(head, -number), span, some_bytes(tail, number))
    return store


@settings(deadline=None)
@given(steps)
def test_every_version_is_read_back(chosen: list[Step]) -> None:
    """Chains, forks, trims and replacements give their bytes, old versions like new ones."""
    store = stored(chosen)
    for offset, data in enumerate(store.expected):
        assert store.read(offset) == data
        assert store.version(offset).size == len(data)


@settings(deadline=None)
@given(steps, st.data())
def test_version_with_a_lost_part_is_missing(chosen: list[Step], data: st.DataObject) -> None:
    """Whichever of its parts is lost, a version is missing: it never reads shorter, or as zeros."""
    store = stored(chosen)
    offset = data.draw(st.integers(0, len(store.expected) - 1))
    for cell in store.needed(offset):
        assert store.without(cell).read(offset) is None


@settings(deadline=None)
@given(steps)
def test_lost_part_harms_no_other_version(chosen: list[Step]) -> None:
    """A version of which nothing is lost is read back, whatever else of the buffer is gone."""
    store = stored(chosen)
    for cell in [cell for cell in store.cells if cell[0] == BLOCKS]:
        for offset, expected in enumerate(store.expected):
            if cell not in store.needed(offset):
                assert store.without(cell).read(offset) == expected


class TestBlocks:
    @pytest.mark.parametrize("size", [BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1])
    def test_block_is_full_at_its_size(self, size: int) -> None:
        """What fills a block becomes one that is never written again; the rest waits in the tip."""
        store = Store()
        base = store.save(b"base")
        first = store.extend(base, tail=some_bytes(size))
        blocks = {name for name in store.cells if name[0] == BLOCKS}
        tip = BLOCKS, tip_field(NAMESPACE, CHANNEL)
        numbers = range(size // BLOCK_BYTES)
        full = {(BLOCKS, block_field(NAMESPACE, CHANNEL, number)) for number in numbers}
        assert blocks == {tip} | full
        buffer = Buffer.unpack(store.cells[tip])
        assert (buffer.length, len(buffer.tip)) == (size, size % BLOCK_BYTES)
        second = store.extend(first, tail=b"+")
        assert store.read(first) == b"base" + some_bytes(size)
        assert store.read(second) == b"base" + some_bytes(size) + b"+"

    def test_full_block_is_not_written_again(self) -> None:
        """Appending hands out blocks that became full, and no older ones."""
        buffer = Buffer()
        buffer.append(some_bytes(2 * BLOCK_BYTES + 10))
        assert set(buffer.full) == {0, 1}
        later = Buffer.unpack(buffer.pack())
        later.append(some_bytes(BLOCK_BYTES))
        assert set(later.full) == {2}
        assert later.full[2][:10] == buffer.tip

    def test_append_tells_where_it_stands(self) -> None:
        """Places in a buffer go on from append to append, over any number of blocks."""
        buffer = Buffer()
        assert buffer.append(b"ab") == Piece(BLOCKS, 0, 0, 2)
        assert buffer.append(bytes(BLOCK_BYTES)) == Piece(BLOCKS, 0, 2, 2 + BLOCK_BYTES)
        assert Buffer.unpack(buffer.pack()).append(b"c").start == 2 + BLOCK_BYTES

    def test_missing_buffer_is_empty(self) -> None:
        """A channel that has not grown yet has a buffer of no bytes."""
        assert Buffer.unpack(None).pack() == Buffer().pack()


class TestPieces:
    def test_append_chain_stays_at_two_pieces(self) -> None:
        """A value that only grows is the first one and one range, however often it grew."""
        store = Store()
        last = store.save(some_bytes(500))
        for number in range(50):
            last = store.extend(last, tail=some_bytes(300, number))
        assert [piece.source for piece in store.version(last).pieces] == [VALUES, BLOCKS]
        assert store.read(last) == store.expected[last]

    def test_changing_head_keeps_a_chain_short(self) -> None:
        """A new array header in front of the old items adds no piece, and none for each version."""
        store = Store()
        last = store.save(b"\x91" + some_bytes(500))
        for number in range(50):
            head = b"\x92" if number % 2 else b"\x93"
            size = len(store.expected[last])
            last = store.extend(last, head, (1, size), some_bytes(30, number))
        version = store.version(last)
        assert (version.inline, len(version.pieces)) == (b"\x92", 2)

    def test_fork_refers_and_copies_nothing(self) -> None:
        """Two versions that extend the same one share its ranges; each adds its own tail only."""
        store = Store()
        base = store.save(some_bytes(500))
        trunk = store.extend(base, tail=some_bytes(100, 1))
        left = store.extend(trunk, tail=b"left")
        right = store.extend(trunk, tail=b"right")
        assert store.version(left).pieces[1] == Piece(BLOCKS, 0, 0, 104)
        assert store.version(right).pieces[1:] == (
            Piece(BLOCKS, 0, 0, 100),
            Piece(BLOCKS, 0, 104, 109),
        )
        assert store.read(left) == store.expected[left]
        assert store.read(right) == store.expected[right]

    @pytest.mark.parametrize(
        ("size", "is_inline"), [(INLINE_BYTES, True), (INLINE_BYTES + 1, False)]
    )
    def test_long_head_goes_to_the_buffer(self, size: int, *, is_inline: bool) -> None:
        """A beginning that every later version would repeat is stored once."""
        store = Store()
        base = store.save(b"base")
        first = store.extend(base, some_bytes(size), tail=b"tail")
        assert store.version(first).inline == (some_bytes(size) if is_inline else b"")
        second = store.extend(first, tail=b"more")
        assert store.version(second).inline == store.version(first).inline
        assert store.read(second) == some_bytes(size) + b"basetailmore"

    def test_growing_heads_end_in_the_buffer(self) -> None:
        """Heads in front of heads stay inline only while they are short together."""
        store = Store()
        last = store.save(b"base")
        for _ in range(10):
            last = store.extend(last, b"ten bytes.")
            assert len(store.version(last).inline) <= INLINE_BYTES
        assert store.read(last) == b"ten bytes." * 10 + b"base"

    @pytest.mark.parametrize("span", [(0, 0), (4, 4), (2, 2)])
    def test_empty_range_leaves_the_base_alone(self, span: tuple[int, int]) -> None:
        """A version without a byte of its base does not need it."""
        store = Store()
        base = store.save(b"base")
        new = store.extend(base, b"head", span, b"tail")
        lost = store.without((VALUES, value_field(base, CHANNEL)))
        assert lost.read(new) == b"headtail"

    def test_version_of_a_head_alone_is_whole(self) -> None:
        """Where nothing is left but a short head, there are no pieces, and no buffer is used."""
        store = Store()
        new = store.extend(store.save(b"base"), b"head", (0, 0))
        assert store.version(new) == StoredVersion("bytes", DIGEST, b"head")
        assert store.read(store.extend(new, tail=b"!")) == b"head!"

    def test_empty_value_is_extended(self) -> None:
        """A value of no bytes is a base like any other, and so is its extension by nothing."""
        store = Store()
        first = store.extend(store.save(b""))
        assert store.read(first) == b""
        assert store.read(store.extend(first, tail=b"1")) == b"1"

    def test_piece_of_what_is_not_whole_is_missing(self) -> None:
        """A piece names whole values only; where another entry stands, there is nothing to read."""
        store = Store()
        base = store.save(b"base")
        new = store.extend(base, tail=b"tail")
        name = VALUES, value_field(base, CHANNEL)
        store.cells[name] = store.cells[VALUES, value_field(new, CHANNEL)]
        assert store.read(new) is None

    def test_shorter_base_is_missing(self) -> None:
        """Where a base has lost bytes, what extended it is missing, not shorter."""
        store = Store()
        base = store.save(b"base")
        new = store.extend(base, tail=b"tail")
        store.cells[VALUES, value_field(base, CHANNEL)] = pack_value(
            Payload("bytes", b"bas"), DIGEST
        )
        assert store.read(new) is None


class TestMissingRange:
    @pytest.mark.parametrize("span", [(0, 5), (5, 5), (3, 2), (-1, 2)])
    @pytest.mark.parametrize("is_extended", [False, True])
    def test_base_has_to_have_the_range(self, span: tuple[int, int], *, is_extended: bool) -> None:
        """A range that is not in the base is refused, and the buffer keeps what it has."""
        store = Store()
        base = store.save(b"ba" if is_extended else b"base")
        if is_extended:
            base = store.extend(base, tail=b"se")
        before = dict(store.cells)
        with pytest.raises(MissingRangeError, match="of a value that has 4"):
            store.extend(base, b"head", span, b"tail")
        assert store.cells == before

    def test_base_lies_in_the_same_namespace(self) -> None:
        """A version's pieces lie in one buffer, so those of another namespace cannot be had."""
        pieces = (Piece(BLOCKS, 0, 0, 9),)
        base = StoredVersion("bytes", DIGEST, b"", "elsewhere", pieces)
        own = StoredVersion("bytes", DIGEST, b"", NAMESPACE)
        with pytest.raises(MissingRangeError, match="elsewhere"):
            extended(base, 0, own=own, span=(0, 9), tail=b"", buffer=Buffer())

    def test_whole_base_has_no_namespace(self) -> None:
        """A value that was stored whole is found by its offset, wherever it was stored."""
        base = StoredVersion("bytes", DIGEST, b"base")
        own = StoredVersion("bytes", DIGEST, b"", NAMESPACE)
        version = extended(base, 7, own=own, span=(1, 3), tail=b"", buffer=Buffer())
        assert version == replace(own, pieces=(Piece(VALUES, 7, 1, 3),))

    def test_pieces_are_bounded(self) -> None:
        """A version of too many pieces is refused; one of as many as there may be is not."""
        apart = [Piece(BLOCKS, 0, 2 * n, 2 * n + 1) for n in range(MAX_PIECES)]
        own = StoredVersion("bytes", DIGEST, b"", NAMESPACE)
        base = replace(own, pieces=tuple(apart))
        buffer = Buffer.unpack(Buffer(10_000, bytes(10_000 % BLOCK_BYTES)).pack())
        kept = extended(base, 0, own=own, span=(0, base.size), tail=b"", buffer=buffer)
        assert kept.pieces == base.pieces
        with pytest.raises(MissingRangeError, match=f"{MAX_PIECES + 1} pieces"):
            extended(base, 0, own=own, span=(0, base.size), tail=b"+", buffer=buffer)


small = st.integers(0, (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
versions = st.builds(
    StoredVersion,
    type=texts,
    digest=st.binary(min_size=16, max_size=16),
    inline=st.binary(max_size=INLINE_BYTES),
    namespace=texts,
    pieces=st.lists(
        st.builds(Piece, st.sampled_from([VALUES, BLOCKS]), small, small, small),
        min_size=1,
        max_size=5,
    ).map(tuple),
)


class TestBytes:
    @given(versions)
    def test_version_is_its_bytes(self, version: StoredVersion) -> None:
        """What is packed is unpacked, whatever the texts and the bytes are."""
        assert StoredVersion.unpack(version.pack()) == version
        assert count_of_pieces(version.pack()) == len(version.pieces)

    @given(texts, st.binary(max_size=300))
    def test_whole_value_is_a_version_without_pieces(self, kind: str, data: bytes) -> None:
        """Both ways of packing a whole value are one."""
        entry = pack_value(Payload(kind, data), DIGEST)
        assert StoredVersion.unpack(entry) == StoredVersion(kind, DIGEST, data)
        assert StoredVersion(kind, DIGEST, data).pack() == entry
        assert unpack_value(entry) == (Payload(kind, data), DIGEST)
        assert count_of_pieces(entry) == 0

    @given(versions, st.lists(st.binary(max_size=9), max_size=5))
    def test_assembled_version_reads_as_a_whole_one(
        self, version: StoredVersion, contents: list[bytes]
    ) -> None:
        """The contents stand where the pieces stood; how many there were can still be told."""
        entry = assembled(version.pack(), contents)
        data = version.inline + b"".join(contents)
        assert unpack_value(entry) == (Payload(version.type, data), version.digest)
        assert count_of_pieces(entry) == len(version.pieces)
