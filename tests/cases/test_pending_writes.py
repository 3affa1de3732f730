"""Pending writes: their order, which of two wins, and that they are found whenever they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Interrupt, Send

from tests.wirings import Caller, Wiring

from .thread import Thread

pytestmark = pytest.mark.asyncio(loop_scope="session")


def named(writes: Sequence[tuple[str, str, Any]]) -> Sequence[tuple[str, Any]]:
    """Return (channel, value) of pending writes."""
    return [(channel, value) for _, channel, value in writes]


async def test_writes_come_back_in_the_order_of_task_paths(caller: Caller) -> None:
    """Parallel tasks' writes are ordered by path, not by task id, wherever they are read.

    B01, S08, S20.
    """
    thread = Thread(caller)
    config = await thread.put(1)
    await thread.write(config, [("a", 1)], "zzz", "~__pregel_pull, a")
    await thread.write(config, [("a", 2)], "aaa", "~__pregel_pull, b")
    await thread.put(2, {}, {"a": 1}, parent=1)
    (listed,) = await caller.list(thread.config(1))
    assert named(await thread.pending(1)) == [("a", 1), ("a", 2)]
    assert named(listed.pending_writes or []) == [("a", 1), ("a", 2)]
    assert (await thread.history(2, "a"))[0] == [1, 2]


async def test_writes_of_one_task_keep_their_order(caller: Caller) -> None:
    """More than ten writes of a task are ordered by number, not by its text. S01."""
    thread = Thread(caller)
    config = await thread.put(1)
    await thread.write(config, [("a", number) for number in range(12)])
    assert [value for _, value in named(await thread.pending(1))] == list(range(12))


async def test_a_special_write_replaces_no_other(caller: Caller) -> None:
    """An interrupt saved after ordinary writes stands beside them. B03."""
    thread = Thread(caller)
    config = await thread.put(1)
    await thread.write(config, [("a", 1), ("b", 2)], "k")
    await thread.write(config, [("__interrupt__", "q")], "k")
    assert named(await thread.pending(1)) == [("__interrupt__", "q"), ("a", 1), ("b", 2)]


async def test_no_writes_are_nothing(caller: Caller) -> None:
    """An empty batch is accepted and leaves nothing. B04."""
    thread = Thread(caller)
    config = await thread.put(1)
    await thread.write(config, [], "k")
    assert await thread.pending(1) == []


async def test_the_newest_resume_value_is_the_only_one(caller: Caller) -> None:
    """Of a task's special writes to one channel the last one is kept. B09."""
    thread = Thread(caller)
    config = await thread.put(1)
    await thread.write(config, [("__resume__", "r1")], "k")
    await thread.write(config, [("__resume__", "r2")], "k")
    assert named(await thread.pending(1)) == [("__resume__", "r2")]


async def test_a_longer_second_batch_adds_only_what_is_new(caller: Caller) -> None:
    """Of a task's ordinary writes at one index the first one is kept. S21."""
    thread = Thread(caller)
    config = await thread.put(1)
    await thread.write(config, [("a", 1)], "k")
    await thread.write(config, [("a", "other"), ("b", 2)], "k")
    assert named(await thread.pending(1)) == [("a", 1), ("b", 2)]


async def test_a_put_keeps_the_writes_that_came_before_it(caller: Caller) -> None:
    """Writes on a checkpoint that is put later show with it, in get and in list. B06."""
    thread = Thread(caller)
    await thread.write(5, [("__interrupt__", "q")], "k")
    await thread.put(5)
    (listed,) = await caller.list(thread.config())
    assert named(await thread.pending()) == [("__interrupt__", "q")]
    assert named(listed.pending_writes or []) == [("__interrupt__", "q")]


async def test_writes_alone_make_no_checkpoint(caller: Caller) -> None:
    """Until its checkpoint is put, a write shows nowhere. B07, S10."""
    thread = Thread(caller)
    await thread.write(5, [("a", 1)], "k")
    assert await thread.get() is None
    assert await thread.get(5) is None
    assert await thread.numbers() == []
    await thread.put(5)
    assert named(await thread.pending(5)) == [("a", 1)]


async def test_an_interrupt_outlives_the_next_checkpoint(caller: Caller) -> None:
    """A newer checkpoint takes nothing away from its parent. B10."""
    thread = Thread(caller)
    config = await thread.put(1)
    await thread.write(config, [("__interrupt__", "q")], "k")
    await thread.put(2, parent=1)
    assert named(await thread.pending(1)) == [("__interrupt__", "q")]


async def test_a_queued_send_comes_back_as_a_send(caller: Caller) -> None:
    """A task that was queued by Send can be resumed. B11."""
    thread = Thread(caller)
    config = await thread.put(1)
    send = Send("n", {"m": HumanMessage("hi", id="1")})
    await thread.write(config, [("__pregel_tasks", send)], "k")
    assert named(await thread.pending(1)) == [("__pregel_tasks", send)]


async def test_an_interrupt_comes_back_as_an_interrupt(caller: Caller) -> None:
    """Interrupts keep type, value and id; a user's mapping with the same keys stays one. B13."""
    thread = Thread(caller)
    config = await thread.put(1)
    interrupts = [Interrupt(value={"q": 1}, id="i")]
    lookalike = {"value": {"q": 1}, "id": "i"}
    await thread.write(config, [("__interrupt__", interrupts), ("a", lookalike)], "k")
    found = dict(named(await thread.pending(1)))
    assert found == {"__interrupt__": interrupts, "a": lookalike}
    assert isinstance(found["__interrupt__"][0], Interrupt)
    assert type(found["a"]) is dict


async def test_writes_are_idempotent_across_a_restart(wiring: Wiring) -> None:
    """A task's writes that are saved again by another process change nothing.

    Nor does rebuilding the view. B05.
    """
    async with wiring.open() as first:
        thread = Thread(Caller.awaited(first, wiring))
        config = await thread.put(1)
        await thread.write(config, [("a", 1), ("b", 2)], "k")
    async with wiring.open() as second:
        thread = Thread(Caller.awaited(second, wiring), thread.id)
        await thread.write(config, [("a", "x"), ("b", "y")], "k")
        assert named(await thread.pending(1)) == [("a", 1), ("b", 2)]
        await thread.caller.lose_view()
        assert named(await thread.pending(1)) == [("a", 1), ("b", 2)]
