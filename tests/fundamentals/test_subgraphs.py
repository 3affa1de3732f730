"""Graphs within graphs: each keeps its state in a namespace of the same thread."""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, Letters, Saver, asking, named

pytestmark = pytest.mark.asyncio(loop_scope="session")


def around(name: str, inner: Any, saver: Saver | None = None) -> Any:
    """Return a graph whose one node is another graph."""
    builder = StateGraph(Letters)
    builder.add_node(name, inner)
    builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


async def namespaces(saver: AsyncKafkaSaver, thread: RunnableConfig) -> set[str]:
    """Return the namespaces that a thread holds checkpoints in."""
    return {named(found.config)["checkpoint_ns"] async for found in saver.alist(thread)}


def is_task_of(namespace: str, name: str) -> bool:
    """Tell whether a namespace is a node's name and the UUID of its task."""
    node, _, task = namespace.partition(":")
    return node == name and str(UUID(task)) == task


async def test_namespace_is_node_and_task(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """The root's namespace is empty; a subgraph's is its node's name and a UUID."""
    graph = around("child", asking(None), saver)
    await graph.ainvoke(START_STATE, thread)
    root, child = sorted(await namespaces(saver, thread))
    assert root == ""
    assert is_task_of(child, "child")


async def test_lasting_subgraph_has_a_plain_namespace(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Compiled with `checkpointer=True`, it keeps its state between calls, under its name alone."""
    builder = StateGraph(Letters)
    builder.add_node("inner", lambda state: {"bar": ["inner"]})
    builder.add_edge(START, "inner")
    graph = around("child", builder.compile(checkpointer=True), saver)
    await graph.ainvoke(START_STATE, thread)
    assert await namespaces(saver, thread) == {"", "child"}
    kept = await saver.aget_tuple({"configurable": {**named(thread), "checkpoint_ns": "child"}})
    assert kept is not None
    assert kept.checkpoint["channel_values"]["bar"] == ["inner"]


async def test_nested_namespaces_are_joined(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """With a bar between the levels."""
    graph = around("outer", around("inner", asking(None)), saver)
    await graph.ainvoke(START_STATE, thread)
    root, outer, inner = sorted(await namespaces(saver, thread))
    assert root == ""
    assert is_task_of(outer, "outer")
    above, _, below = inner.partition("|")
    assert above == outer
    assert is_task_of(below, "inner")


async def test_state_shows_subgraphs(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """`get_state(subgraphs=True)` puts a waiting subgraph's own snapshot into its task."""
    graph = around("outer", around("inner", asking(None)), saver)
    await graph.ainvoke(START_STATE, thread)
    state = await graph.aget_state(thread, subgraphs=True)
    outer = state.tasks[0].state
    inner = outer.tasks[0].state
    assert state.next == ("outer",)
    assert outer.next == ("inner",)
    assert inner.next == ("ask",)
    assert inner.values == {"foo": "a", "bar": ["a"]}


async def test_answer_reaches_the_subgraph(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """Resuming the root resumes the node that asked, however deep."""
    graph = around("outer", around("inner", asking(None)), saver)
    await graph.ainvoke(START_STATE, thread)
    result = await graph.ainvoke(Command(resume="yes"), thread)
    assert result["bar"] == ["a", "yes", "z"]
