"""How values become bytes is LangGraph's serializer's business; what it makes is kept as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langgraph.checkpoint.kafka import AsyncKafkaSaver, RotatingCipher, aes_cipher
from tests.wirings import Wiring

from .graphs import WHO_OWNS, agent, ask

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
    encrypted = EncryptedSerializer.from_pycryptodome_aes(key=b"16 random bytes!")
    for file, serde in (("plain.db", None), ("encrypted.db", encrypted)):
        url = f"sqlite:///{tmp_path / file}"
        async with AsyncKafkaSaver.from_conn_string(url, serde=serde) as saver:
            await ask(agent(saver), WHO_OWNS, thread)
    assert b"payments team" in bytes_of(tmp_path, "plain.db*")
    assert b"payments team" not in bytes_of(tmp_path, "encrypted.db*")


async def test_an_agent_goes_on_encrypted(new_reopenable: Wiring, thread: RunnableConfig) -> None:
    """Another process with the same key reads on where this one stopped, and remembers all."""
    encrypted = EncryptedSerializer.from_pycryptodome_aes(key=b"16 random bytes!")
    async with new_reopenable.open(serde=encrypted, seal_metadata=True) as saver:
        messages = await ask(agent(saver), WHO_OWNS, thread)
        assert messages[-1].text == "The payments team owns checkout."
    async with new_reopenable.open(serde=encrypted, seal_metadata=True) as saver:
        assert (await agent(saver).aget_state(thread)).values["messages"] == messages
        assert (await ask(agent(saver), WHO_OWNS, thread))[: len(messages)] == messages
        history = [state async for state in agent(saver).aget_state_history(thread)]
        assert history[-1].metadata is not None
        assert history[-1].metadata["source"] == "input"


async def test_keys_are_replaced_one_by_one(tmp_path: Path, thread: RunnableConfig) -> None:
    """Whoever has the older key too reads on; all that comes new is for the newest one."""
    old, new = aes_cipher(b"16 random bytes."), aes_cipher(b"16 random bytes!")
    url = f"sqlite:///{tmp_path}/agent.db"
    before = EncryptedSerializer(RotatingCipher(("2025", old)))
    async with AsyncKafkaSaver.from_conn_string(url, serde=before) as saver:
        messages = await ask(agent(saver), WHO_OWNS, thread)
    after = EncryptedSerializer(RotatingCipher(("2026", new), older={"2025": old}))
    async with AsyncKafkaSaver.from_conn_string(url, serde=after) as saver:
        assert (await ask(agent(saver), WHO_OWNS, thread))[: len(messages)] == messages


def bytes_of(folder: Path, pattern: str) -> bytes:
    """Return all that stands in some files."""
    return b"".join(file.read_bytes() for file in folder.glob(pattern))
