"""A program changes while its threads wait. They go on as they would with LangGraph's own saver."""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

from __future__ import annotations

from operator import add
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .graphs import START_STATE, Letters, Saver, adding, asking

pytestmark = pytest.mark.asyncio(loop_scope="session")


class WithOneMore(Letters):
    """The state with a channel that old threads know nothing of."""

    baz: str


class WithOneLess(TypedDict):
    """The state without a channel that old threads have."""

    bar: Annotated[list[str], add]


def ask(state: Any) -> dict[str, Any]:
    """Ask a person, and add the answer."""
    return {"bar": [interrupt("go on?")]}


def tell(state: Any) -> dict[str, Any]:
    """Add all that the state holds."""
    return {"bar": [repr(sorted(state.items()))]}


def renamed(saver: Saver) -> Any:
    """The node that waits has another name."""
    return changed(saver, Letters, waiting="ask_again")


def channel_added(saver: Saver) -> Any:
    """The state has one channel more."""
    return changed(saver, WithOneMore)


def channel_removed(saver: Saver) -> Any:
    """The state has one channel less."""
    return changed(saver, WithOneLess)


def changed(saver: Saver, state: type[Any], waiting: str = "ask") -> Any:
    """Return the new form of the graph `asking`."""
    builder = StateGraph(state)
    builder.add_node("node_a", adding("a") if state is not WithOneLess else tell)
    builder.add_node(waiting, ask)
    builder.add_node("node_z", tell)
    builder.add_edge(START, "node_a")
    builder.add_edge("node_a", waiting)
    builder.add_edge(waiting, "node_z")
    return builder.compile(checkpointer=saver)


async def outcome(saver: Saver, thread: RunnableConfig, change: Any) -> list[Any]:
    """Begin with the old graph, go on with the new one; return all that can be seen of it."""
    await asking(saver).ainvoke(START_STATE, thread)
    graph = change(saver)
    found = await graph.aget_state(thread)
    resumed = await graph.ainvoke(Command(resume="yes"), thread)
    after = await graph.aget_state(thread)
    again = await graph.ainvoke({"bar": ["new input"]}, thread)
    again.pop("__interrupt__", None)  # its id is random
    return [found.values, found.next, resumed, after.values, after.next, again]


@pytest.mark.parametrize("change", [renamed, channel_added, channel_removed])
async def test_old_thread_goes_on(
    saver: AsyncKafkaSaver, thread: RunnableConfig, change: Any
) -> None:
    """Exactly as on `InMemorySaver`."""
    expected = await outcome(InMemorySaver(), thread, change)
    assert await outcome(saver, thread, change) == expected


async def test_new_channel_starts_without_a_value(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """And what was there is there: a deployment in the middle of a run loses nothing."""
    await asking(saver).ainvoke(START_STATE, thread)
    state = await channel_added(saver).aget_state(thread)
    assert state.values == {"foo": "a", "bar": ["a"]}
    assert state.next == ("ask",)
