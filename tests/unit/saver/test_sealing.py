"""Sealed pieces: what is sealed in one place opens there, whole, and nowhere else."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from itertools import combinations

import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from saver import sealing
from saver.cipher import RotatingCipher, aes_cipher
from saver.errors import (
    PieceMovedError,
    PieceUnreadableError,
    SaverError,
    SealedPieceError,
    UnknownKeyError,
)
from saver.sealing import PieceIdentity, Sealer

PLACE = PieceIdentity("thread", "ns", "channel:messages", b"e" * 16, 3)
LONG = b"What was said, again and again. " * 40


class Xor(CipherProtocol):
    """Decrypts anything, as a cipher without integrity does."""

    def __init__(self, name: str = "xor", mask: int = 0x5A) -> None:
        self._name = name
        self._mask = mask

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return self._name, bytes(byte ^ self._mask for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(byte ^ self._mask for byte in ciphertext)


class Clear(Xor):
    """Encrypts nothing, so that tests can read and write plaintexts."""

    def __init__(self) -> None:
        super().__init__("clear", 0)


AES = Sealer(aes_cipher(b"k" * 32))
XOR = Sealer(Xor())
CLEAR = Sealer(Clear())

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
identities = st.builds(
    PieceIdentity, texts, texts, texts, st.binary(max_size=20), st.integers(0, (1 << 64) - 1)
)
every_sealer = pytest.mark.parametrize("sealer", [AES, XOR], ids=["aes", "xor"])


def identity_bytes(identity: PieceIdentity) -> bytes:
    """Return the identity's digest, written from the documented layout."""
    canonical = b"\x01"
    for text in (identity.thread_id, identity.namespace, identity.slot):
        canonical += struct.pack(">I", len(text.encode())) + text.encode()
    canonical += struct.pack(">I", len(identity.event_id)) + identity.event_id
    canonical += struct.pack(">Q", identity.piece)
    return blake2b(canonical, digest_size=32).digest()


def framed(plaintext: bytes) -> bytes:
    """Return a piece with this plaintext that `CLEAR` opens."""
    return b"\x01\x05clear" + plaintext


def reason_of(sealed: bytes, sealer: Sealer = CLEAR) -> str:
    """Return why a piece at `PLACE` cannot be read."""
    with pytest.raises(PieceUnreadableError) as caught:
        sealer.open(sealed, PLACE)
    return caught.value.reason


@every_sealer
@given(data=st.binary(max_size=2_000), repeat=st.integers(1, 20), identity=identities)
def test_what_is_sealed_opens_where_it_belongs(
    sealer: Sealer, data: bytes, repeat: int, identity: PieceIdentity
) -> None:
    """Any bytes come back from any place, compressible or not."""
    assert sealer.open(sealer.seal(data * repeat, identity), identity) == data * repeat


@given(data=st.binary(max_size=600), one=identities, other=identities)
def test_a_piece_of_another_place_is_refused(
    data: bytes, one: PieceIdentity, other: PieceIdentity
) -> None:
    """Whatever place it was sealed for, it opens at no other one."""
    assume(one != other)
    with pytest.raises(PieceMovedError):
        XOR.open(XOR.seal(data, other), one)


@every_sealer
@pytest.mark.parametrize(
    "other",
    [
        replace(PLACE, thread_id="other"),
        replace(PLACE, namespace="other"),
        replace(PLACE, slot="channel:other"),
        replace(PLACE, event_id=b"f" * 16),
        replace(PLACE, piece=4),
    ],
    ids=["thread", "namespace", "slot", "event", "piece"],
)
def test_each_part_of_the_place_counts(sealer: Sealer, other: PieceIdentity) -> None:
    """A piece is refused where only one part of its place differs, and the error says where."""
    sealed = sealer.seal(LONG, other)
    with pytest.raises(PieceMovedError, match="another place") as caught:
        sealer.open(sealed, PLACE)
    error = caught.value
    assert (error.thread_id, error.namespace, error.slot) == ("thread", "ns", "channel:messages")
    assert (error.event_id, error.piece) == ((b"e" * 16).hex(), 3)
    assert error.cipher_name in {"aes", "xor"}
    for fact in ("'thread'", "'ns'", "'channel:messages'", error.event_id, error.cipher_name):
        assert fact in str(error)
    assert isinstance(error, SealedPieceError)
    assert isinstance(error, SaverError)
    assert not error.retriable


def test_parts_of_a_place_do_not_run_together() -> None:
    """Where one part ends and the next begins counts as well."""
    places = [
        PieceIdentity("ab", "c", "d", b"e"),
        PieceIdentity("a", "bc", "d", b"e"),
        PieceIdentity("ab", "", "cd", b"e"),
        PieceIdentity("ab", "c", "", b"de"),
        PieceIdentity("ab", "c", "de", b""),
    ]
    assert all(one.digest() != other.digest() for one, other in combinations(places, 2))


@given(identity=identities, data=st.binary(max_size=200))
def test_bytes_are_those_of_the_documented_layout(identity: PieceIdentity, data: bytes) -> None:
    """A piece is its frame, its place's digest, its flags and its data."""
    assert CLEAR.seal(data, identity) == framed(identity_bytes(identity) + b"\x00" + data)


def test_data_is_compressed_where_that_makes_it_smaller() -> None:
    """From 256 bytes on a Zstandard frame takes the place of the data, unless it is larger."""
    short, fitting = b"a" * 255, b"a" * 256
    random = b"".join(blake2b(bytes([number])).digest() for number in range(8))
    start = len(framed(b"")) + 32
    assert CLEAR.seal(short, PLACE)[start:] == b"\x00" + short
    assert CLEAR.seal(random, PLACE)[start:] == b"\x00" + random
    compressed = CLEAR.seal(fitting, PLACE)[start:]
    assert compressed[:1] == b"\x01"
    assert zstandard.decompress(compressed[1:]) == fitting


@given(data=st.data())
def test_any_changed_byte_is_refused(data: st.DataObject) -> None:
    """With an authenticating cipher no byte of a piece may differ, the frame included."""
    sealed = AES.seal(data.draw(st.sampled_from([b"", b"hello", LONG])), PLACE)
    at = data.draw(st.integers(0, len(sealed) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = sealed[:at] + bytes([sealed[at] ^ flip]) + sealed[at + 1 :]
    with pytest.raises(PieceUnreadableError):
        AES.open(changed, PLACE)


@every_sealer
def test_a_piece_cut_short_is_refused(sealer: Sealer) -> None:
    """A piece of which the end is missing is never taken for a shorter one."""
    sealed = sealer.seal(LONG, PLACE)
    for length in range(len(sealed)):
        with pytest.raises(PieceUnreadableError):
            sealer.open(sealed[:length], PLACE)


def test_a_broken_frame_says_what_is_wrong() -> None:
    """Bytes that are no sealed piece are told apart from those that the cipher refuses."""
    assert reason_of(b"") == "0 bytes are no sealed piece"
    assert reason_of(b"\x01") == "1 bytes are no sealed piece"
    assert reason_of(b"\x02\x05clear" + b"x" * 40) == "version 2 of sealed pieces is unknown"
    assert reason_of(b"\x01\x06clear") == "it ends within the cipher's name"
    assert reason_of(b"\x01\x01\xff" + b"x" * 40) == "the cipher's name is not UTF-8"
    assert reason_of(framed(b"x" * 32)) == "32 bytes of plaintext"


def test_a_plain_value_is_no_sealed_piece() -> None:
    """What was written without a cipher is refused by name of its place."""
    plain = JsonPlusSerializer().dumps_typed({"messages": ["hello"]})[1]
    with pytest.raises(PieceUnreadableError, match="'channel:messages' of thread 'thread'"):
        AES.open(plain, PLACE)


def test_a_broken_plaintext_says_what_is_wrong() -> None:
    """Flags, heads and frames that `seal` does not make are refused, and no data is shown."""
    place = identity_bytes(PLACE)
    assert reason_of(framed(place + b"\x04")) == "bad plaintext: unknown flags 4"
    head = place + b"\x02" + b"d" * 16
    assert reason_of(framed(head + b"\x00")) == "bad plaintext: it ends within the head"
    assert reason_of(framed(head + b"\x00\x03ab")) == "bad plaintext: it ends within the head"
    assert reason_of(framed(head + b"\x00\x02\xff\xff")).startswith("bad plaintext: 'utf-8'")
    assert CLEAR.open(framed(head + b"\x00\x02ab"), PLACE) == b""
    assert reason_of(framed(place + b"\x01secret")).startswith("bad plaintext: ")
    assert "secret" not in reason_of(framed(place + b"\x01secret"))
    frame = zstandard.compress(LONG)
    assert CLEAR.open(framed(place + b"\x01" + frame), PLACE) == LONG
    assert reason_of(framed(place + b"\x01" + frame + b"more")).startswith("bad plaintext: ")


def test_a_frame_is_never_larger_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """What claims to be larger when decompressed, or does not say, is refused before it is."""
    place = identity_bytes(PLACE)
    monkeypatch.setattr(sealing, "MAX_PIECE_BYTES", 1_000)
    fitting = zstandard.compress(b"x" * 1_000)
    assert CLEAR.open(framed(place + b"\x01" + fitting), PLACE) == b"x" * 1_000
    bomb = zstandard.compress(b"x" * 1_001)
    assert reason_of(framed(place + b"\x01" + bomb)) == "bad plaintext: the frame claims 1001 bytes"
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 1_000)
    assert reason_of(framed(place + b"\x01" + silent)) == "bad plaintext: the frame claims -1 bytes"
    assert CLEAR.open(CLEAR.seal(b"x" * 1_000, PLACE), PLACE) == b"x" * 1_000
    with pytest.raises(ValueError, match="a piece of 1001 bytes, the limit is 1000"):
        CLEAR.seal(b"x" * 1_001, PLACE)


def test_a_refusal_of_the_cipher_is_chained() -> None:
    """The error of a wrong key names the place, and carries the cipher's own one."""
    sealed = AES.seal(b"hello", PLACE)
    with pytest.raises(
        PieceUnreadableError, match=r"cipher 'aes'.*refused it \(ValueError\)"
    ) as caught:
        Sealer(aes_cipher(b"j" * 32)).open(sealed, PLACE)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.cipher_name == "aes"


def test_a_piece_of_another_cipher_is_refused() -> None:
    """A cipher that does not know the name refuses it, by whatever exception."""
    with pytest.raises(PieceUnreadableError, match=r"cipher 'xor'.*\(AssertionError\)"):
        AES.open(XOR.seal(b"hello", PLACE), PLACE)


def test_a_cipher_without_integrity_cannot_refuse_a_change() -> None:
    """The limit that the documentation states: changed data may open, in its own place only."""
    sealed = bytearray(XOR.seal(b"hello", PLACE))
    sealed[-1] ^= 1
    assert XOR.open(bytes(sealed), PLACE) == b"helln"
    with pytest.raises(PieceMovedError):
        Sealer(Xor(mask=0x5B)).open(bytes(sealed), PLACE)


def test_an_unknown_key_is_named_with_its_place() -> None:
    """The error says which key is missing, which are known, and what was to be read."""
    old = RotatingCipher(("k1", Xor()))
    newer = RotatingCipher(("k3", Xor()), {"k2": Xor()})
    with pytest.raises(UnknownKeyError) as caught:
        Sealer(newer).open(Sealer(old).seal(b"hello", PLACE), PLACE)
    assert (caught.value.key_id, caught.value.known) == ("k1", ("k2", "k3"))
    assert str(caught.value) == (
        "'channel:messages' of thread 'thread' was encrypted with the key of id 'k1'; "
        "known are 'k2', 'k3'"
    )
    assert caught.value.place == "'channel:messages' of thread 'thread'"
    assert isinstance(caught.value.__cause__, UnknownKeyError)


def test_a_cipher_name_has_a_limit() -> None:
    """Its length fits into one byte, or nothing is sealed."""
    longest = Sealer(Xor("é" * 127 + "x"))
    assert longest.open(longest.seal(b"hello", PLACE), PLACE) == b"hello"
    with pytest.raises(ValueError, match="a cipher's name of 256 bytes, the limit is 255"):
        Sealer(Xor("é" * 128)).seal(b"hello", PLACE)


def test_a_sealer_is_made_of_an_encrypting_serializer_only() -> None:
    """It uses that serializer's cipher; of a plain serializer there is none."""
    plain = JsonPlusSerializer()
    assert Sealer.of(plain) is None
    sealer = Sealer.of(EncryptedSerializer(Xor(), plain))
    assert sealer is not None
    assert XOR.open(sealer.seal(b"hello", PLACE), PLACE) == b"hello"


def test_one_sealer_serves_many_threads() -> None:
    """Sealing and opening go on side by side, and nothing is mixed up."""

    def round_trip(number: int) -> bool:
        data = b"%d" % number * 5_000
        return AES.open(AES.seal(data, PLACE.at(number)), PLACE.at(number)) == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(round_trip, range(200)))


def test_each_thread_has_zstd_contexts_of_its_own() -> None:
    """One context cannot work for two callers at a time."""

    def contexts() -> tuple[object, object]:
        return sealing._zstd.compressor, sealing._zstd.decompressor

    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(contexts).result()
    assert all(one is not other for one, other in zip(contexts(), theirs, strict=True))
    assert all(one is other for one, other in zip(contexts(), contexts(), strict=True))
