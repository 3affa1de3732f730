"""What `get_state` tells of one moment of a thread."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, asking, history, line, metadata, named

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_snapshot_tells_values_and_what_comes_next(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Values are those after the last step; `next` is empty when the run has ended."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    state = await graph.aget_state(thread)
    assert state.values == {"foo": "b", "bar": ["a", "b"]}
    assert state.next == ()
    assert state.tasks == ()
    assert state.interrupts == ()


async def test_config_names_exactly_this_snapshot(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Thread, namespace and checkpoint id, nothing else: enough to come back to it."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    state = await graph.aget_state(thread)
    assert set(named(state.config)) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert named(state.config)["thread_id"] == named(thread)["thread_id"]
    assert named(state.config)["checkpoint_ns"] == ""
    assert await graph.aget_state(state.config) == state


async def test_metadata_tells_source_step_and_parents(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Exactly these three, when nothing else was configured."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    state = await graph.aget_state(thread)
    assert state.metadata == {"source": "loop", "step": 1, "parents": {}}


async def test_metadata_keeps_what_was_configured(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Keys of `configurable` and of `metadata` are kept with every checkpoint of the run."""
    graph = line(saver, "a")
    config: RunnableConfig = {
        "configurable": {**named(thread), "tenant": "blue"},
        "metadata": {"release": 7},
    }
    await graph.ainvoke(START_STATE, config)
    for state in await history(graph, thread):
        assert metadata(state)["tenant"] == "blue"
        assert metadata(state)["release"] == 7


async def test_creation_time_is_iso_8601(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """With a time zone, and later for later checkpoints."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    times = [
        datetime.fromisoformat(state.created_at or "") for state in await history(graph, thread)
    ]
    assert all(time.tzinfo is not None for time in times)
    assert times == sorted(times, reverse=True)


async def test_parent_config_leads_to_the_one_before(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """The first checkpoint of a thread has none."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    last, middle, first = await history(graph, thread)
    assert last.parent_config == middle.config
    assert middle.parent_config == first.config
    assert first.parent_config is None


async def test_tasks_tell_what_was_going_on(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """A finished step's task has its result."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    _, middle, _ = await history(graph, thread)
    task: Any = middle.tasks[0]
    assert len(middle.tasks) == 1
    assert task.id
    assert task.name == "node_a"
    assert task.path == ("__pregel_pull", "node_a")
    assert task.error is None
    assert task.interrupts == ()
    assert task.state is None
    assert task.result == {"foo": "a", "bar": ["a"]}


async def test_waiting_task_tells_its_interrupt(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """What a node asks is in its task, and in the snapshot's own list."""
    graph = asking(saver)
    await graph.ainvoke(START_STATE, thread)
    state = await graph.aget_state(thread)
    (task,) = state.tasks
    assert task.result is None
    assert [each.value for each in task.interrupts] == ["go on?"]
    assert state.interrupts == task.interrupts
    assert state.next == ("ask",)


async def test_unknown_thread_has_an_empty_snapshot(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """No error: there is nothing yet."""
    state = await line(saver, "a").aget_state(thread)
    assert state.values == {}
    assert state.next == ()
    assert state.metadata is None
    assert state.created_at is None
    assert state.parent_config is None
