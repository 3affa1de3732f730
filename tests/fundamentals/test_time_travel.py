"""Going back: a call with the config of an old snapshot starts a fork there."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, Ran, asking, history, line, metadata

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_replay_runs_what_came_after(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """`None` with an old config: nodes before it keep their results, nodes after it run again."""
    graph = line(saver, "a", "b")
    result = await graph.ainvoke(START_STATE, thread)
    _, after_a, *_ = await history(graph, thread)
    assert await graph.ainvoke(None, after_a.config) == result


async def test_replay_leaves_a_fork_checkpoint(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """The fork hangs below the old snapshot; the first way stays as it was."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    before = await history(graph, thread)
    await graph.ainvoke(None, before[1].config)
    after = await history(graph, thread)
    assert after[2:] == before
    fork = after[1]
    assert metadata(fork)["source"] == "fork"
    assert fork.parent_config == before[1].config


async def test_interrupts_fire_again(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """An answer given before does not count on the fork: the person is asked anew."""
    ran: Ran = []
    graph = asking(saver, ran)
    await graph.ainvoke(START_STATE, thread)
    paused = await graph.aget_state(thread)
    first = await graph.ainvoke(Command(resume="yes"), thread)
    again = await graph.ainvoke(None, paused.config)
    assert [each.value for each in again["__interrupt__"]] == ["go on?"]
    second = await graph.ainvoke(Command(resume="no"), thread)
    assert first["bar"] == ["a", "yes", "z"]
    assert second["bar"] == ["a", "no", "z"]


async def test_both_ways_stay_readable(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """Forks share their past, and each keeps values of its own."""
    graph = asking(saver)
    await graph.ainvoke(START_STATE, thread)
    paused = await graph.aget_state(thread)
    await graph.ainvoke(Command(resume="yes"), thread)
    first = await graph.aget_state(thread)
    await graph.ainvoke(None, paused.config)
    await graph.ainvoke(Command(resume="no"), thread)
    second = await graph.aget_state(thread)
    assert (await graph.aget_state(first.config)).values["bar"] == ["a", "yes", "z"]
    assert (await graph.aget_state(second.config)).values["bar"] == ["a", "no", "z"]
