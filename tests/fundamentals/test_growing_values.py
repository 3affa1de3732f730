"""Growing values: each step costs what it adds, and every state of the past stays readable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import StateSnapshot

from eventstore.codec import thread_hash
from eventstore.events import Extended, Full
from langgraph.checkpoint.kafka import AsyncKafkaSaver
from projector.view import Selection
from saver.mapping import payload_of
from saver.place import Place, ReadLevel
from tests.wirings import EVERY_STORE, Caller, Form, Savers

from .graphs import history, metadata, named
from .growing import Logged, another, chat, logged, noting, place, say, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

TURNS = 150
PER_TURN = 3
"""Checkpoints: of the input, before the answer and behind it."""


@pytest_asyncio.fixture(loop_scope="session", params=EVERY_STORE)
async def lone(request: pytest.FixtureRequest, savers: Savers) -> AsyncIterator[Caller]:
    """A saver alone in its store, whose view can be lost."""
    async with AsyncExitStack() as stack:
        yield await savers.alone(request.param, Form.AWAITED, stack)


# Not to be shown: pytest makes a text of each fixture, and one of all these states takes half a
# minute.
@dataclass(frozen=True, repr=False)
class Remembered:
    """A conversation as InMemorySaver has it, oldest state first."""

    states: list[Any]
    messages: list[tuple[str, bytes] | None]
    """Of each state, serialized; None before the first one."""


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def remembered() -> Remembered:
    """The conversation that the long test has."""
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    saver = InMemorySaver()
    for number in range(TURNS):
        await say(chat(saver), number, config)
    states = [shown(state) for state in reversed(await history(chat(saver), config))]
    packed: list[tuple[str, bytes] | None] = []
    for _, (checkpoint, _, _) in sorted(saver.storage["t"][""].items()):
        versions = saver.serde.loads_typed(checkpoint)["channel_versions"]
        packed.append(saver.blobs.get(("t", "", "messages", versions.get("messages"))))
    return Remembered(states, packed)


@pytest.mark.timeout(90)
async def test_a_long_conversation_is_remembered(
    lone: Caller, thread: RunnableConfig, remembered: Remembered
) -> None:
    """150 turns, by processes that come and go: all states are InMemorySaver's, at any time.

    The log holds each message a few times: as input, as a task's write, and in the channel.
    """
    saver = lone.saver
    assert isinstance(saver, AsyncKafkaSaver)
    random = Random(7)
    async with AsyncExitStack() as stack:
        present = saver
        for number in range(TURNS):
            if random.random() < 0.1:
                present = await stack.enter_async_context(another(saver))
            await say(chat(present), number, thread)
            count = PER_TURN * (number + 1)
            if number % 10 == 9:
                state = await chat(present).aget_state(thread)
                assert shown(state) == remembered.states[count - 1]
                await check_bytes(present, thread, remembered.messages[:count])
    await lone.lose_view()
    await check_bytes(saver, thread, remembered.messages)
    found = await history(chat(saver), thread)
    assert [shown(state) for state in reversed(found)] == remembered.states
    check_log(await logged(saver, thread), remembered)


async def check_bytes(
    saver: AsyncKafkaSaver, thread: RunnableConfig, expected: Sequence[tuple[str, bytes] | None]
) -> None:
    """Compare the messages of every checkpoint, as they are listed, and some by id."""
    reader, name = saver.engine.reader, named(thread)["thread_id"]
    partition, level = saver.engine.log.partition_of(name), ReadLevel.LINEARIZABLE
    whole = reader.checkpoints(Selection(thread_hash(name)), name, level, limit=None)
    listed = [stored async for stored in whole]
    for stored, messages in zip(reversed(listed), expected, strict=True):
        by_id = stored
        if len(expected) % (50 * PER_TURN) == 0:
            _, read = await reader.checkpoint(Place(name, "", stored.checkpoint_id), level)
            assert read is not None
            by_id = read
        for each in (stored, by_id):
            if messages is None:
                assert "messages" not in each.row.channels
                continue
            payload = payload_of(partition, name, each, "messages")
            assert payload is not None
            assert (payload.type, payload.data) == messages


def check_log(found: Logged, expected: Remembered) -> None:
    """Bound what a conversation takes by what was said."""
    assert expected.messages[-1] is not None
    said = len(expected.messages[-1][1])
    forms = [value for value in found.forms() if isinstance(value, Full | Extended)]
    assert [type(value) for value in forms[2:]] == [Extended] * (2 * TURNS - 2)
    new = sum(
        len(value.payload.data) if isinstance(value, Full) else len(value.head) + len(value.tail)
        for value in forms
    )
    assert new <= 1.05 * said
    # The rest is what every step says, of whatever length the conversation is.
    assert found.size <= 4 * said + 1_500 * len(found.saves)


async def test_forks_of_a_conversation_share_its_beginning(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Two processes go on from one state in the past in different ways, at the same ids' cost."""
    graph = chat(saver)
    for number in range(4):
        await say(graph, number, thread)
    start = await graph.aget_state(thread)
    async with another(saver) as other:
        tips: list[RunnableConfig] = []
        for number, each in ((50, graph), (60, chat(other)), (70, graph), (80, chat(other))):
            before = place(start) if len(tips) < 2 else tips[-2]
            await say(each, number, before)
            tips.append(place(await each.aget_state(thread)))
        for reader in (graph, chat(other)):
            for tip, numbers in ((tips[2], (50, 70)), (tips[3], (60, 80))):
                messages = (await reader.aget_state(tip)).values["messages"]
                assert messages[:8] == start.values["messages"]
                questions = [f"question {number}" for number in numbers]
                assert [message.id for message in messages[8::2]] == questions
    kinds = (await logged(saver, thread)).kinds()
    assert "Full" not in kinds[4:]


async def test_a_graph_and_its_subgraph_share_a_channels_name(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Both lists are called `messages`; each grows by its own, in a namespace of its own."""
    inner = noting(None, "inner")
    graphs = [noting(each, "outer", inner) for each in (saver, InMemorySaver())]
    for _ in range(5):
        for graph in graphs:
            await graph.ainvoke({"messages": ["x" * 600], "notes": []}, thread)
    found, expected = [await history(graph, thread) for graph in graphs]
    assert [shown_without_places(s) for s in found] == [shown_without_places(s) for s in expected]
    kinds = (await logged(saver, thread)).kinds()
    assert kinds.count("Full") == 1
    assert kinds.count("Extended") >= 10
    nested = (await logged(saver, thread)).kinds(namespace="inner")
    assert "Extended" in nested


def shown_without_places(state: StateSnapshot) -> Any:
    """Return what two runs have in common, without the ids in it."""
    return state.values, state.next, metadata(state).get("step"), metadata(state).get("source")


async def test_a_copied_state_has_the_values_of_what_it_copies(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """A copy stands beside what it copies, under the parent of that, and is gone on from."""
    graphs = [chat(each) for each in (saver, InMemorySaver())]
    for graph in graphs:
        for number in range(3):
            await say(graph, number, thread)
        copy = await graph.aupdate_state(thread, None, as_node="__copy__")
        copied = await graph.aget_state(copy)
        await say(graph, 3, place(copied))
        await say(graph, 4, thread)
    found, expected = [await history(graph, thread) for graph in graphs]
    assert [state.values for state in found] == [state.values for state in expected]
    assert (await logged(saver, thread)).kinds()[-6:].count("Full") <= 1


async def test_a_changed_state_extends_what_it_changes(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """A message put in the place of another one costs that message, wherever it stands last."""
    graph = chat(saver)
    for number in range(10):
        await say(graph, number, thread)
    last = (await graph.aget_state(thread)).values["messages"][-1]
    changed = last.model_copy(update={"content": "changed"})
    await graph.aupdate_state(thread, {"messages": [changed]})
    assert (await graph.aget_state(thread)).values["messages"][-1] == changed
    value = (await logged(saver, thread)).forms()[-1]
    assert isinstance(value, Extended)
    assert value.kept_items == 19
    assert len(value.head) + len(value.tail) <= 300
