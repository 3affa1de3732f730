"""A conversation that grows, and what the log holds of it. Small, and the same each time."""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from operator import add
from random import Random
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StateSnapshot

from eventstore import codec
from eventstore.events import ChannelValue, CheckpointSaved
from langgraph.checkpoint.kafka import AsyncKafkaSaver, SaverSettings

from .graphs import Saver, metadata, named

WORDS = 60
"""Of each message: about 400 bytes."""


def text_of(number: int) -> str:
    """Return what is said, different each time."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    random = Random(number)
    return " ".join("".join(random.choices(letters, k=6)) for _ in range(WORDS))


def answer(state: MessagesState) -> dict[str, Any]:
    """Stand in for a chat model."""
    number = len(state["messages"])
    return {"messages": [AIMessage(text_of(number), id=f"answer {number}")]}


def chat(saver: Saver) -> Any:
    """Return a graph that answers."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", answer)
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


async def say(graph: Any, number: int, config: RunnableConfig) -> None:
    """Say one thing."""
    message = HumanMessage(text_of(-number), id=f"question {number}")
    await graph.ainvoke({"messages": [message]}, config)


class Notes(TypedDict):
    """A state of two lists that grow."""

    messages: Annotated[list[str], add]
    notes: Annotated[list[str], add]


def noting(saver: Saver | None, name: str, inner: Any = None) -> Any:
    """Return a graph that adds to `messages`, and runs another one with the same channel."""

    def note(state: Notes) -> dict[str, Any]:
        return {"messages": [f"{name} {text_of(len(state['messages']))}"], "notes": [name]}

    builder = StateGraph(Notes)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    if inner is not None:
        builder.add_node("inner", inner)
        builder.add_edge("note", "inner")
    return builder.compile(checkpointer=saver)


def shown(state: StateSnapshot) -> Any:
    """Return what two runs of the same graph have in common."""
    return state.values, state.next, metadata(state)


def place(state: StateSnapshot) -> RunnableConfig:
    """Return the config that names a state's checkpoint."""
    return {"configurable": {**named(state.config)}}


@asynccontextmanager
async def another(saver: AsyncKafkaSaver) -> AsyncGenerator[AsyncKafkaSaver]:
    """Open another saver on the same log and view, as another process has it."""
    engine = saver.engine
    config = SaverSettings(projector=None)
    async with AsyncKafkaSaver(engine.log, engine._view, config=config) as other:
        yield other


class Logged:
    """What a consumer of the log reads of one thread."""

    def __init__(self) -> None:
        self.saves: list[CheckpointSaved] = []
        self.size = 0
        """Bytes of all records' bodies, before compression."""

    def forms(self, channel: str = "messages", namespace: str = "") -> Sequence[ChannelValue]:
        """Return each form in which a checkpoint of a namespace holds a channel."""
        return [
            event.channels[channel].value
            for event in self.saves
            if event.namespace.partition(":")[0] == namespace and channel in event.channels
        ]

    def kinds(self, channel: str = "messages", namespace: str = "") -> list[str]:
        """Return the names of these forms."""
        return [type(value).__name__ for value in self.forms(channel, namespace)]


async def logged(saver: AsyncKafkaSaver, thread: RunnableConfig) -> Logged:
    """Read the log."""
    log = saver.engine.log
    thread_id = named(thread)["thread_id"]
    partition = log.partition_of(thread_id)
    end = (await log.end_position((partition,))).next_offset(partition)
    at = (await log.first_position((partition,))).next_offset(partition)
    found = Logged()
    while at < end:
        batch = await log.read(partition, at, end)
        for record in batch.records:
            if codec.thread_of(record) == thread_id:
                found.size += codec.decoded_size(record)
                event = codec.decode(record).event
                if isinstance(event, CheckpointSaved):
                    found.saves.append(event)
        at = batch.next_offset
    return found
