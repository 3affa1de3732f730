"""When checkpoints are saved, and what stands in them."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableConfig

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, history, line, metadata

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
async def test_line_of_nodes_saves_two_more(
    saver: AsyncKafkaSaver, thread: RunnableConfig, nodes: int
) -> None:
    """One checkpoint for the input, one before the first node, one after each node."""
    graph = line(saver, *"abcde"[:nodes])
    await graph.ainvoke(START_STATE, thread)
    assert len(await history(graph, thread)) == nodes + 2


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
async def test_exit_durability_saves_one(
    saver: AsyncKafkaSaver, thread: RunnableConfig, nodes: int
) -> None:
    """In exit durability only the end is saved: fast, and nothing to go back to."""
    graph = line(saver, *"abcde"[:nodes])
    await graph.ainvoke(START_STATE, thread, durability="exit")
    assert len(await history(graph, thread)) == 1


async def test_rows_of_two_nodes(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """Each checkpoint holds the values at its step, and which nodes come next."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    rows = [
        (metadata(state)["step"], metadata(state)["source"], state.next, state.values)
        for state in reversed(await history(graph, thread))
    ]
    assert rows == [
        (-1, "input", ("__start__",), {"bar": []}),
        (0, "loop", ("node_a",), START_STATE),
        (1, "loop", ("node_b",), {"foo": "a", "bar": ["a"]}),
        (2, "loop", (), {"foo": "b", "bar": ["a", "b"]}),
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_every_durability_ends_alike(
    saver: AsyncKafkaSaver, thread: RunnableConfig, durability: str
) -> None:
    """When a run has returned, its last state is saved, whatever the durability."""
    graph = line(saver, "a", "b")
    result = await graph.ainvoke(START_STATE, thread, durability=durability)
    assert (await graph.aget_state(thread)).values == result
