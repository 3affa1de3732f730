"""Changing a thread's state from outside."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableConfig

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, history, line, metadata

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_update_adds_a_checkpoint(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """With source `update`, below the newest one; the original stays."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    before = await history(graph, thread)
    await graph.aupdate_state(thread, {"foo": "x"})
    newest, *older = await history(graph, thread)
    assert older == before
    assert metadata(newest)["source"] == "update"
    assert newest.parent_config == before[0].config


async def test_update_goes_through_the_reducers(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """A channel with a reducer is added to, one without is replaced."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    await graph.aupdate_state(thread, {"foo": "x", "bar": ["x"]})
    assert (await graph.aget_state(thread)).values == {"foo": "x", "bar": ["a", "x"]}


async def test_update_as_a_node_decides_what_comes_next(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """As if that node had written it: its successors run."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    await graph.aupdate_state(thread, {"foo": "x", "bar": ["x"]}, as_node="node_a")
    assert (await graph.aget_state(thread)).next == ("node_b",)
    assert (await graph.ainvoke(None, thread))["bar"] == ["a", "b", "x", "b"]


async def test_update_of_an_old_snapshot_forks(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Change the past, go on from there; the original is untouched."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    before = await history(graph, thread)
    forked = await graph.aupdate_state(before[1].config, {"bar": ["changed"]})
    assert (await graph.ainvoke(None, forked))["bar"] == ["a", "changed", "b"]
    assert [await graph.aget_state(state.config) for state in before] == before


async def test_update_begins_a_thread(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """There need not be a run before."""
    graph = line(saver, "a")
    await graph.aupdate_state(thread, {"foo": "x", "bar": ["x"]}, as_node="__start__")
    assert (await graph.ainvoke(None, thread))["bar"] == ["x", "a"]
