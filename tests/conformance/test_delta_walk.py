"""The walk of delta channels on random trees, beside three others that have to find the same.

These are the reference's, LangGraph's own over our `get_tuple`, and `InMemorySaver`'s.
`PARITY_EXAMPLES` in the environment sets how many trees are tried on each wiring.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, DeltaChannelHistory
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langgraph.checkpoint.kafka import AsyncKafkaSaver, KafkaSaverConfig
from projector.view import CheckpointView
from saver.wiring import open_ports
from tests.wirings import EVERY_WAY, Caller, Form, Savers, Store, Wiring

from .delta_trees import CHANNELS, LATE, MISSING, NO_VALUE, RUNS, Node, Tree, trees
from .parity import exact
from .reference import ReferenceSaver, Saved

EXAMPLES = int(os.environ.get("PARITY_EXAMPLES", "12"))
WALKS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
ASKED = ("c:1", "unheard of", "a", "b")

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(max(60, EXAMPLES * 4)),
]


async def walked(
    caller: Caller, config: RunnableConfig, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """Walk as LangGraph's base class does, one `get_tuple` after the other."""
    base = cast("Any", BaseCheckpointSaver)
    asked: Any = {"config": config, "channels": channels}
    found: Mapping[str, DeltaChannelHistory]
    if caller.form is Form.AWAITED:
        found = await base.aget_delta_channel_history(caller.saver, **asked)
    else:
        found = await asyncio.to_thread(base.get_delta_channel_history, caller.saver, **asked)
    return found


class Grown:
    """A tree in a thread of the saver, in the reference and in memory."""

    def __init__(self, caller: Caller, tree: Tree) -> None:
        self.caller = caller
        self.tree = tree
        self.model = ReferenceSaver()
        self.memory = InMemorySaver()
        self.thread_id = f"tree-{uuid.uuid4()}"
        self.puts = 0

    def config(self, checkpoint_id: str | None) -> RunnableConfig:
        configurable = {"thread_id": self.thread_id, "checkpoint_ns": self.tree.namespace}
        if checkpoint_id is not None:
            configurable["checkpoint_id"] = checkpoint_id
        return {"configurable": configurable}

    async def grow(self) -> None:
        """Put all of the tree."""
        for index, node in enumerate(self.tree.nodes):
            await self._add(self.tree.ids[index], node, self._parent_id(index, node))
        await self._add(LATE, self.tree.late, None)

    def _parent_id(self, index: int, node: Node) -> str | None:
        if isinstance(node.parent, int):
            return self.tree.ids[index - node.parent] if node.parent <= index else None
        return node.parent if node.parent in (LATE, MISSING) else None

    async def _add(self, checkpoint_id: str, node: Node, parent_id: str | None) -> None:
        if node.is_written_first:
            await self._write(checkpoint_id, node)
        await self._put(checkpoint_id, node, parent_id)
        if not node.is_written_first:
            await self._write(checkpoint_id, node)

    async def _put(self, checkpoint_id: str, node: Node, parent_id: str | None) -> None:
        self.puts += 1
        parent = self._saved(parent_id)
        versions: dict[str, Any] = {} if parent is None else dict(parent.versions)
        inherited = {} if parent is None or not node.gives_inherited else parent.values
        values = {name: self.model.serde.loads_typed(data) for name, data in inherited.items()}
        new: dict[str, Any] = {}
        for channel, value in node.changed.items():
            is_shared = self.tree.shares_versions
            new[channel] = versions.get(channel, 0) + 1 if is_shared else self.puts
            values.pop(channel, None)
            if value is not NO_VALUE:
                values[channel] = value
        versions.update(new)
        checkpoint = {
            "v": 4,
            "id": checkpoint_id,
            "ts": f"2026-01-01T00:00:00.{self.puts:06}+00:00",
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": {},
            "updated_channels": None,
        }
        told = {"source": "loop", "step": self.puts, "run_id": self.run_id(node.run_id)}
        await self._tell("put", self.config(parent_id), checkpoint, told, new)

    def run_id(self, run_id: str) -> str:
        return f"{self.thread_id} {run_id}"

    def _saved(self, checkpoint_id: str | None) -> Saved | None:
        thread = self.model.threads.get(self.thread_id)
        key = (self.tree.namespace, checkpoint_id or "")
        return None if thread is None else thread.shown.get(key)

    async def _write(self, checkpoint_id: str, node: Node) -> None:
        for task_id, path, writes in node.tasks:
            await self._tell("put_writes", self.config(checkpoint_id), writes, task_id, path)

    async def _tell(self, name: str, *args: Any) -> None:
        await self.caller.call(name, *args)
        getattr(self.model, name)(*args)
        getattr(self.memory, name)(*args)

    async def remove(self) -> None:
        """Remove checkpoints, as the tree says; memory cannot do it and keeps them."""
        name, args = self.tree.removal, ([self.thread_id],)
        if name == "delete_for_runs":
            args = ([self.run_id(RUNS[0])],)
        if name:
            await self.caller.call(name, *args)
            getattr(self.model, name)(*args)

    async def compare(self, *, is_whole: bool) -> None:
        """Compare the histories of all checkpoints; all walks agree where nothing was removed."""
        for checkpoint_id in [*self.tree.ids, LATE, MISSING, None]:
            config = self.config(checkpoint_id)
            found = exact(await self.caller.history(config, ASKED))
            asked: Any = {"config": config, "channels": ASKED}
            assert found == exact(self.model.get_delta_channel_history(**asked))
            if not is_whole:
                continue
            assert found == exact(await walked(self.caller, config, ASKED))
            if not self.tree.shares_versions:
                assert found == exact(self.memory.get_delta_channel_history(**asked))
        for channel in CHANNELS:
            alone = await self.caller.history(self.config(None), [channel])
            together = await self.caller.history(self.config(None), ASKED)
            assert exact(alone) == exact({channel: together[channel]})


@pytest.mark.parametrize("way", EVERY_WAY)
@WALKS
@given(tree=trees)
async def test_every_walk_finds_the_same(
    savers: Savers, way: tuple[Store, Form], tree: Tree
) -> None:
    """Forks, any seed, parents that are missing or late, an unknown target; removals after that."""
    grown = Grown(await savers.shared(*way), tree)
    await grown.grow()
    await grown.compare(is_whole=True)
    await grown.remove()
    await grown.compare(is_whole=not tree.removal)


class CountedView:
    """A view, and how often each of its methods was called."""

    def __init__(self, view: CheckpointView) -> None:
        self._view = view
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._view, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            return method(*args, **kwargs)

        return counted


DEPTH = 500
SEEDED = {"a": 1, "b": 200, "c:1": None}
"""The checkpoint that holds each channel's seed, or None."""


async def grow_line(saver: AsyncKafkaSaver, config: RunnableConfig) -> None:
    """Put a line of checkpoints, each with a write to every channel."""
    put: Any = saver.aput
    for number in range(1, DEPTH + 2):
        values = {name: _DeltaSnapshot([name]) for name, at in SEEDED.items() if at == number}
        versions = dict.fromkeys(CHANNELS, number)
        checkpoint = {
            "v": 4,
            "id": f"{number:04}",
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": {},
            "updated_channels": None,
        }
        told = {"source": "loop", "step": number}
        config = await put(config, checkpoint, told, versions)
        await saver.aput_writes(config, [(name, number) for name in CHANNELS], "task")


async def test_a_walk_of_any_depth_is_one_question(new_wiring: Wiring) -> None:
    """500 ancestors, three channels with seeds far apart: the view is asked once, for all."""
    config: RunnableConfig = {"configurable": {"thread_id": "line", "checkpoint_ns": ""}}
    settings = KafkaSaverConfig.from_conn_string(new_wiring.conn_string, projector=None)
    async with open_ports(settings) as (log, view):
        counted = CountedView(view)
        saver = AsyncKafkaSaver(log, cast("CheckpointView", counted), config=settings)
        async with saver:
            await grow_line(saver, config)
            await saver.aget_tuple(config)
            counted.calls.clear()
            found = await saver.aget_delta_channel_history(config=config, channels=CHANNELS)
    assert counted.calls == {"history": 1}
    for name, at in SEEDED.items():
        writes = [write[2] for write in found[name]["writes"]]
        assert writes == [*range(at or 1, DEPTH + 1)]
        assert found[name].get("seed") == (None if at is None else _DeltaSnapshot([name]))
