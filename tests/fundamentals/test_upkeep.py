"""Copying, pruning and deleting threads."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, interrupt

from langgraph.checkpoint.kafka import AsyncKafkaSaver, CopyRefusedError

from .graphs import START_STATE, Bars, Ran, history, line, named, side_by_side

pytestmark = pytest.mark.asyncio(loop_scope="session")


def id_of(thread: RunnableConfig) -> str:
    """Return a thread's id."""
    thread_id: str = named(thread)["thread_id"]
    return thread_id


async def test_copy_has_the_same_history(
    saver: AsyncKafkaSaver, thread: RunnableConfig, other_thread: RunnableConfig
) -> None:
    """Under another thread id, with the same checkpoint ids."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    await saver.acopy_thread(id_of(thread), id_of(other_thread))

    def rows(states: list[Any]) -> list[Any]:
        return [
            (named(state.config)["checkpoint_id"], state.values, state.next) for state in states
        ]

    assert rows(await history(graph, other_thread)) == rows(await history(graph, thread))


async def test_replay_on_a_copy_leaves_the_original(
    saver: AsyncKafkaSaver, thread: RunnableConfig, other_thread: RunnableConfig
) -> None:
    """Try things on a copy: the original's history does not change."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    before = await history(graph, thread)
    await saver.acopy_thread(id_of(thread), id_of(other_thread))
    _, after_a, *_ = await history(graph, other_thread)
    forked = await graph.aupdate_state(after_a.config, {"bar": ["tried"]})
    assert (await graph.ainvoke(None, forked))["bar"] == ["a", "tried", "b"]
    assert await history(graph, thread) == before


async def test_copy_onto_a_used_thread_is_refused(
    saver: AsyncKafkaSaver, thread: RunnableConfig, other_thread: RunnableConfig
) -> None:
    """Two histories in one thread would be neither."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    await graph.ainvoke(START_STATE, other_thread)
    with pytest.raises(CopyRefusedError):
        await saver.acopy_thread(id_of(thread), id_of(other_thread))


async def test_pruning_keeps_the_newest_checkpoint(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """The thread goes on as if nothing had happened; the way back is gone."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    await saver.aprune([id_of(thread)])
    (kept,) = await history(graph, thread)
    assert kept.values == {"foo": "b", "bar": ["a", "b"]}
    assert kept.parent_config is None
    assert (await graph.ainvoke({"bar": ["more"]}, thread))["bar"] == ["a", "b", "more", "a", "b"]


async def test_pruning_keeps_a_paused_threads_writes(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """What a finished node wrote while its sibling waits for a person is still there afterwards."""
    ran: Ran = []

    def second(state: Bars) -> dict[str, Any]:
        return {"bar": [interrupt("go on?")]}

    graph = side_by_side(saver, second, ran)
    await graph.ainvoke({"bar": []}, thread)
    await saver.aprune([id_of(thread)])
    result = await graph.ainvoke(Command(resume="yes"), thread)
    assert result == {"bar": ["first", "yes"]}
    assert ran == ["first"]


async def test_deleted_thread_is_gone(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """Nothing of it shows; the id may be used for a new thread."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    await saver.adelete_thread(id_of(thread))
    assert await history(graph, thread) == []
    assert (await graph.ainvoke(START_STATE, thread))["bar"] == ["a"]


async def test_deleting_a_run_leaves_the_others(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Checkpoints are found by the run id in their metadata."""
    graph = line(saver, "a")
    for number in range(2):
        run = f"{id_of(thread)}-{number}"
        config: RunnableConfig = {**thread, "metadata": {"run_id": run}}
        await graph.ainvoke(START_STATE, config)
    await saver.adelete_for_runs([f"{id_of(thread)}-1"])
    states = await history(graph, thread)
    assert len(states) == 3
    assert states[0].values["bar"] == ["a"]
