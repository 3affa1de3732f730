"""One LangGraph thread under test, and its checkpoints by number."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, PendingWrite

from tests.wirings import Caller

ABSENT: Any = object()
"""What `history` shows where the walk met no value."""


def id_of(number: int) -> str:
    """Return the checkpoint id of a number; greater numbers have greater ids."""
    return f"1f0a5883-0000-6000-8000-{number:012}"


def configurable_of(config: RunnableConfig) -> dict[str, Any]:
    """Return what a config configures."""
    return config.get("configurable", {})


def number_of(config: RunnableConfig) -> int:
    """Return the number of the checkpoint that a config names."""
    return int(configurable_of(config)["checkpoint_id"].rpartition("-")[2])


def checkpoint_of(
    number: int, values: Mapping[str, Any], versions: Mapping[str, Any]
) -> Checkpoint:
    """Return a checkpoint as LangGraph makes it."""
    return {
        "v": 4,
        "id": id_of(number),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict(versions),
        "versions_seen": {},
        "updated_channels": None,
    }


class Thread:
    """A thread with an id that nothing else uses, unless one is given."""

    def __init__(self, caller: Caller, thread_id: str | None = None) -> None:
        self.caller = caller
        self.id = f"thread-{uuid.uuid4()}" if thread_id is None else thread_id

    def config(
        self, number: int | None = None, ns: str | None = "", **others: Any
    ) -> RunnableConfig:
        """Return a config with the thread, the namespace unless None, the checkpoint if any."""
        configurable: dict[str, Any] = {"thread_id": self.id}
        if ns is not None:
            configurable["checkpoint_ns"] = ns
        if number is not None:
            configurable["checkpoint_id"] = id_of(number)
        return {"configurable": {**configurable, **others}}

    async def put(
        self,
        number: int,
        values: Mapping[str, Any] | None = None,
        versions: Mapping[str, Any] | None = None,
        *,
        parent: int | None = None,
        ns: str | None = "",
        changed: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        configurable: Mapping[str, Any] | None = None,
    ) -> RunnableConfig:
        """Put a checkpoint, and return its config.

        All of its channels changed, and their version is its number, unless said otherwise.
        """
        values = values or {}
        versions = dict.fromkeys(values, number) if versions is None else versions
        config = self.config(parent, ns, **(configurable or {}))
        new = {name: versions[name] for name in (versions if changed is None else changed)}
        told: Any = {"source": "loop", "step": number, "parents": {}, **(metadata or {})}
        return await self.caller.put(config, checkpoint_of(number, values, versions), told, new)

    async def write(
        self,
        at: RunnableConfig | int,
        writes: Sequence[tuple[str, Any]],
        task: str = "task",
        path: str = "",
    ) -> None:
        """Save a task's writes on a checkpoint."""
        config = self.config(at) if isinstance(at, int) else at
        await self.caller.put_writes(config, writes, task, path)

    async def get(self, number: int | None = None, ns: str | None = "") -> CheckpointTuple | None:
        """Return a checkpoint, the newest one when none is named."""
        return await self.caller.get_tuple(self.config(number, ns))

    async def found(self, number: int | None = None, ns: str | None = "") -> CheckpointTuple:
        """Return a checkpoint that is there."""
        found = await self.get(number, ns)
        assert found is not None
        return found

    async def values(self, number: int | None = None, ns: str = "") -> dict[str, Any]:
        """Return the values of a checkpoint that is there."""
        return (await self.found(number, ns)).checkpoint["channel_values"]

    async def pending(self, number: int | None = None) -> Sequence[PendingWrite]:
        """Return the pending writes of a checkpoint that is there."""
        return (await self.found(number)).pending_writes or []

    async def numbers(self, ns: str | None = None, **chosen: Any) -> Sequence[int]:
        """List the thread; return the checkpoints' numbers."""
        before = chosen.pop("before", None)
        if before is not None:
            chosen["before"] = self.config(before)
        found = await self.caller.list(self.config(None, ns), **chosen)
        return [number_of(item.config) for item in found]

    async def history(self, number: int | None, channel: str) -> tuple[Sequence[Any], Any]:
        """Return a channel's delta history as (write values, seed)."""
        found = await self.caller.history(self.config(number), [channel])
        return [write[2] for write in found[channel]["writes"]], found[channel].get("seed", ABSENT)
