"""A person in the loop: nodes that stop in the middle and wait."""

from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, Ran, asking, line

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_interrupt_returns_what_is_asked(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """The call ends, and says why."""
    result = await asking(saver).ainvoke(START_STATE, thread)
    assert [each.value for each in result["__interrupt__"]] == ["go on?"]


async def test_resume_hands_over_the_answer(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """`interrupt` returns in the node what `Command(resume=…)` brings."""
    graph = asking(saver)
    await graph.ainvoke(START_STATE, thread)
    result = await graph.ainvoke(Command(resume="yes"), thread)
    assert result == {"foo": "z", "bar": ["a", "yes", "z"]}


async def test_resumed_node_starts_from_its_first_line(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """What stands in front of `interrupt` runs twice; nodes before it do not."""
    ran: Ran = []
    graph = asking(saver, ran)
    await graph.ainvoke(START_STATE, thread)
    assert ran == ["ask"]
    await graph.ainvoke(Command(resume="yes"), thread)
    assert ran == ["ask", "ask", "answered"]


async def test_pause_before_a_node(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """A breakpoint stops between nodes, and `None` as input goes on."""
    graph = line(saver, "a", "b")
    paused = await graph.ainvoke(START_STATE, thread, interrupt_before=["node_b"])
    assert paused == {"foo": "a", "bar": ["a"]}
    assert (await graph.aget_state(thread)).next == ("node_b",)
    assert await graph.ainvoke(None, thread) == {"foo": "b", "bar": ["a", "b"]}
