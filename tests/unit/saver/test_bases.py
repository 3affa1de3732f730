"""What a saver extends: what it put or read itself, whatever became of that meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from eventstore.events import (
    CheckpointSaved,
    Extended,
    RecordedEvent,
    WritesSaved,
)
from langgraph.checkpoint.kafka import ThreadDeletedError, ValueCorruptedError
from projector.layout import BLOCKS, VALUES, value_field
from projector.values import tip_field
from saver.bases import Base, Bases
from saver.encoding import LARGE_BYTES, Encoder
from saver.increments import index_of
from tests.cases.thread import Thread
from tests.wirings import EVERY_STORE, Form, Savers

from .encoded import THREAD, Encoded
from .growing import (
    another,
    events_of,
    forms_of,
    items,
    kinds_of,
    reads,
    saves_of,
    spoil,
    through,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session", params=EVERY_STORE)
async def thread(request: pytest.FixtureRequest, savers: Savers) -> Thread:
    """A new thread of an awaited saver, on each wiring."""
    return Thread(await savers.shared(request.param, Form.AWAITED))


@pytest_asyncio.fixture(loop_scope="session", params=EVERY_STORE)
async def lone_thread(request: pytest.FixtureRequest, savers: Savers) -> AsyncIterator[Thread]:
    """A thread alone in its store, whose view can be lost."""
    async with AsyncExitStack() as stack:
        yield Thread(await savers.alone(request.param, Form.AWAITED, stack))


def base_of(offset: int | None, size: int = 4_000) -> Base:
    return Base(index_of("bytes", bytes(size)), 1, b"event", offset)


# The memory itself


async def test_bases_are_found_by_thread_channel_and_offset() -> None:
    """And a base whose event is not acknowledged is not there."""
    bases, base = Bases(), base_of(7)
    bases.add("t", "x", base)
    bases.add("t", "y", base_of(None))
    assert bases.get("t", "x", 7) is base
    for name in (("t", "y", 7), ("t", "x", 8), ("u", "x", 7)):
        assert bases.get(*name) is None


async def test_bases_least_recently_used_are_forgotten() -> None:
    """The limit is the memory that all take together; the last one stays, however large."""
    weight = base_of(1).index.weight
    bases = Bases(limit=3 * weight)
    for offset in (1, 2, 3, 2):
        bases.add("t", "x", base_of(offset))
    assert bases.get("t", "x", 1)
    bases.add("t", "x", base_of(4))
    assert [offset for offset in range(1, 5) if bases.get("t", "x", offset)] == [1, 2, 4]
    large = base_of(5, 400_000)
    assert large.index.weight > 3 * weight
    bases.add("t", "x", large)
    assert [offset for offset in range(1, 6) if bases.get("t", "x", offset)] == [5]


async def test_a_read_corrects_what_was_estimated() -> None:
    """The view knows of how many pieces a value is; another saver may have come in between."""
    there = Encoded()
    savers = [Bases(), Bases()]
    first = there.put(bases=savers[0], x=items(0, 10))
    tips = [first, there.put(first, bases=savers[1], x=items(0, 10))]
    for turn in range(11, 30):
        for number, bases in enumerate(savers):
            value = [*items(0, 10), number, *items(10, turn)]
            known = None if turn > 11 else there.warmed(tips[number], bases)
            tips[number] = there.put(tips[number], bases=bases, known=known, x=value)
    for tip, bases in zip(tips, savers, strict=True):
        places = there.warmed(tip, bases).values
        base = bases.get(THREAD, "x", places["x"])
        assert base is not None
        assert base.pieces == there.pieces(tip)
    there.check_all()


# A saver


async def test_a_saver_extends_what_it_has_put(thread: Thread) -> None:
    """Without asking the view, and what it stores is what is new."""
    values = [items(0, 20 + number) for number in range(5)]
    for number, value in enumerate(values):
        await thread.put(number, {"x": value}, parent=number - 1 if number else None)
    assert await kinds_of(thread) == ["Full", *["Extended"] * 4]
    assert all(len(v.tail) <= 104 for v in await forms_of(thread) if isinstance(v, Extended))
    assert [(await thread.values(number))["x"] for number in range(5)] == values


async def test_a_saver_that_begins_reads_the_parent_and_extends_it(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has to ask for the parent's life in any case: once, and then no more."""
    await thread.put(1, {"x": items(0, 20)})
    async with another(thread.caller) as caller:
        asked = reads(caller, monkeypatch)
        other = through(caller, thread)
        await other.put(2, {"x": items(0, 21)}, parent=1)
        await other.put(3, {"x": items(0, 22)}, parent=2)
        assert len(asked) == 1
    assert await kinds_of(thread) == ["Full", "Extended", "Extended"]
    assert await thread.values() == {"x": items(0, 22)}


async def test_a_value_that_did_not_change_for_a_while_is_extended(thread: Thread) -> None:
    """By the saver that put it, and by one that has read a checkpoint which inherits it."""
    values = {"x": items(0, 20), "y": 1}
    await thread.put(1, values)
    for number in (2, 3):
        values = {**values, "y": number}
        versions = {"x": 1, "y": number}
        await thread.put(number, values, versions, parent=number - 1, changed=["y"])
    async with another(thread.caller) as caller:
        for child, side in ((4, thread), (5, through(caller, thread))):
            await side.put(child, {"x": items(0, 21), "y": child}, parent=3)
            assert await side.values(child) == {"x": items(0, 21), "y": child}
    assert await kinds_of(thread) == ["Full", "Inherited", "Inherited", "Extended", "Extended"]


async def test_a_forgotten_base_costs_no_read(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value is stored whole, once."""
    async with another(thread.caller) as caller:
        caller.saver._engine.bases._limit = 1
        asked = reads(caller, monkeypatch)
        mine = through(caller, thread)
        await mine.put(1, {"x": items(0, 20), "y": items(0, 30)})
        asked.clear()
        await mine.put(2, {"x": items(0, 21), "y": items(0, 31)}, parent=1)
        third = {"x": items(0, 21), "y": items(0, 32)}
        await mine.put(3, third, {"x": 2, "y": 3}, parent=2, changed=["y"])
        assert not asked
        assert await mine.values() == third
    assert await kinds_of(thread) == ["Full", "Full", "Inherited"]
    assert await kinds_of(thread, "y") == ["Full", "Extended", "Extended"]


async def test_a_parent_that_nobody_put_is_no_base(thread: Thread) -> None:
    """All is stored whole."""
    await thread.put(1, {"x": items(0, 20)})
    await thread.put(3, {"x": items(0, 21)}, parent=2)
    assert await kinds_of(thread) == ["Full", "Full"]
    assert await thread.values() == {"x": items(0, 21)}


async def test_savers_extend_one_version_at_once(thread: Thread) -> None:
    """Two processes that go on from the same checkpoint do not mix each other's items up."""
    expected: dict[int, Any] = {1: items(0, 20)}
    await thread.put(1, {"x": items(0, 20)})
    async with another(thread.caller) as caller:
        sides = [thread, through(caller, thread)]
        for turn in range(1, 8):
            numbers = [10 * turn, 10 * turn + 1]
            for side, number in enumerate(numbers):
                parent = expected[1 if turn == 1 else number - 10]
                expected[number] = [*parent, f"side {side}", *items(number, number + 1)]
            await asyncio.gather(
                *(
                    put_child(side, number, expected[number], 1 if turn == 1 else number - 10)
                    for side, number in zip(sides, numbers, strict=True)
                )
            )
        for reader in sides:
            for number, value in expected.items():
                assert await reader.values(number) == {"x": value}
    assert await kinds_of(thread) == ["Full", *["Extended"] * 14]


async def put_child(thread: Thread, number: int, value: Any, parent: int) -> None:
    await thread.put(number, {"x": value}, parent=parent)


async def test_savers_in_turns_extend_each_other(thread: Thread) -> None:
    """As when each step of a conversation is another process's: every one reads, then puts."""
    await thread.put(1, {"x": items(0, 20)})
    async with another(thread.caller) as caller:
        for number in range(2, 12):
            side = through(caller, thread) if number % 2 else thread
            assert await side.values() == {"x": items(0, 18 + number)}
            await side.put(number, {"x": items(0, 19 + number)}, parent=number - 1)
    assert await kinds_of(thread) == ["Full", *["Extended"] * 10]


async def test_a_base_that_was_pruned_is_there_for_those_who_know_it(thread: Thread) -> None:
    """A run that was under way while another process pruned goes on, and comes back rebuilt."""
    for number in (1, 2, 3):
        await thread.put(number, {"x": items(0, 20 + number)}, parent=number - 1 or None)
    async with another(thread.caller) as caller:
        await caller.prune([thread.id])
    await thread.put(4, {"x": [*items(0, 22), "fork"]}, parent=2)
    await thread.put(5, {"x": items(0, 25)}, parent=3)
    assert await kinds_of(thread) == ["Full", *["Extended"] * 4]
    assert await thread.numbers() == [5, 4, 3]
    assert await thread.values(4) == {"x": [*items(0, 22), "fork"]}
    assert await thread.values(5) == {"x": items(0, 25)}


async def test_a_base_of_a_deleted_run_is_there_for_its_children(thread: Thread) -> None:
    """Both for those put before the run was deleted and for those put after it."""
    run = f"run of {thread.id}"
    await thread.put(1, {"x": items(0, 20)}, metadata={"run_id": run})
    await thread.put(2, {"x": items(0, 21)}, parent=1)
    await thread.caller.delete_for_runs([run])
    await thread.put(3, {"x": [*items(0, 20), "fork"]}, parent=1)
    assert await kinds_of(thread) == ["Full", "Extended", "Extended"]
    assert await thread.numbers() == [3, 2]
    assert await thread.values(2) == {"x": items(0, 21)}
    assert await thread.values(3) == {"x": [*items(0, 20), "fork"]}


async def test_a_new_life_extends_nothing_of_the_one_before(thread: Thread) -> None:
    """A deleted thread's values are gone, also for a saver that has not heard of the deletion."""
    await thread.put(1, {"x": items(0, 20)})
    async with another(thread.caller) as caller:
        await through(caller, thread).caller.delete_thread(thread.id)
        # Void: it continues what is deleted.
        await thread.put(2, {"x": items(0, 21)}, parent=1)
        assert await thread.get() is None
        with pytest.raises(ThreadDeletedError):
            await thread.put(3, {"x": items(0, 22)}, parent=2)
        await thread.put(4, {"x": items(0, 22)})
        await thread.put(5, {"x": items(0, 23)}, parent=4)
        assert await through(caller, thread).values() == {"x": items(0, 23)}
    assert await kinds_of(thread) == ["Full", "Extended", "Full", "Extended"]
    assert await thread.numbers() == [5, 4]


async def test_an_id_that_is_put_again_shows_its_last_value(thread: Thread) -> None:
    """Longer, shorter, and as at first: its children keep what they were put with."""
    await thread.put(0, {"x": items(0, 20)})
    for count in (21, 23, 21):
        await thread.put(1, {"x": items(0, count)}, parent=0)
        assert await thread.values(1) == {"x": items(0, count)}
        await thread.put(count, {"x": [*items(0, count), "child"]}, parent=1)
    assert set((await kinds_of(thread))[1:]) == {"Extended"}
    assert await thread.values(1) == {"x": items(0, 21)}
    assert await thread.values(21) == {"x": [*items(0, 21), "child"]}
    assert await thread.values(23) == {"x": [*items(0, 23), "child"]}


async def test_a_child_of_a_replaced_parent_extends_the_one_it_knew(thread: Thread) -> None:
    """Another process put the parent's id again in between, with another value."""
    await thread.put(1, {"x": items(0, 20), "y": items(0, 9)})
    async with another(thread.caller) as caller:
        await through(caller, thread).put(1, {"x": items(50, 80), "y": items(60, 70)})
    values = {"x": items(0, 21), "y": items(0, 9)}
    await thread.put(2, values, {"x": 2, "y": 1}, parent=1, changed=["x"])
    assert await kinds_of(thread) == ["Full", "Full", "Extended"]
    assert await thread.values(2) == values
    assert await thread.values(1) == {"x": items(50, 80), "y": items(60, 70)}


async def test_namespaces_share_names_and_nothing_else(thread: Thread) -> None:
    """A graph and its subgraph both with a channel x, which grow in turns."""
    for number in range(1, 8):
        for ns in ("", "sub:1"):
            value = [ns, *items(0, 20 + number)]
            await thread.put(number, {"x": value}, parent=number - 1 or None, ns=ns)
    assert await kinds_of(thread) == ["Full", "Full", *["Extended"] * 12]
    for number in range(1, 8):
        for ns in ("", "sub:1"):
            assert await thread.values(number, ns) == {"x": [ns, *items(0, 20 + number)]}


async def test_values_come_back_from_a_view_that_is_built_again(lone_thread: Thread) -> None:
    """Extended, shortened, forked and referenced ones: the log alone has all of it."""
    thread = lone_thread
    values = [items(0, 20), items(0, 22), items(3, 22), items(3, 22), items(3, 20), ["x"] * 900]
    for number, value in enumerate(values):
        await thread.put(number, {"x": value}, parent=number - 1 if number else None)
    await thread.put(9, {"x": items(0, 25)}, parent=1)
    await thread.caller.lose_view()
    assert [(await thread.values(number))["x"] for number in range(6)] == values
    assert await thread.values(9) == {"x": items(0, 25)}
    assert await kinds_of(thread) == [
        *("Full", "Extended", "Extended", "Referenced", "Extended", "Full", "Extended"),
    ]


# Corruption


async def test_a_base_that_is_corrupted_is_named(thread: Thread) -> None:
    """Reading what extends it raises with its own place, and nothing is built on either."""
    await thread.put(1, {"x": items(0, 20), "y": 1})
    await thread.put(2, {"x": items(0, 21), "y": 2}, parent=1)
    first, second = await saves_of(thread)
    await spoil(thread, VALUES, value_field(first.offset, "x"))
    for number, found in ((1, first), (2, second)):
        with pytest.raises(ValueCorruptedError) as raised:
            await thread.get(number)
        check_error(raised.value, thread, number, found)
    await check_nothing_is_built_on(thread, 2)


async def test_a_buffer_that_is_corrupted_is_named(thread: Thread) -> None:
    """What was stored before it is read on."""
    await thread.put(1, {"x": items(0, 20), "y": 1})
    await thread.put(2, {"x": items(0, 21), "y": 2}, parent=1)
    await spoil(thread, BLOCKS, tip_field("", "x"))
    assert await thread.values(1) == {"x": items(0, 20), "y": 1}
    with pytest.raises(ValueCorruptedError) as raised:
        await thread.get(2)
    check_error(raised.value, thread, 2, (await saves_of(thread))[1])
    await check_nothing_is_built_on(thread, 2)


def check_error(
    error: ValueCorruptedError, thread: Thread, version: int, found: RecordedEvent
) -> None:
    assert error.thread_id == thread.id
    assert error.channel == "x"
    assert error.version == version
    assert (error.partition, error.offset) == (found.partition, found.offset)


async def check_nothing_is_built_on(thread: Thread, number: int) -> None:
    """Put children of a checkpoint that was read, and that holds a corrupted value."""
    async with another(thread.caller) as caller:
        for child, side in ((7, thread), (8, through(caller, thread))):
            await side.put(child, {"x": items(0, 22), "y": 3}, parent=number)
            assert await side.values(child) == {"x": items(0, 22), "y": 3}
    assert (await kinds_of(thread))[2:] == ["Full", "Full"]


# Large states


async def test_a_large_state_keeps_its_place(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is encoded on another OS thread, and what was called behind it comes behind it."""
    threads: list[bool] = []
    encode = Encoder.event

    def noting(encoder: Encoder, incarnation: int) -> CheckpointSaved:
        threads.append(threading.current_thread() is threading.main_thread())
        return encode(encoder, incarnation)

    monkeypatch.setattr(Encoder, "event", noting)
    await thread.put(1, {"x": 1})
    large = ["x" * LARGE_BYTES, *items(0, 20)]
    await asyncio.gather(
        thread.put(2, {"x": large}, parent=1),
        thread.write(2, [("x", 1)], "task 1"),
        thread.put(3, {"x": 3}, parent=1),
        thread.write(3, [("x", 1)], "task 2"),
        thread.write(2, [("x", 1)], "task 3"),
    )
    await thread.put(4, {"x": [*large, "more"]}, parent=2)
    assert threads == [True, False, True, False]
    assert await called(thread) == ["1", "2", "task 1", "3", "task 2", "task 3", "4"]
    assert isinstance((await forms_of(thread))[-1], Extended)
    assert await thread.values(2) == {"x": large}
    assert await thread.values(4) == {"x": [*large, "more"]}


async def called(thread: Thread) -> list[str]:
    """Return what a thread's events are, in the order of the log."""
    saver: Any = thread.caller.saver
    names: list[str] = []
    for found in await events_of(saver, thread.id):
        if isinstance(found.event, CheckpointSaved):
            names.append(found.event.checkpoint_id.rpartition("-")[2].lstrip("0"))
        elif isinstance(found.event, WritesSaved):
            names.append(found.event.task_id)
    return names
