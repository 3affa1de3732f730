"""Real graphs give what they give on InMemorySaver."""

from __future__ import annotations

import asyncio
import operator
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from tests.wirings import Caller, Form

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    # DeltaChannel is in beta, and says so.
    pytest.mark.filterwarnings("ignore:.*[Bb]eta"),
]


def joined(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """Reducer of a delta channel of lists."""
    return [*state, *(item for write in writes for item in write)]


def with_ids(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """Reducer of a delta channel of messages."""
    messages: Any = state
    for write in writes:
        messages = add_messages(messages, write)
    return [*messages]


class Log(TypedDict):
    log: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=3)]


class Messages(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(with_ids)]


class Items(TypedDict):
    items: Annotated[list[str], operator.add]


def giving(**update: Any) -> Callable[[Any], Any]:
    """Return a node that gives this update."""
    return lambda _: update


def asking(channel: str) -> Callable[[Any], Any]:
    """Return a node that asks, and gives the answer."""
    return lambda _: {channel: [interrupt("?")]}


class Runner:
    """A compiled graph, called in the form of its saver."""

    def __init__(self, graph: Any, form: Form) -> None:
        self.graph = graph
        self.form = form
        self.thread_id = f"graph-{uuid.uuid4()}"
        self.config: RunnableConfig = {"configurable": {"thread_id": self.thread_id}}

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.form is Form.AWAITED:
            return await getattr(self.graph, f"a{name}")(*args, **kwargs)
        return await asyncio.to_thread(getattr(self.graph, name), *args, **kwargs)

    async def run(self, given: Any, config: RunnableConfig | None = None, **how: Any) -> Any:
        return await self.call("invoke", given, config or self.config, **how)

    async def state(self, config: RunnableConfig | None = None, **how: Any) -> Any:
        return await self.call("get_state", config or self.config, **how)

    async def update(self, values: Any, config: RunnableConfig | None = None, **how: Any) -> Any:
        return await self.call("update_state", config or self.config, values, **how)

    async def history(self, **chosen: Any) -> Sequence[Any]:
        if self.form is Form.AWAITED:
            return [item async for item in self.graph.aget_state_history(self.config, **chosen)]
        return await asyncio.to_thread(
            lambda: list(self.graph.get_state_history(self.config, **chosen))
        )


def runners(caller: Caller, builder: Any) -> tuple[Runner, Runner]:
    """Return the graph on our saver and on InMemorySaver."""
    ours = Runner(builder.compile(checkpointer=caller.saver), caller.form)
    return ours, Runner(builder.compile(checkpointer=InMemorySaver()), caller.form)


def line(state: type[Any], *nodes: tuple[str, Callable[..., Any]]) -> Any:
    """Return a graph of nodes one behind the other."""
    builder: Any = StateGraph(state)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder


def seen(snapshot: Any) -> Mapping[str, Any]:
    """Return what two runs of one graph have in common."""
    return {
        "values": snapshot.values,
        "next": snapshot.next,
        "metadata": {
            k: v for k, v in snapshot.metadata.items() if k in ("source", "step", "user_id")
        },
        "tasks": [(task.name, task.error, len(task.interrupts)) for task in snapshot.tasks],
        "has_parent": snapshot.parent_config is not None,
    }


async def test_parallel_appends_keep_their_order(caller: Caller) -> None:
    """Twelve parallel nodes append to one delta channel as the run itself had it. B01."""
    builder: Any = StateGraph(Log)
    for number in range(12):
        builder.add_node(f"n{number}", giving(log=[number]))
        builder.add_edge(START, f"n{number}")
    ours, theirs = runners(caller, builder)
    result = await ours.run({"log": []})
    assert (await ours.state()).values == result
    assert result == await theirs.run({"log": []})


async def test_a_finished_sibling_does_not_run_again(caller: Caller) -> None:
    """Of two parallel nodes, only the one that was interrupted runs at the resume. B15."""
    runs = {"a": 0, "q": 0}

    def a(_: Any) -> Any:
        runs["a"] += 1
        return {"items": ["a"]}

    def q(_: Any) -> Any:
        runs["q"] += 1
        return {"items": [interrupt("?")]}

    inner: Any = StateGraph(Items)
    for name, node in (("a", a), ("q", q)):
        inner.add_node(name, node)
        inner.add_edge(START, name)
    ours, _ = runners(caller, line(Items, ("child", inner.compile())))
    await ours.run({"items": []})
    result = await ours.run(Command(resume="yes"))
    assert runs == {"a": 1, "q": 2}
    assert result == {"items": ["a", "yes"]}


async def test_a_nodes_error_is_the_callers(caller: Caller) -> None:
    """The error comes out as it was raised, is kept as a write, and the thread goes on. B37."""
    failing = [True]

    def node(_: Any) -> Any:
        if failing[0]:
            raise RuntimeError("boom")
        return {"items": ["done"]}

    ours, _ = runners(caller, line(Items, ("node", node)))
    with pytest.raises(RuntimeError, match="boom"):
        await ours.run({"items": ["in"]})
    found = await caller.get_tuple(ours.config)
    assert found is not None
    assert [channel for _, channel, _ in found.pending_writes or []] == ["__error__"]
    failing[0] = False
    assert await ours.run(None) == {"items": ["in", "done"]}


async def test_a_filtered_history_is_as_from_memory(caller: Caller) -> None:
    """Checkpoints made by update_state have the metadata that LangGraph gives them. B52."""
    counts: list[int] = []
    for runner in runners(caller, line(Items, ("a", giving(items=["a"])))):
        config: RunnableConfig = {"configurable": {"thread_id": runner.thread_id, "user_id": "x"}}
        await runner.run({"items": []}, config)
        await runner.update({"items": ["u"]})
        counts.append(len(await runner.history(filter={"user_id": "x"})))
    assert counts[0] == counts[1]


async def test_a_deleted_thread_can_be_run_again(caller: Caller) -> None:
    """After its deletion a thread begins anew, also with a Command as its first input. B71."""
    ours, theirs = runners(caller, line(Items, ("a", giving(items=["a"]))))
    inputs: list[Any] = [{"items": ["in"]}, Command(update={"items": ["up"]})]
    for first in inputs:
        await ours.run({"items": ["old"]})
        await caller.delete_thread(ours.thread_id)
        theirs.graph.checkpointer.delete_thread(theirs.thread_id)
        assert await ours.run(first) == await theirs.run(first)
        assert [*map(seen, await ours.history())] == [*map(seen, await theirs.history())]


async def test_a_fork_leaks_into_nothing(caller: Caller) -> None:
    """A run from an older checkpoint has that one's items and its own; the other stays. B87."""
    for runner in runners(caller, line(Log, ("a", giving(log=["a"])))):
        await runner.run({"log": ["in1"]})
        first = await runner.state()
        await runner.run({"log": ["in2"]})
        second = await runner.state()
        result = await runner.run({"log": ["fork"]}, first.config)
        assert result == {"log": ["in1", "a", "fork", "a"]}
        assert (await runner.state(second.config)).values == {"log": ["in1", "a", "in2", "a"]}
        assert (await runner.state()).values == result


async def test_a_subgraph_finds_the_saver_of_its_parent(caller: Caller) -> None:
    """A delta channel in a subgraph is complete, and an update through it keeps it. B88."""
    answers: list[Any] = []
    inner = line(Log, ("first", giving(log=["first"])), ("ask", asking("log")))
    for runner in runners(caller, line(Log, ("child", inner.compile()))):
        await runner.run({"log": ["in"]})
        state = await runner.state(subgraphs=True)
        child = state.tasks[0].state
        await runner.update({"log": ["update"]}, child.config)
        again = await runner.state(subgraphs=True)
        answers.append(
            (child.values, again.tasks[0].state.values, await runner.run(Command(resume=1)))
        )
    assert answers[0] == answers[1]
    assert answers[0][0] == {"log": ["in", "first"]}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_every_durability_ends_alike(caller: Caller, durability: str) -> None:
    """A delta channel that was interrupted and resumed has one value in all durabilities. B90."""
    builder = line(
        Log,
        ("a", giving(log=["a"])),
        ("ask", asking("log")),
        ("b", giving(log=["b"])),
    )
    snapshots: list[Any] = []
    for runner in runners(caller, builder):
        await runner.run({"log": ["in"]}, durability=durability)
        paused = await runner.state()
        result = await runner.run(Command(resume="yes"), durability=durability)
        await runner.run({"log": ["more"]}, durability=durability)
        snapshots.append([seen(paused), result, seen(await runner.state())])
        snapshots[-1].append([*map(seen, await runner.history())])
    assert snapshots[0] == snapshots[1]
    assert snapshots[0][1] == {"log": ["in", "a", "yes", "b"]}


async def test_the_first_update_of_a_thread_is_kept(caller: Caller) -> None:
    """update_state on a fresh thread is not lost. B91."""
    ours, _ = runners(caller, line(Log, ("a", giving(log=["a"]))))
    await ours.update({"log": ["x"]})
    assert (await ours.state()).values == {"log": ["x"]}


async def test_a_message_gets_its_id_once(caller: Caller) -> None:
    """A message without id has the same one at every read. B93."""
    ours, _ = runners(
        caller, line(Messages, ("a", giving(messages=[HumanMessage("from the node")])))
    )
    await ours.run({"messages": [HumanMessage("in")]})
    first, second = await ours.state(), await ours.state()
    ids = [message.id for message in first.values["messages"]]
    assert len(ids) == 2
    assert all(ids)
    assert ids == [message.id for message in second.values["messages"]]


async def test_a_copied_checkpoint_keeps_its_values(caller: Caller) -> None:
    """`update_state(as_node="__copy__")` puts under the grandparent and loses nothing."""
    answers: list[Any] = []
    builder = line(Items, ("a", giving(items=["a"])), ("b", giving(items=["b"])))
    for runner in runners(caller, builder):
        await runner.run({"items": ["in"]})
        middle = next(item for item in await runner.history() if item.next == ("b",))
        await runner.update(None, middle.config, as_node="__copy__")
        copied = await runner.state()
        answers.append((seen(copied), await runner.run(None), [*map(seen, await runner.history())]))
    assert answers[0] == answers[1]
