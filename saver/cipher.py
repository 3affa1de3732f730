"""Ciphers for LangGraph's `EncryptedSerializer`: several keys behind one, and the usual AES.

Rotation lives in the cipher: `with_allowlist` makes a plain `EncryptedSerializer` of any subclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from .errors import UnknownKeyError

MAX_KEY_ID_BYTES: Final = 64

_SEPARATOR: Final = ":"
_AES_KEY_BYTES: Final = (16, 24, 32)


class RotatingCipher(CipherProtocol):
    """Encrypts with the newest key and decrypts with any known one; as thread-safe as its ciphers.

    The key's id becomes a part of the cipher's name: with the id `2025-11`, `aes` is
    `aes:2025-11`. What was encrypted before there were ids is read with the older cipher of the
    id `""`:

        newest = ("2025-11", aes_cipher(key))
        serde = EncryptedSerializer(RotatingCipher(newest, older={"": aes_cipher(old_key)}))

    Every process is given a new key as an older one first, and as the newest when all know it. The
    order of rotation is the caller's; nothing that is stored is encrypted again.

    The name is not secret and not protected: an id changed on purpose leads to another known key,
    whose cipher must refuse the ciphertext, as AES does.
    """

    def __init__(
        self, newest: tuple[str, CipherProtocol], older: Mapping[str, CipherProtocol] | None = None
    ) -> None:
        key_id, cipher = newest
        older = older or {}
        if not key_id:
            raise ValueError("the newest key needs an id")
        if key_id in older:
            raise ValueError(f"key id {key_id!r} is that of the newest key and of an older one")
        for each in (key_id, *older):
            _check_key_id(each)
        self._key_id = key_id
        self._cipher = cipher
        self._ciphers = {**older, key_id: cipher}

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Encrypt with the newest key."""
        name, ciphertext = self._cipher.encrypt(plaintext)
        return f"{name}{_SEPARATOR}{self._key_id}", ciphertext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Decrypt with the key that the name ends with.

        Raises:
            UnknownKeyError: None of the ciphers has this key's id.
        """
        name, separator, key_id = ciphername.rpartition(_SEPARATOR)
        if not separator:
            name, key_id = ciphername, ""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise UnknownKeyError(key_id, known=tuple(sorted(self._ciphers)))
        return cipher.decrypt(name, ciphertext)


def aes_cipher(key: bytes) -> CipherProtocol:
    """Return LangGraph's AES cipher (EAX: encrypted and authenticated) for a key of 16 to 32 bytes.

    Raises:
        ImportError: pycryptodome is missing; the extra `encryption` installs it.
        ValueError: AES has no keys of this length.
    """
    if len(key) not in _AES_KEY_BYTES:
        raise ValueError(f"an AES key has 16, 24 or 32 bytes, not {len(key)}")
    return EncryptedSerializer.from_pycryptodome_aes(key=key).cipher


def _check_key_id(key_id: str) -> None:
    if _SEPARATOR in key_id:
        raise ValueError(f"key id {key_id!r}: {_SEPARATOR!r} parts it from the cipher's name")
    if len(key_id.encode()) > MAX_KEY_ID_BYTES:
        raise ValueError(f"key id {key_id!r} takes more than {MAX_KEY_ID_BYTES} bytes")
