"""One thread's super-steps as a program makes them: writes, then the next checkpoint."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint


def checkpoint_id(number: int) -> str:
    """The id of a thread's checkpoint number `number`; ids sort like their numbers."""
    return f"1f0a5883-0000-6000-8000-{number:012d}"


def number_of(config: RunnableConfig) -> int:
    """The number of the checkpoint that a config names."""
    assert "configurable" in config
    return int(config["configurable"]["checkpoint_id"][-12:])


def thread(thread_id: str, number: int | None = None) -> RunnableConfig:
    """The config of a thread's checkpoint number `number`, or of its newest one."""
    configurable = {"thread_id": thread_id, "checkpoint_ns": ""}
    if number is not None:
        configurable["checkpoint_id"] = checkpoint_id(number)
    return {"configurable": configurable}


async def put(saver: BaseCheckpointSaver[Any], thread_id: str, number: int) -> None:
    """Save checkpoint `number`, whose state is its number, under the one before."""
    checkpoint: Checkpoint = {
        "v": 4,
        "id": checkpoint_id(number),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": {"count": number},
        "channel_versions": {"count": number + 1},
        "versions_seen": {},
        "updated_channels": ["count"],
    }
    parent = thread(thread_id, number - 1 if number else None)
    await saver.aput(parent, checkpoint, {"source": "loop", "step": number}, {"count": number + 1})


async def write(saver: BaseCheckpointSaver[Any], thread_id: str, number: int, task: str) -> None:
    """Save what a task wrote on checkpoint `number`."""
    await saver.aput_writes(thread(thread_id, number), [("count", number)], task, f"~pull, {task}")
