"""Finding one's way in a thread's past."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, StateSnapshot

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, asking, history, line, metadata, named

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def graph(saver: AsyncKafkaSaver, thread: RunnableConfig) -> Any:
    """A line of two nodes that has run once: four checkpoints."""
    graph = line(saver, "a", "b")
    await graph.ainvoke(START_STATE, thread)
    return graph


async def test_history_is_newest_first(graph: Any, thread: RunnableConfig) -> None:
    """Steps count down, checkpoint ids sort down."""
    states = await history(graph, thread)
    assert [step_of(state) for state in states] == [2, 1, 0, -1]
    ids = [named(state.config)["checkpoint_id"] for state in states]
    assert ids == sorted(ids, reverse=True)


async def test_parents_form_a_chain(graph: Any, thread: RunnableConfig) -> None:
    """From the newest checkpoint, parent by parent, down to None."""
    state = await graph.aget_state(thread)
    steps = [step_of(state)]
    while state.parent_config is not None:
        state = await graph.aget_state(state.parent_config)
        steps.append(step_of(state))
    assert steps == [2, 1, 0, -1]


async def test_one_checkpoint_by_its_id(graph: Any, thread: RunnableConfig) -> None:
    """Thread id and checkpoint id name one moment for ever."""
    _, after_a, *_ = await history(graph, thread)
    checkpoint_id = named(after_a.config)["checkpoint_id"]
    config = {"configurable": {**named(thread), "checkpoint_id": checkpoint_id}}
    assert (await graph.aget_state(config)).values == {"foo": "a", "bar": ["a"]}


async def test_limit_takes_the_newest(graph: Any, thread: RunnableConfig) -> None:
    """`limit=2` gives two."""
    assert [step_of(state) for state in await history(graph, thread, limit=2)] == [2, 1]


async def test_before_takes_the_older_ones(graph: Any, thread: RunnableConfig) -> None:
    """`before` the newest of four gives three."""
    newest, *older = await history(graph, thread)
    assert await history(graph, thread, before=newest.config) == older
    assert len(older) == 3


async def test_found_by_what_comes_next(graph: Any, thread: RunnableConfig) -> None:
    """The moment before a node ran."""
    (found,) = [state for state in await history(graph, thread) if state.next == ("node_b",)]
    assert found.values == {"foo": "a", "bar": ["a"]}


async def test_found_by_step(graph: Any, thread: RunnableConfig) -> None:
    """In Python, or by the checkpointer: `filter` compares metadata."""
    states = await history(graph, thread)
    (found,) = [state for state in states if step_of(state) == 1]
    assert await history(graph, thread, filter={"step": 1}) == [found]


async def test_found_by_source(graph: Any, thread: RunnableConfig) -> None:
    """What came from outside has source `input` or `update`."""
    await graph.aupdate_state(thread, {"bar": ["c"]})
    (found,) = await history(graph, thread, filter={"source": "update"})
    assert found.values == {"foo": "b", "bar": ["a", "b", "c"]}


async def test_found_by_interrupted_task(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """The moment where a person was asked stays findable after the answer."""
    graph = asking(saver)
    await graph.ainvoke(START_STATE, thread)
    await graph.ainvoke(Command(resume="yes"), thread)
    (found,) = [
        state
        for state in await history(graph, thread)
        if any(task.interrupts for task in state.tasks)
    ]
    assert found.next == ("ask",)


def step_of(state: StateSnapshot) -> int:
    """Return the step at which a state was saved."""
    step: int = metadata(state)["step"]
    return step
