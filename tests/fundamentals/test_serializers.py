"""How values become bytes is LangGraph's serializer's business; what it makes is kept as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import WHO_OWNS, agent, ask

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Mirror:
    """A cipher for tests: turns every byte over. Use a real one."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name and the turned bytes."""
        return "mirror", bytes(255 - byte for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Turn them back."""
        return bytes(255 - byte for byte in ciphertext)


async def test_objects_come_back_as_they_were(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Messages are messages again, not dictionaries."""
    await ask(agent(saver), WHO_OWNS, thread)
    messages = (await agent(saver).aget_state(thread)).values["messages"]
    assert isinstance(messages[0], HumanMessage)
    assert messages[0].content == WHO_OWNS


async def test_encrypted_values_stand_nowhere_in_plain_text(
    tmp_path: Path, thread: RunnableConfig
) -> None:
    """With an `EncryptedSerializer`, neither the log nor the view shows what was said."""
    encrypted = EncryptedSerializer(Mirror(), JsonPlusSerializer())
    await answer_and_read_back(tmp_path / "plain.db", None, thread)
    await answer_and_read_back(tmp_path / "encrypted.db", encrypted, thread)
    assert b"payments team" in bytes_of(tmp_path, "plain.db*")
    assert b"payments team" not in bytes_of(tmp_path, "encrypted.db*")


async def answer_and_read_back(
    file: Path, serde: SerializerProtocol | None, thread: RunnableConfig
) -> None:
    """Let the agent answer, and read its state with another saver of the same serializer."""
    url = f"sqlite:///{file}"
    async with AsyncKafkaSaver.from_conn_string(url, serde=serde) as saver:
        messages = await ask(agent(saver), WHO_OWNS, thread)
        assert messages[-1].text == "The payments team owns checkout."
    async with AsyncKafkaSaver.from_conn_string(url, serde=serde) as saver:
        assert (await agent(saver).aget_state(thread)).values["messages"] == messages


def bytes_of(folder: Path, pattern: str) -> bytes:
    """Return all that stands in some files."""
    return b"".join(file.read_bytes() for file in folder.glob(pattern))
