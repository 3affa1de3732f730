"""Large states: what is in them, and how one is put and read back."""

from __future__ import annotations

from random import Random
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint

from langgraph.checkpoint.kafka import EventStoreError, EventTooLargeError

from .messages import SEED, WORDS, text_of
from .work import config_of

BYTES = "bytes"
TEXT = "text"
LIST = "list"
STATES = (BYTES, TEXT, LIST)

_ITEM_BYTES = 600


def state_of(size: int, *, kind: str) -> Any:
    """Return a state of about `size` bytes: random bytes, one text, or a list of small texts.

    Raises:
        ValueError: There is no such kind of state.
    """
    random = Random(SEED)
    if kind == BYTES:
        return random.randbytes(size)
    if kind not in STATES:
        raise ValueError(f"a state is one of {', '.join(STATES)}, not {kind!r}")
    text = text_of(size, kind=WORDS, random=random)
    if kind == TEXT:
        return text
    starts = range(0, size, _ITEM_BYTES)
    return [{"role": "user", "content": text[start : start + _ITEM_BYTES]} for start in starts]


async def put(saver: BaseCheckpointSaver[Any], thread_id: str, state: object) -> RunnableConfig:
    """Save a thread's first checkpoint, with this state."""
    version = saver.get_next_version(None, None)
    checkpoint: Checkpoint = {
        **empty_checkpoint(),
        "channel_values": {"state": state},
        "channel_versions": {"state": version},
        "updated_channels": ["state"],
    }
    return await saver.aput(
        config_of(thread_id),
        checkpoint,
        {"source": "loop", "step": 0, "parents": {}},
        {"state": version},
    )


async def get(saver: BaseCheckpointSaver[Any], thread_id: str) -> object:
    """Return the state of a thread's newest checkpoint."""
    found = await saver.aget_tuple(config_of(thread_id))
    if found is None:
        raise AssertionError(f"{thread_id} is not there")
    return found.checkpoint["channel_values"]["state"]


def refusal_of(error: EventStoreError) -> str:
    """Say why a saver did not take a state, or did not give it back."""
    verb = "refused" if isinstance(error, EventTooLargeError) else "failed"
    return f"{verb}: {error}"
