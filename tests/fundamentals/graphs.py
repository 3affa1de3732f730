"""The graphs of the tutorial. Small, without a network, and the same each time."""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import StateSnapshot, interrupt

Saver = BaseCheckpointSaver[Any]
Ran = list[str]
"""The places in nodes that were reached, in order."""

WHO_OWNS = "Who owns the checkout service?"
WHICH_WINDOW = "What is the change window for it?"


START_STATE: dict[str, Any] = {"foo": "", "bar": []}


class Letters(TypedDict):
    """The state of most graphs here: the last letter, and all letters."""

    foo: str
    bar: Annotated[list[str], add]


def line(saver: Saver | None, *names: str) -> Any:
    """Return a graph whose nodes `node_<name>` run one behind the other, each adding its name."""
    builder = StateGraph(Letters)
    before = START
    for name in names:
        builder.add_node(f"node_{name}", adding(name))
        builder.add_edge(before, f"node_{name}")
        before = f"node_{name}"
    return builder.compile(checkpointer=saver)


def adding(name: str) -> Any:
    """Return a node that adds its name."""

    def node(state: Letters) -> dict[str, Any]:
        return {"foo": name, "bar": [name]}

    return node


async def history(graph: Any, config: RunnableConfig, **chosen: Any) -> list[StateSnapshot]:
    """Return the states that a thread went through, newest first."""
    return [state async for state in graph.aget_state_history(config, **chosen)]


def named(config: RunnableConfig) -> dict[str, Any]:
    """Return what a config names: thread, namespace, checkpoint."""
    return config.get("configurable", {})


def metadata(state: StateSnapshot) -> dict[str, Any]:
    """Return a state's metadata, empty when there is no state."""
    return dict(state.metadata or {})


# --- an agent with two tools ----------------------------------------------------------------------


@tool
def find_owner(service: str) -> str:
    """Tell which team owns a service."""
    return f"The payments team owns {service}."


@tool
def find_window(service: str) -> str:
    """Tell when a service may be changed."""
    return f"Changes to {service}: on Tuesdays."


def think(state: MessagesState) -> dict[str, Sequence[BaseMessage]]:
    """Stand in for a chat model: what "it" means stands in the messages before, or nowhere."""
    messages = state["messages"]
    question = messages[-1]
    if isinstance(question, ToolMessage):
        return {"messages": [AIMessage(question.text)]}
    if not any("checkout" in message.text for message in messages):
        return {"messages": [AIMessage("Which service do you mean?")]}
    name = "find_owner" if "owns" in question.text else "find_window"
    call = {"name": name, "args": {"service": "checkout"}, "id": f"call-{len(messages)}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def agent(saver: Saver | None) -> Any:
    """Return an agent with two tools."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", think)
    builder.add_node("tools", ToolNode([find_owner, find_window]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


async def ask(graph: Any, question: str, config: RunnableConfig | None = None) -> list[Any]:
    """Ask the agent; return all messages that its state then holds."""
    result = await graph.ainvoke({"messages": [HumanMessage(question)]}, config)
    messages: list[Any] = result["messages"]
    return messages


# --- graphs that stop ----------------------------------------------------------------------------


def asking(saver: Saver | None, ran: Ran | None = None) -> Any:
    """Return a graph that asks a person and adds the answer, then goes on."""

    def ask(state: Letters) -> dict[str, Any]:
        note(ran, "ask")
        answer = interrupt("go on?")
        note(ran, "answered")
        return {"foo": answer, "bar": [answer]}

    builder = StateGraph(Letters)
    builder.add_node("node_a", adding("a"))
    builder.add_node("ask", ask)
    builder.add_node("node_z", adding("z"))
    builder.add_edge(START, "node_a")
    builder.add_edge("node_a", "ask")
    builder.add_edge("ask", "node_z")
    return builder.compile(checkpointer=saver)


class Bars(TypedDict):
    """A state that nodes running side by side can all add to."""

    bar: Annotated[list[str], add]


def side_by_side(saver: Saver | None, second: Any, ran: Ran) -> Any:
    """Return a graph of two nodes in one step: `first`, which just runs, and `second`."""

    def first(state: Bars) -> dict[str, Any]:
        note(ran, "first")
        return {"bar": ["first"]}

    builder = StateGraph(Bars)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge(START, "second")
    return builder.compile(checkpointer=saver)


def note(ran: Ran | None, name: str) -> None:
    """Note that a place in a node was reached."""
    if ran is not None:
        ran.append(name)
