"""Chains of sealed entries: versions of a value, each of which stores what is new to it."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventstore.events import Payload
from saver import sealed
from saver.cipher import aes_cipher
from saver.errors import PieceMovedError, PiecesMixedError, SealedPieceError
from saver.sealed import (
    ENTRY_COST,
    MAX_SEGMENTS,
    Chain,
    Link,
    Spot,
    event_of,
    opened,
    sealed_next,
    sealed_whole,
)
from saver.sealing import CHUNK_BYTES, Sealer

from .ciphers import Counting

SPOT = Spot("thread", "", "channel:messages")
AES = Sealer(aes_cipher(b"k" * 16))
ID = [number.to_bytes(16) for number in range(10)]


def text(random: Random) -> bytes:
    """Return a message of 400 bytes that cannot be compressed."""
    return random.randbytes(400)


class Growing:
    """A value in its versions, as the log keeps them."""

    def __init__(self, first: bytes, sealer: Sealer = AES, spot: Spot = SPOT) -> None:
        self.sealer = sealer
        self.spot = spot
        self.whole = 0
        """How often it was stored whole."""
        self.written = 0
        self.events = 0
        self.value = Payload("msgpack", first)
        self.store_whole()

    def event_id(self) -> bytes:
        self.events += 1
        return self.events.to_bytes(16)

    def store_whole(self) -> None:
        self.whole += 1
        link = sealed_whole(self.sealer, self.value, self.spot, self.event_id())
        self.data, self.chain = link
        self.written += len(link.data)

    def become(self, head: bytes, start: int, stop: int, tail: bytes) -> None:
        """Take over a range of the present version, between new bytes."""
        self.value = Payload("msgpack", head + self.value.data[start:stop] + tail)
        link = self.next(head, start, stop)
        if link is None:
            self.store_whole()
        else:
            self.data, self.chain = self.data + link.data, link.chain
            self.written += len(link.data)

    def next(self, head: bytes, start: int, stop: int) -> Link | None:
        return sealed_next(
            self.sealer,
            self.value,
            self.spot,
            self.event_id(),
            chain=self.chain,
            span=(len(head), start, stop),
            limit=len(self.value.data),
        )

    def append(self, tail: bytes) -> None:
        self.become(b"", 0, len(self.value.data), tail)

    def opened(self) -> Payload:
        return opened(self.sealer, self.data, self.spot)


def test_an_entry_stands_behind_its_length_with_its_numbers_in_clear() -> None:
    """As the format says: the numbers, then each sealed piece behind its length."""
    value = Growing(b"Hello" * 200, Sealer(Counting()))
    assert struct.unpack_from(">I", value.data)[0] == len(value.data) - 4
    assert value.data[4:48] == struct.pack(">16sQQIII", ID[1], 0, 0, 1_000, 1_000, 1)
    assert struct.unpack_from(">I", value.data, 48)[0] == len(value.data) - 52
    before = len(value.data)
    value.become(b"J", 1, 1_000, b"ya")
    entry = value.data[before:]
    assert entry[4:48] == struct.pack(">16sQQIII", ID[2], 1, 1_000, 1, 3, 1)
    assert entry.endswith(b"Jya")
    assert value.opened() == Payload("msgpack", b"J" + (b"Hello" * 200)[1:] + b"ya")


@given(
    first=st.binary(max_size=900),
    steps=st.lists(
        st.tuples(
            st.binary(max_size=40),
            st.floats(0, 1),
            st.floats(0, 1),
            st.binary(max_size=300),
        ),
        max_size=100,
    ),
)
@settings(deadline=None)
def test_every_version_comes_back(
    first: bytes, steps: list[tuple[bytes, float, float, bytes]]
) -> None:
    """Whatever is taken over between new bytes; and a reader knows what the writer knows."""
    value = Growing(first, Sealer(Counting()))
    for head, begin, share, tail in steps:
        size = len(value.value.data)
        start = int(begin * size)
        value.become(head, start, start + int(share * (size - start)), tail)
        assert value.opened() == value.value
        read = Chain.of(value.data)
        for known in ("event_id", "size", "entries", "cost", "rope", "digest"):
            assert getattr(read, known) == getattr(value.chain, known)
        assert event_of(value.data) == value.chain.event_id
        assert len(value.chain.rope) <= MAX_SEGMENTS


def test_growing_costs_what_is_added_and_a_few_times_that() -> None:
    """Of 2,000 messages each is stored again a few times, and so rarely that it stays cheap."""
    value = Growing(b"", Sealer(Counting()))
    random = Random(1)
    for _ in range(2_000):
        value.become(b"len", min(3, len(value.value.data)), len(value.value.data), text(random))
        assert len(value.data) < 2.2 * len(value.value.data) + 1_000
    assert value.opened() == value.value
    assert value.written < 4 * len(value.value.data)
    assert value.whole < 8


def test_an_entry_costs_what_is_said() -> None:
    """With AES, about 150 bytes beside what is new."""
    value = Growing(text(Random(0)) * 10)
    before = value.written
    value.append(text(Random(1)))
    assert 400 < value.written - before < 400 + ENTRY_COST


def test_reading_opens_few_pieces() -> None:
    """However often a value grew, no more than the bound; and entries that it left none at all."""
    cipher = Counting()
    value = Growing(b"x" * 9_000, Sealer(cipher))
    for number in range(200):
        value.append(b"%d" % number)
        cipher.decrypted = 0
        value.opened()
        assert cipher.decrypted <= MAX_SEGMENTS
    value = Growing(b"x" * 1_000, Sealer(cipher))
    value.become(b"y" * 2_000, 0, 10, b"")
    value.become(b"", 0, 1_900, b"end")
    assert value.whole == 1
    cipher.decrypted = 0
    value.opened()
    assert cipher.decrypted == 2


def test_a_value_that_lost_its_half_is_stored_whole() -> None:
    """No reader drags along more than about as much again as it needs."""
    value = Growing(b"x" * 1_000)
    value.become(b"", 0, 700, b"")
    assert value.whole == 1
    value.become(b"", 0, 300, b"")
    assert value.whole == 2


def test_what_is_above_a_limit_is_stored_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Own bytes that one event cannot hold, and entries that take long to go through."""
    value = Growing(b"x" * 10_000)
    spot = (0, 0, 10_000)
    value.value = Payload("msgpack", b"x" * 10_000 + b"y" * 100)
    for limit, is_stored in ((99, False), (100, True)):
        link = sealed_next(AES, value.value, SPOT, ID[9], chain=value.chain, span=spot, limit=limit)
        assert (link is not None) is is_stored
    monkeypatch.setattr(sealed, "MAX_ENTRIES", 1)
    assert value.next(b"", 0, 10_000) is None


def test_large_values_have_several_pieces() -> None:
    """Each entry's own bytes are cut; a range opens those pieces alone that it touches."""
    cipher = Counting()
    value = Growing(Random(1).randbytes(2 * CHUNK_BYTES + 1), Sealer(cipher))
    assert value.opened() == value.value
    assert cipher.decrypted == 3
    value.become(b"", CHUNK_BYTES, 2 * CHUNK_BYTES, b"end")
    cipher.decrypted = 0
    assert value.opened() == value.value
    assert cipher.decrypted == 2


def test_a_chain_stays_where_it_was_sealed() -> None:
    """In another thread, namespace or channel it is refused, and the error names that place."""
    value = Growing(b"secret" * 200)
    value.append(b"more")
    for place in (
        SPOT._replace(thread_id="other"),
        SPOT._replace(namespace="child"),
        SPOT._replace(slot="channel:other"),
    ):
        with pytest.raises(PieceMovedError) as caught:
            opened(AES, value.data, place)
        error = caught.value
        assert (error.thread_id, error.namespace, error.slot) == place


def test_entries_of_two_values_do_not_mix() -> None:
    """Each is in its place; together they are not what was sealed."""
    one, other = Growing(b"one" * 400), Growing(b"two" * 400)
    whole = len(one.data)
    one.append(b"1")
    with pytest.raises(PiecesMixedError):
        opened(AES, other.data + one.data[whole:], SPOT)


def test_numbers_in_clear_are_not_trusted() -> None:
    """A changed event id is another place, a changed range another value; neither is shown."""
    value = Growing(b"abc" * 400)
    whole = len(value.data)
    value.append(b"more")
    for at, error in ((whole + 4, PieceMovedError), (whole + 27, PiecesMixedError)):
        changed = bytearray(value.data)
        changed[at] ^= 1
        with pytest.raises(error):
            opened(AES, bytes(changed), SPOT)


@given(cut=st.integers(0, 1_500), noise=st.binary(max_size=60))
@example(cut=0, noise=b"")
@example(cut=0, noise=bytes(4) + b"\0\0\0\1x")
@example(cut=0, noise=struct.pack(">I16sQQIII", 44, ID[1], 0, 0, 0, 0, 0))
@example(cut=0, noise=struct.pack(">I16sQQIIIIc", 49, ID[1], 0, 9, 0, 1, 1, 1, b"x"))
@example(cut=0, noise=struct.pack(">I16sQQIIIIcc", 50, ID[1], 0, 0, 0, 1, 1, 1, b"x", b"y"))
def test_what_is_no_chain_is_refused(cut: int, noise: bytes) -> None:
    """Cut off or made up, it raises the error with the place, and nothing else."""
    value = Growing(b"abc" * 300)
    whole = len(value.data)
    value.append(b"more")
    cut = min(cut, len(value.data) - 1)
    broken = value.data[:cut] + noise
    if broken == value.data[:whole]:
        return
    with pytest.raises(SealedPieceError) as caught:
        opened(AES, broken, SPOT)
    assert caught.value.slot == "channel:messages"
    assert isinstance(event_of(broken), bytes)
