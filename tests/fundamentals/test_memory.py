"""Why have a checkpointer: the second question of a conversation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import (
    START_STATE,
    WHICH_WINDOW,
    WHO_OWNS,
    Ran,
    adding,
    agent,
    ask,
    history,
    line,
    side_by_side,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_without_checkpointer_nothing_is_remembered() -> None:
    """Each call stands alone: the second question has nothing that "it" could mean."""
    graph = agent(None)
    await ask(graph, WHO_OWNS)
    messages = await ask(graph, WHICH_WINDOW)
    assert messages[-1].text == "Which service do you mean?"


async def test_same_thread_remembers(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """With a checkpointer and the same thread id, the second question continues the first."""
    graph = agent(saver)
    await ask(graph, WHO_OWNS, thread)
    messages = await ask(graph, WHICH_WINDOW, thread)
    assert messages[-1].text == "Changes to checkout: on Tuesdays."


async def test_every_step_is_saved(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """Two calls of the agent leave eight messages and ten checkpoints."""
    graph = agent(saver)
    await ask(graph, WHO_OWNS, thread)
    messages = await ask(graph, WHICH_WINDOW, thread)
    assert len(messages) == 8
    assert len(await history(graph, thread)) == 10


async def test_threads_share_nothing(
    saver: AsyncKafkaSaver, thread: RunnableConfig, other_thread: RunnableConfig
) -> None:
    """What one thread holds, another one does not see."""
    graph = agent(saver)
    await ask(graph, WHO_OWNS, thread)
    messages = await ask(graph, WHICH_WINDOW, other_thread)
    assert messages[-1].text == "Which service do you mean?"


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}])
async def test_thread_id_is_required(saver: AsyncKafkaSaver, config: Any) -> None:
    """A call that names no thread is refused before any node runs."""
    ran: Ran = []
    graph = side_by_side(saver, adding("second"), ran)
    with pytest.raises(ValueError, match="thread_id"):
        await graph.ainvoke({"bar": []}, config)
    assert ran == []


async def test_sync_calls_work_from_another_os_thread(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """`invoke` shares its threads with `ainvoke`, as long as it is not called on the event loop."""
    graph = line(saver, "a")
    await asyncio.to_thread(graph.invoke, START_STATE, thread)
    state = await graph.aget_state(thread)
    assert state.values == {"foo": "a", "bar": ["a"]}
    with pytest.raises(asyncio.InvalidStateError):
        graph.invoke(START_STATE, thread)
