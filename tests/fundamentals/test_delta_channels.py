"""Delta channels store what is added, not what there is; a graph does not notice.

Every run here is done on our saver and on `InMemorySaver`, and everything that can be seen of it
afterwards has to be the same: what the calls returned, each state of the history, listed and by its
id, and the writes that each state is built from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .deltas import Last, Session, asking, graph, plain_schema, said, saying, schema, silent

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("durability", ["sync", "async", "exit"]),
    pytest.mark.parametrize("frequency", [1, 3, 100]),
]

INPUTS = ("first", "second", "fork", "fork of the other", "goes on")

Scenario = Callable[[Session], Awaitable[None]]


async def same(saver: AsyncKafkaSaver, durability: str, scenario: Scenario) -> Session:
    """Do the same on our saver and in memory, compare all of it, and return ours."""
    ours, theirs = Session(saver, durability), Session(InMemorySaver(), durability)
    for session in (ours, theirs):
        await scenario(session)
    assert await ours.told() == await theirs.told()
    return ours


def talk(frequency: int) -> Any:
    """Return a graph of two nodes side by side, and one behind them that adds nothing."""
    first = {"left": saying("left"), "right": saying("right")}
    return graph(schema(frequency), first, {"quiet": silent})


async def test_values_grow(saver: AsyncKafkaSaver, durability: str, frequency: int) -> None:
    """Call by call, with messages that are changed and removed on the way."""

    async def scenario(session: Session) -> None:
        session.use(talk(frequency))
        for number in range(4):
            await session.run(said(f"in {number}"))

    session = await same(saver, durability, scenario)
    once: list[Any] = ["left", None, [], "right", None, []]
    values = (await session.state()).values
    assert values["log"] == [item for number in range(4) for item in (f"in {number}", *once)]
    ids = [message.id for message in values["messages"]]
    assert len(ids) == len({*ids})
    assert not {"in 0", "left 1"}.intersection(ids)
    assert "changed" in [message.text for message in values["messages"]]
    assert values["total"] == 12


async def test_forks_share_a_past_only(
    saver: AsyncKafkaSaver, durability: str, frequency: int
) -> None:
    """Runs from older states, with input and without, and a fork of a fork."""

    async def scenario(session: Session) -> None:
        session.use(talk(frequency))
        await session.run(said("first"))
        after_first = await session.state()
        await session.run(said("second"))
        after_second = await session.state()
        await session.run(said("fork"), after_first.config)
        await session.run(None, (await session.states())[-2].config)
        await session.run(said("fork of the other"), after_second.config)
        await session.run(said("goes on"))

    session = await same(saver, durability, scenario)
    values = (await session.state()).values
    inputs = [item for item in values["log"] if item in INPUTS]
    assert inputs == ["first", "second", "fork of the other", "goes on"]


async def test_updates_from_outside(
    saver: AsyncKafkaSaver, durability: str, frequency: int
) -> None:
    """On a new thread, on the newest state, on an older one; values replaced as a whole."""

    async def scenario(session: Session) -> None:
        session.use(talk(frequency))
        await session.update(said("before all"))
        await session.run(said("first"))
        after_first = await session.state()
        await session.update(said("update"), as_node="left")
        await session.run(None)
        await session.update({"messages": [RemoveMessage("first"), AIMessage("new", id="new")]})
        await session.update(said("fork"), after_first.config)
        await session.update({"log": Overwrite(["replaced"])})
        await session.update({"log": ["more"]})
        await session.run(said("third"))
        await session.update({"messages": [RemoveMessage(REMOVE_ALL_MESSAGES)]})
        await session.update(None, after_first.config, as_node="__copy__")

    await same(saver, durability, scenario)


async def test_interrupts_and_answers(
    saver: AsyncKafkaSaver, durability: str, frequency: int
) -> None:
    """Asked side by side with a node that is done; answered twice, the second time on a fork."""
    steps = ({"a": saying("a"), "ask": asking("ask")}, {"b": saying("b")}, {"c": saying("c")})

    async def scenario(session: Session) -> None:
        session.use(graph(schema(frequency), *steps))
        await session.run(said("in"))
        paused = await session.state()
        await session.run(Command(resume="yes"))
        await session.run(Command(resume="really"), interrupt_before=["c"])
        await session.update(said("at the breakpoint"))
        await session.run(None)
        await session.run(None, paused.config)
        await session.run(Command(resume="no", update=said("with the answer")))
        await session.run(Command(resume="not at all"))
        await session.run(Command(update=said("by command")))

    session = await same(saver, durability, scenario)
    ran = [answer for answer in session.answers if "log" in answer]
    assert [len(answer.get("__interrupt__", [])) for answer in ran] == [1, 1, 0, 0, 1, 1, 0, 0]


async def test_subgraphs(saver: AsyncKafkaSaver, durability: str, frequency: int) -> None:
    """A child with delta channels of its own waits, is updated, and gives them to its parent."""
    state = schema(frequency)
    inner = graph(state, {"first": saying("first")}, {"ask": asking("inner")}, given=Last)
    middle = graph(state, {"inner": inner.compile()}, {"after": saying("after")}, given=Last)
    outer = graph(state, {"middle": middle.compile()}, {"last": saying("last")})

    async def scenario(session: Session) -> None:
        session.use(outer)
        await session.run(said("in"))
        waiting: Any = await session.state(subgraphs=True)
        child = waiting.tasks[0].state.tasks[0].state
        await session.update(said("update"), child.config)
        await session.run(Command(resume="yes"))
        await session.run(Command(resume="really"))
        await session.run(None, waiting.config)

    session = await same(saver, durability, scenario)
    logs = [answer.get("log", []) for answer in session.answers]
    assert any("update" in log and "really" in log for log in logs)


async def test_lasting_subgraphs(saver: AsyncKafkaSaver, durability: str, frequency: int) -> None:
    """A child that keeps its state between calls goes on where it was."""
    state = schema(frequency)
    kept = graph(state, {"inner": saying("inner")}, given=Last).compile(checkpointer=True)
    outer = graph(state, {"child": kept}, {"last": saying("last")})

    async def scenario(session: Session) -> None:
        session.use(outer)
        for number in range(2):
            await session.run(said(f"in {number}"))

    await same(saver, durability, scenario)


async def test_a_channel_becomes_a_delta_channel(
    saver: AsyncKafkaSaver, durability: str, frequency: int
) -> None:
    """Values that were stored whole are what a delta channel begins with, on forks as well."""
    steps = ({"a": saying("a")}, {"b": saying("b")})

    async def scenario(session: Session) -> None:
        session.use(graph(plain_schema(), *steps))
        await session.run(said("plain"))
        before = await session.state()
        await session.run(said("plain again"))
        session.use(graph(schema(frequency), *steps))
        await session.run(said("delta"))
        await session.run(said("fork of plain"), before.config)
        session.use(graph(schema(2), *steps))
        await session.run({"messages": [HumanMessage("other", id="other")]})
        session.use(graph(plain_schema(), *steps))
        await session.run(said("plain at last"))

    await same(saver, durability, scenario)
