"""Ciphers that tests look into."""

from __future__ import annotations

from langgraph.checkpoint.serde.base import CipherProtocol


class Counting(CipherProtocol):
    """Encrypts nothing, and counts what it decrypts."""

    def __init__(self) -> None:
        self.decrypted = 0

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "clear", plaintext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        self.decrypted += 1
        return ciphertext
