"""Ids of any characters name exactly one thing."""

from __future__ import annotations

import uuid

import pytest
from langchain_core.runnables import RunnableConfig

from langgraph.checkpoint.kafka import InvalidConfigError
from tests.wirings import Caller

from .thread import Thread, checkpoint_of, id_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ODD = [
    *("a:b", "a*b", "a{b}", "a|b", "a/b", "a b", "a$b", "a#b", 'a"b', "a\\b", "a\nb", "a%b"),
    *("ü🦜", "[a-z]?", "x" * 400, "\0", "\1", " ", "é", "e\u0301"),
]


async def test_threads_with_odd_ids_are_apart(lone_caller: Caller) -> None:
    """Whatever characters a thread id has, it names one thread, the empty one too. B51, S02."""
    threads = [Thread(lone_caller, name) for name in ["", *ODD]]
    for number, thread in enumerate(threads):
        await thread.put(1, {"x": number})
        await thread.put(2, {"x": -number}, ns="child:$1|a")
        await thread.write(1, [("a", number)])
    await lone_caller.delete_thread("a*b")
    await lone_caller.delete_thread("[a-z]?")
    for number, thread in enumerate(threads):
        if thread.id in ("a*b", "[a-z]?"):
            assert await thread.get() is None
            assert await thread.numbers() == []
            continue
        assert await thread.values() == {"x": number}
        assert await thread.values(ns="child:$1|a") == {"x": -number}
        assert await thread.pending() == [("task", "a", number)]
        assert await thread.numbers() == [2, 1]
    assert {info.thread_id for info in (await lone_caller.threads()).threads} == {
        thread.id for thread in threads if thread.id not in ("a*b", "[a-z]?")
    }


async def test_namespaces_tasks_and_channels_may_be_odd(caller: Caller) -> None:
    """The same holds for namespaces, task ids, task paths and channels. B51."""
    thread = Thread(caller)
    for number, name in enumerate(["", *ODD]):
        await thread.put(1, {name: number, "x": number}, ns=name)
        await thread.write(thread.config(1, name), [(name, number)], name, name)
    for number, name in enumerate(["", *ODD]):
        found = await thread.found(ns=name)
        assert found.checkpoint["channel_values"] == {name: number, "x": number}
        assert found.pending_writes == [(name, name, number)]


async def test_a_thread_id_may_be_a_number_or_a_uuid(caller: Caller) -> None:
    """Ids that people hand over as they have them mean their text."""
    name = uuid.uuid4()
    config: RunnableConfig = {"configurable": {"thread_id": name}}
    await caller.put(config, checkpoint_of(1, {}, {}), {}, {})
    assert await Thread(caller, str(name)).numbers() == [1]
    number = name.int % 10**12
    config = {"configurable": {"thread_id": number}}
    await caller.put(config, checkpoint_of(1, {}, {}), {}, {})
    assert await Thread(caller, str(number)).numbers() == [1]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("thread_id", None),
        ("thread_id", "x" * 2_000),
        ("thread_id", "\ud800"),
        ("thread_id", b"bytes"),
        ("checkpoint_ns", "x" * 20_000),
        ("checkpoint_ns", 1),
        ("checkpoint_id", 1),
        ("checkpoint_id", "x" * 2_000),
        ("checkpoint_id", "\0"),
        ("__read_level", "sometimes"),
    ],
)
async def test_what_cannot_be_an_id_is_refused(caller: Caller, key: str, value: object) -> None:
    """An id that cannot be stored is refused with its key's name; nothing is read or appended."""
    thread = Thread(caller)
    config = thread.config(None, "", **{key: value})
    with pytest.raises(InvalidConfigError, match=key):
        await caller.get_tuple(config)
    if key != "__read_level":
        with pytest.raises(InvalidConfigError, match=key):
            await caller.put(config, checkpoint_of(1, {}, {}), {}, {})
    assert await thread.numbers() == []


async def test_a_config_needs_a_thread_and_writes_a_checkpoint(caller: Caller) -> None:
    """Without a thread id nothing can be read, without a checkpoint id nothing written on it."""
    with pytest.raises(InvalidConfigError, match="thread_id"):
        await caller.get_tuple({"configurable": {}})
    with pytest.raises(InvalidConfigError, match="configurable"):
        await caller.get_tuple({})
    with pytest.raises(InvalidConfigError, match="checkpoint_id"):
        await caller.put_writes(Thread(caller).config(), [("a", 1)], "k")


async def test_an_empty_checkpoint_id_means_the_newest(caller: Caller) -> None:
    """As in LangGraph's own savers."""
    thread = Thread(caller)
    await thread.put(1)
    found = await caller.get_tuple(thread.config(checkpoint_id=""))
    assert found is not None
    assert found.checkpoint["id"] == id_of(1)
