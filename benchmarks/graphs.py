"""The graphs that chats go through: how the channel of messages changes in a turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, TypeAlias, TypedDict

from langchain_core.messages import AnyMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from .messages import Script

Builder: TypeAlias = Any
"""LangGraph's `StateGraph`; its methods' own types are not known in full."""

SNAPSHOT_FREQUENCY = 100
TRIMMED_EVERY = 10
TRIMMED = 10


class Chat(TypedDict):
    """What most graphs keep."""

    messages: Annotated[list[AnyMessage], add_messages]


class CountedChat(Chat):
    """With a field that changes in every turn."""

    turns: int


def flattened(messages: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """Append what was written: the cheapest reducer that a delta channel can have."""
    return [*messages, *chain.from_iterable(writes)]


class DeltaChat(TypedDict):
    """With a channel of which LangGraph itself stores only now and then more than the writes."""

    messages: Annotated[
        list[AnyMessage], DeltaChannel(flattened, snapshot_frequency=SNAPSHOT_FREQUENCY)
    ]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way for a chat to go on."""

    description: str
    build: Callable[[Script], Builder]
    has_drafts: bool = False


def _number(state: Mapping[str, Any]) -> int:
    """Return the turn's index, which the newest message's id ends with."""
    return int(str(state["messages"][-1].id).rpartition("-")[2]) - 1


def _answering(state: Any, script: Script) -> Builder:
    async def model(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [script.answers[_number(state)]]}

    builder: Builder = StateGraph(state)
    return builder.add_node("model", model).add_edge(START, "model")


def _one_node(script: Script) -> Builder:
    return _answering(Chat, script)


def _two_nodes(script: Script) -> Builder:
    async def count(state: dict[str, Any]) -> dict[str, Any]:
        return {"turns": _number(state) + 1}

    return _answering(CountedChat, script).add_node("count", count).add_edge("model", "count")


def _delta(script: Script) -> Builder:
    return _answering(DeltaChat, script)


def _streamed(script: Script) -> Builder:
    async def draft(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [script.drafts[_number(state)]]}

    async def finish(state: dict[str, Any]) -> dict[str, Any]:
        number = _number(state)
        is_trimming = (number + 1) % TRIMMED_EVERY == 0
        oldest: list[AnyMessage] = state["messages"][: TRIMMED if is_trimming else 0]
        removals = [RemoveMessage(id=str(message.id)) for message in oldest]
        return {"messages": [script.answers[number], *removals]}

    builder: Builder = StateGraph(Chat)
    return builder.add_sequence([("draft", draft), ("finish", finish)]).add_edge(START, "draft")


KINDS: dict[str, Kind] = {
    "one": Kind("one node", _one_node),
    "two": Kind("two nodes, of which the second only counts the turns", _two_nodes),
    "delta": Kind(
        f"one node, DeltaChannel with a snapshot at every {SNAPSHOT_FREQUENCY}th update", _delta
    ),
    "replace": Kind(
        f"two nodes, of which the second replaces the first one's message; every "
        f"{TRIMMED_EVERY}th turn removes the {TRIMMED} oldest messages",
        _streamed,
        has_drafts=True,
    ),
}
