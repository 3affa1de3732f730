"""What the cases of encryption share."""

from __future__ import annotations

from copy import copy
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph.checkpoint.kafka import aes_cipher
from tests.wirings import Caller

from .thread import Thread

KEY = aes_cipher(b"k" * 32)
AES = EncryptedSerializer(KEY)


def with_serializer(caller: Caller, serde: SerializerProtocol | None) -> Caller:
    """Return the same saver with another serializer; None is LangGraph's own one."""
    saver = copy(caller.saver)
    saver.serde = serde or JsonPlusSerializer()
    return Caller(saver, caller.wiring, caller.form)


async def grow(thread: Thread, count: int) -> list[list[Any]]:
    """Let a channel grow by one message with each checkpoint; return its versions."""
    versions: list[list[Any]] = []
    for number in range(1, count + 1):
        message = HumanMessage(f"{number} " * 100, id=f"{number}")
        versions.append([*(versions[-1] if versions else []), message])
        await thread.put(number, {"messages": versions[-1]}, parent=number - 1 or None)
    return versions
