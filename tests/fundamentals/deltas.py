"""Graphs with delta channels, and a session that runs one and tells all that it left behind."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# LangGraph's builder has types that a strict checker cannot follow.

from __future__ import annotations

import re
from asyncio import gather
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import add
from typing import Annotated, Any, TypedDict, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph, message
from langgraph.graph.message import add_messages
from langgraph.types import StateSnapshot, interrupt

from .conftest import new_thread
from .graphs import history, named

Node = Callable[[Any], dict[str, Any]]

merged: Any = message._messages_delta_reducer
"""Adds, changes and removes messages by their ids; LangGraph's own reducer for delta channels."""

LONG = 4
"""With more messages than this, a node changes the last one and removes the first."""

_CHANCE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
"""Ids of checkpoints, tasks, interrupts and threads."""


def flattened(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """Add the items of all writes: a delta channel's reducer gets them at once."""
    return [*state, *(item for write in writes for item in write)]


def schema(frequency: int) -> Any:
    """Return a state of two delta channels and two that store their value each time."""
    log = Annotated[list[Any], DeltaChannel(flattened, snapshot_frequency=frequency)]
    messages = Annotated[list[AnyMessage], DeltaChannel(merged, snapshot_frequency=frequency)]
    fields = {"log": log, "messages": messages, "total": Annotated[int, add], "last": str}
    return cast("Any", TypedDict)("State", fields)


def plain_schema() -> Any:
    """Return the same state without delta channels."""
    messages = Annotated[list[AnyMessage], add_messages]
    fields = {
        "log": Annotated[list[Any], add],
        "messages": messages,
        "total": Annotated[int, add],
        "last": str,
    }
    return cast("Any", TypedDict)("State", fields)


def said(text: str) -> dict[str, Any]:
    """Return an input: an item and a message, whose id is its text."""
    return {"log": [text], "messages": [HumanMessage(text, id=text)], "total": 1, "last": text}


def saying(name: str) -> Node:
    """Return a node that adds an item and a message, and tidies up among many messages."""

    def node(state: Any) -> dict[str, Any]:
        messages = state["messages"]
        more: list[Any] = [AIMessage(name, id=f"{name} {len(state['log'])}")]
        if len(messages) > LONG:
            more += [RemoveMessage(messages[0].id), AIMessage("changed", id=messages[-1].id)]
        return {"log": [name, None, []], "messages": more, "total": 1}

    return node


def asking(name: str) -> Node:
    """Return a node that asks twice, and adds the answers."""

    def node(_: Any) -> dict[str, Any]:
        answers = [interrupt(f"{name}?"), interrupt(f"{name}, sure?")]
        return {"log": answers, "messages": [HumanMessage(f"{answers}", id=f"{answers}")]}

    return node


def silent(_: Any) -> dict[str, Any]:
    """Write to no delta channel."""
    return {"last": "silent"}


class Last(TypedDict):
    """What a graph is given that begins with empty delta channels."""

    last: str


def graph(state: Any, *steps: dict[str, Any], given: Any = None) -> Any:
    """Return a builder of steps one behind the other; the nodes of one step run side by side.

    `given` is the part of the state that it takes as its input.
    """
    builder: Any = StateGraph(state, input_schema=given)
    for name, node in ((name, node) for step in steps for name, node in step.items()):
        builder.add_node(name, node)
    for name in steps[0]:
        builder.add_edge(START, name)
    for before, after in pairwise(steps):
        for name in after:
            builder.add_edge([*before], name)
    return builder


class Session:
    """A new thread on one saver, the graph that runs in it, and what its calls returned."""

    def __init__(self, saver: BaseCheckpointSaver[Any], durability: str) -> None:
        self.saver = saver
        self.durability = durability
        self.thread = new_thread()
        self.answers: list[Any] = []
        self.graph: Any = None

    def use(self, builder: Any) -> None:
        """Run this graph from now on."""
        self.graph = builder.compile(checkpointer=self.saver)

    async def run(self, given: Any, at: RunnableConfig | None = None, **how: Any) -> Any:
        """Run the graph, from an older checkpoint if one is named."""
        config = self.thread if at is None else at
        answer = await self.graph.ainvoke(given, config, durability=self.durability, **how)
        self.answers.append(answer)
        return answer

    async def update(self, values: Any, at: RunnableConfig | None = None, **how: Any) -> None:
        """Update the state, of an older checkpoint or a subgraph if one is named."""
        config = self.thread if at is None else at
        self.answers.append(named(await self.graph.aupdate_state(config, values, **how)))

    async def state(self, at: RunnableConfig | None = None, **how: Any) -> StateSnapshot:
        """Return the newest state, or the one that is named."""
        config = self.thread if at is None else at
        state: StateSnapshot = await self.graph.aget_state(config, **how)
        return state

    async def states(self) -> list[StateSnapshot]:
        """Return all states, newest first."""
        return await history(self.graph, self.thread)

    async def told(self) -> list[str]:
        """Return what every call returned and what every state tells, random ids numbered."""
        newest, states = await gather(self.state(subgraphs=True), self.states())
        by_id = await gather(*(self.state(state.config, subgraphs=True) for state in states))
        found = [item async for item in self.saver.alist(self.thread)]
        # In the order of their making: memory lists namespace by namespace.
        found.sort(key=lambda item: item.checkpoint["id"])
        walks = await gather(*(self._walk(item.config) for item in found))
        told = [f"answer {shown(answer)}" for answer in self.answers]
        told.append(f"newest {snapshot(newest)}")
        told += [f"listed {snapshot(state)}" for state in states]
        told += [f"by id {snapshot(state)}" for state in by_id]
        told += [f"walk {shown(walk)}" for walk in walks]
        return numbered(told)

    async def _walk(self, config: RunnableConfig) -> dict[str, Any]:
        histories = await self.saver.aget_delta_channel_history(
            config=config, channels=["messages", "log"]
        )
        return {"of": place(config), **histories}


def snapshot(state: StateSnapshot) -> str:
    """Return all that a snapshot tells but its time."""
    tasks = [
        (
            task.id,
            task.name,
            task.path,
            repr(task.error),
            task.interrupts,
            snapshot(task.state) if isinstance(task.state, StateSnapshot) else task.state,
            task.result,
        )
        for task in state.tasks
    ]
    parent = None if state.parent_config is None else place(state.parent_config)
    facts = {
        "values": state.values,
        "next": state.next,
        "config": place(state.config),
        "metadata": state.metadata,
        "parent": parent,
        "tasks": tasks,
        "interrupts": state.interrupts,
    }
    return shown(facts)


def place(config: RunnableConfig) -> str:
    """Return which checkpoint a config names."""
    configurable = named(config)
    return f"{configurable.get('checkpoint_ns', '')}/{configurable.get('checkpoint_id', '')}"


def shown(value: Any) -> str:
    """Return a text that does not depend on the order of keys."""
    if isinstance(value, dict):
        pairs = sorted(cast("dict[str, Any]", value).items())
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, BaseMessage):
        return f"{type(value).__name__}({vars(value)})"
    if type(value) is _DeltaSnapshot:
        return f"snapshot of {shown(value.value)}"
    if type(value) is tuple:
        return "(" + ", ".join(shown(item) for item in value) + ")"
    return repr(value)


def numbered(lines: Sequence[str]) -> list[str]:
    """Replace every random id by its number, in the order in which they first appear."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"#{numbers.setdefault(found[0], len(numbers))}"

    return [_CHANCE.sub(number, line) for line in lines]
