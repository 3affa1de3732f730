"""The work that savers are measured on: checkpoints as LangGraph makes them, without LangGraph."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.base.id import uuid6

STATE_BYTES = 300


def config_of(thread_id: str) -> RunnableConfig:
    """Return the config of a thread's newest checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


class Run:
    """One thread of an agent: each super-step is two tasks' writes and then the next checkpoint."""

    def __init__(self, saver: BaseCheckpointSaver[Any], thread_id: str) -> None:
        self.saver = saver
        self.config = config_of(thread_id)
        self.step = -1
        self.version: Any = None
        self.state = "x" * STATE_BYTES

    async def put(self) -> None:
        """Save the next checkpoint, with a new state of 300 bytes."""
        self.step += 1
        self.version = self.saver.get_next_version(self.version, None)
        versions = {"state": self.version, "branch:to:tool": self.version}
        checkpoint: Checkpoint = {
            "v": 4,
            "id": str(uuid6(clock_seq=self.step)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {"state": f"{self.step:08d}{self.state[8:]}"},
            "channel_versions": versions,
            "versions_seen": {"__input__": {}, "model": {"branch:to:model": self.version}},
            "updated_channels": ["branch:to:tool", "state"],
        }
        metadata: CheckpointMetadata = {"source": "loop", "step": self.step, "parents": {}}
        self.config = await self.saver.aput(self.config, checkpoint, metadata, versions)

    async def writes(self, task: str) -> None:
        """Save what one task of the present step wrote."""
        await self.saver.aput_writes(
            self.config,
            [("state", self.state[: STATE_BYTES // 2]), ("branch:to:tool", None)],
            f"{task}-{self.step}",
            f"~__pregel_pull, {task}",
        )
