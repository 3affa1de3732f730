"""Rotation of keys within LangGraph's own `EncryptedSerializer`, and the AES cipher."""

from __future__ import annotations

import sys

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from saver.cipher import MAX_KEY_ID_BYTES, RotatingCipher, aes_cipher
from saver.errors import SaverError, UnknownKeyError
from saver.sealing import PieceIdentity, Sealer

OLDEST, OLD, NEW = (aes_cipher(bytes([number]) * 16) for number in range(3))
PLACE = PieceIdentity("thread", "", "body", b"e" * 16)


def test_the_newest_key_writes_and_any_key_reads() -> None:
    """Through two rotations, the plain LangGraph API reads all that was ever written."""
    unnamed = EncryptedSerializer(OLDEST)
    once = EncryptedSerializer(RotatingCipher(("k1", OLD), {"": OLDEST}))
    twice = EncryptedSerializer(RotatingCipher(("k2", NEW), {"k1": OLD, "": OLDEST}))
    stored = [serde.dumps_typed("hello") for serde in (unnamed, once, twice)]
    assert [kind for kind, _ in stored] == ["msgpack+aes", "msgpack+aes:k1", "msgpack+aes:k2"]
    assert [twice.loads_typed(each) for each in stored] == ["hello"] * 3
    assert [once.loads_typed(each) for each in stored[:2]] == ["hello"] * 2


def test_sealed_pieces_rotate_with_the_cipher() -> None:
    """A piece that was sealed before the rotation opens after it."""
    before = RotatingCipher(("k1", OLD), {"": OLDEST})
    after = Sealer(RotatingCipher(("k2", NEW), {"k1": OLD, "": OLDEST}))
    for cipher in (OLDEST, before):
        assert after.open(Sealer(cipher).seal(b"hello", PLACE), PLACE) == b"hello"
    assert after.seal(b"hello", PLACE)[2:8] == b"aes:k2"


def test_a_key_that_is_not_known_is_named() -> None:
    """The error says which one is missing and which are there, and is one of the saver's."""
    newer = EncryptedSerializer(RotatingCipher(("k2", NEW), {"k3": OLD}))
    for key_id, cipher in (("k1", RotatingCipher(("k1", OLD))), ("", OLD)):
        with pytest.raises(UnknownKeyError) as caught:
            newer.loads_typed(EncryptedSerializer(cipher).dumps_typed("hello"))
        assert (caught.value.key_id, caught.value.known) == (key_id, ("k2", "k3"))
        assert str(caught.value) == (
            f"this was encrypted with the key of id {key_id!r}; known are 'k2', 'k3'"
        )
        assert caught.value.place is None
        assert isinstance(caught.value, SaverError)


def test_a_changed_key_id_leads_to_a_key_that_refuses() -> None:
    """The id in the name is not protected, and need not be where the cipher authenticates."""
    cipher = RotatingCipher(("k2", NEW), {"k1": OLD})
    name, ciphertext = cipher.encrypt(b"hello")
    assert name == "aes:k2"
    with pytest.raises(ValueError, match="MAC"):
        cipher.decrypt("aes:k1", ciphertext)


def test_a_rotating_cipher_may_hold_another() -> None:
    """Only the last part of a name is the id, so a cipher's own name may have a colon."""
    inner = RotatingCipher(("a", OLD))
    outer = RotatingCipher(("b", inner))
    name, ciphertext = outer.encrypt(b"hello")
    assert name == "aes:a:b"
    assert outer.decrypt(name, ciphertext) == b"hello"


def test_rotation_outlives_a_derived_allowlist() -> None:
    """LangGraph rebuilds the serializer around the same cipher, so a clone reads old keys too."""
    serde = EncryptedSerializer(RotatingCipher(("k2", NEW), {"k1": OLD}), JsonPlusSerializer())
    saver = InMemorySaver(serde=serde)
    clone = saver.with_allowlist([("some.module", "Kind")])
    old = EncryptedSerializer(RotatingCipher(("k1", OLD))).dumps_typed("hello")
    assert clone.serde.loads_typed(old) == "hello"
    assert clone.serde.dumps_typed("hello")[0] == "msgpack+aes:k2"


def test_key_ids_are_checked() -> None:
    """An id that could not be read back, or stands for two keys, is refused at once."""
    with pytest.raises(ValueError, match="the newest key needs an id"):
        RotatingCipher(("", NEW))
    with pytest.raises(ValueError, match="'k1' is that of the newest key and of an older one"):
        RotatingCipher(("k1", NEW), {"k1": OLD})
    for newest, older in (("a:b", "k1"), ("k1", "a:b")):
        with pytest.raises(ValueError, match="key id 'a:b': ':' parts it"):
            RotatingCipher((newest, NEW), {older: OLD})
    longest = "é" * (MAX_KEY_ID_BYTES // 2)
    cipher = RotatingCipher((longest, NEW))
    assert cipher.decrypt(*cipher.encrypt(b"hello")) == b"hello"
    for newest, older in ((longest + "x", "k1"), ("k1", longest + "x")):
        with pytest.raises(ValueError, match="takes more than 64 bytes"):
            RotatingCipher((newest, NEW), {older: OLD})


def test_later_changes_of_the_given_mapping_change_nothing() -> None:
    """The keys are those of the time when the cipher was made."""
    older = {"k1": OLD}
    cipher = RotatingCipher(("k2", NEW), older)
    stored = RotatingCipher(("k1", OLD)).encrypt(b"hello")
    older.clear()
    assert cipher.decrypt(*stored) == b"hello"


@pytest.mark.parametrize("length", [16, 24, 32])
def test_aes_is_langgraphs_own(length: int) -> None:
    """What LangGraph encrypted with this key is read by it, and the other way round."""
    key = bytes(range(length))
    theirs = EncryptedSerializer.from_pycryptodome_aes(key=key)
    ours = EncryptedSerializer(aes_cipher(key))
    assert ours.loads_typed(theirs.dumps_typed("hello")) == "hello"
    assert theirs.loads_typed(ours.dumps_typed("hello")) == "hello"


@pytest.mark.parametrize("length", [0, 15, 33])
def test_an_aes_key_of_another_length_is_refused_at_once(length: int) -> None:
    """Not only when the first value is to be encrypted; the key is not shown."""
    with pytest.raises(ValueError, match=f"has 16, 24 or 32 bytes, not {length}"):
        aes_cipher(b"s" * length)


def test_aes_without_pycryptodome_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import fails by name of the missing package."""
    monkeypatch.setitem(sys.modules, "Crypto.Cipher", None)
    with pytest.raises(ImportError, match="pycryptodome"):
        aes_cipher(b"k" * 16)
