"""Sealed values: cut into pieces, taken over by later versions, and checked as a whole."""

from __future__ import annotations

import struct
from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.events import Payload
from saver.cipher import aes_cipher
from saver.errors import PieceMovedError, PiecesMixedError, PieceUnreadableError
from saver.sealing import MAX_PIECE_BYTES, Cut, PieceIdentity, Sealer, pieces_covering

from .ciphers import Counting

FIRST = PieceIdentity("thread", "", "channel:messages", b"1" * 16)
SECOND = replace(FIRST, event_id=b"2" * 16)
SEALER = Sealer(aes_cipher(b"k" * 16))


def cuts(pieces: list[bytes], identity: PieceIdentity) -> list[Cut]:
    """Return the cuts that are all of a value's own pieces."""
    return [Cut(identity.at(number), piece) for number, piece in enumerate(pieces)]


def test_a_piece_0_carries_digest_and_type_of_the_whole() -> None:
    """The head stands behind the flags, as documented, and in piece 0 only."""
    whole = Payload("msgpack", b"hello world")
    first, second = Sealer(Counting()).seal_value(whole, FIRST, chunk=6)
    digest = blake2b(whole.data, digest_size=16).digest()
    head = digest + struct.pack(">H", 7) + b"msgpack"
    assert first[7:] == FIRST.digest() + b"\x02" + head + b"hello "
    assert second[7:] == FIRST.at(1).digest() + b"\x00" + b"world"


@given(
    data=st.binary(max_size=3_000),
    kind=st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    chunk=st.integers(100, 4_000),
)
def test_a_value_of_any_size_comes_back(data: bytes, kind: str, chunk: int) -> None:
    """However it is cut, type and bytes are those that were sealed."""
    pieces = SEALER.seal_value(Payload(kind, data), FIRST, chunk=chunk)
    assert len(pieces) == max(1, -(-len(data) // chunk))
    assert SEALER.open_value(cuts(pieces, FIRST)) == Payload(kind, data)


@given(
    old=st.binary(max_size=500),
    head=st.binary(max_size=50),
    tail=st.binary(max_size=500),
    chunk=st.integers(20, 600),
    data=st.data(),
)
def test_a_version_takes_over_a_range_of_an_earlier_one(
    old: bytes, head: bytes, tail: bytes, chunk: int, data: st.DataObject
) -> None:
    """Own head, whole pieces of the earlier value with what to skip, own tail: the new value."""
    start = data.draw(st.integers(0, len(old)))
    stop = data.draw(st.integers(start, len(old)))
    whole = Payload("msgpack", head + old[start:stop] + tail)
    earlier = SEALER.seal_value(Payload("msgpack", old), FIRST, chunk=chunk)
    own = SEALER.seal_value(whole, SECOND, own=head + tail, chunk=chunk)

    def covering(begin: int, end: int, pieces: list[bytes], identity: PieceIdentity) -> list[Cut]:
        found = pieces_covering(begin, end, chunk=chunk)
        return [Cut(identity.at(n), pieces[n], first, last) for n, first, last in found]

    opened = SEALER.open_value(
        [
            Cut(SECOND, own[0], 0, 0),
            *covering(0, len(head), own, SECOND),
            *covering(start, stop, earlier, FIRST),
            *covering(len(head), len(head) + len(tail), own, SECOND),
        ]
    )
    assert opened == whole
    stored = [SEALER.open(piece, SECOND.at(number)) for number, piece in enumerate(own)]
    assert b"".join(stored) == head + tail


def test_a_version_may_store_nothing_of_its_own() -> None:
    """A value that is all taken over costs one piece with a head and no data."""
    (old,) = SEALER.seal_value(Payload("bytes", b"abcd"), FIRST)
    (own,) = SEALER.seal_value(Payload("bytes", b"cd"), SECOND, own=b"")
    assert SEALER.open(own, SECOND) == b""
    opened = SEALER.open_value([Cut(SECOND, own), Cut(FIRST, old, 2)])
    assert opened == Payload("bytes", b"cd")


def test_a_range_is_covered_by_the_fewest_pieces() -> None:
    """A piece is named only where some of it belongs to the range."""
    assert pieces_covering(0, 0, chunk=10) == []
    assert pieces_covering(5, 5, chunk=10) == []
    assert pieces_covering(0, 10, chunk=10) == [(0, 0, 10)]
    assert pieces_covering(10, 11, chunk=10) == [(1, 0, 1)]
    assert pieces_covering(9, 31, chunk=10) == [(0, 9, 10), (1, 0, 10), (2, 0, 10), (3, 0, 1)]


def test_a_piece_that_is_cut_twice_is_opened_once() -> None:
    """A small increment has head and tail in one piece, and costs one decryption."""
    cipher = Counting()
    sealer = Sealer(cipher)
    (old,) = sealer.seal_value(Payload("msgpack", b"0abc"), FIRST)
    (own,) = sealer.seal_value(Payload("msgpack", b"1abcdef"), SECOND, own=b"1def")
    opened = sealer.open_value([Cut(SECOND, own, 0, 1), Cut(FIRST, old, 1, 4), Cut(SECOND, own, 1)])
    assert opened == Payload("msgpack", b"1abcdef")
    assert cipher.decrypted == 2


def test_pieces_in_their_places_that_are_not_the_value_are_refused() -> None:
    """Left out, exchanged, cut elsewhere, or of another version: the digest of the whole tells."""
    pieces = cuts(SEALER.seal_value(Payload("bytes", b"abcdef"), FIRST, chunk=2), FIRST)
    first, second, third = pieces
    for wrong in (
        [first],
        [first, second],
        [first, third, second],
        [first, second, third, third],
        [first, second, replace(third, stop=1)],
    ):
        with pytest.raises(PiecesMixedError, match="are not the value that was sealed") as caught:
            SEALER.open_value(wrong)
        assert (caught.value.thread_id, caught.value.piece) == ("thread", 0)
        assert caught.value.cipher_name == "aes"
    other = SEALER.seal_value(Payload("bytes", b"ABcdef"), SECOND, own=b"AB")
    with pytest.raises(PiecesMixedError):
        SEALER.open_value([Cut(SECOND, other[0]), first, second])


def test_a_value_begins_with_its_own_piece_0() -> None:
    """Without the head there is nothing to check the whole against, so it is refused."""
    first, second = cuts(SEALER.seal_value(Payload("bytes", b"abcd"), FIRST, chunk=2), FIRST)
    with pytest.raises(PieceUnreadableError, match="a value's piece 0 has a head") as caught:
        SEALER.open_value([second, first])
    assert caught.value.piece == 1
    with pytest.raises(PieceUnreadableError):
        SEALER.open_value([Cut(FIRST, SEALER.seal(b"abcd", FIRST))])


def test_a_piece_moved_within_a_value_is_refused() -> None:
    """Two pieces that change places are each sealed for the other one's."""
    first, second, third = SEALER.seal_value(Payload("bytes", b"abcdef"), FIRST, chunk=2)
    with pytest.raises(PieceMovedError) as caught:
        SEALER.open_value(cuts([first, third, second], FIRST))
    assert caught.value.piece == 1


def test_opening_a_piece_leaves_out_its_head() -> None:
    """What `open` returns of a piece 0 is its data alone."""
    (piece,) = SEALER.seal_value(Payload("msgpack", b"hello"), FIRST)
    assert SEALER.open(piece, FIRST) == b"hello"


def test_pieces_are_numbered_from_0() -> None:
    """Whatever number the given identity has."""
    pieces = SEALER.seal_value(Payload("bytes", b"abcd"), FIRST.at(7), chunk=2)
    assert SEALER.open_value(cuts(pieces, FIRST)) == Payload("bytes", b"abcd")


@pytest.mark.parametrize("chunk", [0, -1, MAX_PIECE_BYTES + 1])
def test_a_chunk_has_bounds(chunk: int) -> None:
    """Pieces hold at least one byte and at most what can be opened."""
    with pytest.raises(ValueError, match=f"pieces of {chunk} bytes"):
        SEALER.seal_value(Payload("bytes", b""), FIRST, chunk=chunk)


def test_a_type_has_a_limit() -> None:
    """Its length fits into two bytes, or nothing is sealed."""
    longest = Payload("x" * 65_535, b"data")
    pieces = SEALER.seal_value(longest, FIRST, chunk=MAX_PIECE_BYTES)
    assert SEALER.open_value(cuts(pieces, FIRST)) == longest
    with pytest.raises(ValueError, match="a type of 65536 bytes, the limit is 65535"):
        SEALER.seal_value(Payload("x" * 65_536, b"data"), FIRST)
