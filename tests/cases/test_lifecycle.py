"""Event loops, opening and closing, and what a saver shares with its clones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from langgraph.checkpoint.kafka import AsyncKafkaSaver, KafkaSaver, SaverClosedError
from projector.sqlite import SqliteView
from tests.wirings import Caller, Form, Savers, Store, Wiring

from .thread import Thread, checkpoint_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

SYNC_CALLS: dict[str, Callable[[Any, Thread], Any]] = {
    "get_tuple": lambda saver, thread: saver.get_tuple(thread.config()),
    "list": lambda saver, thread: saver.list(thread.config()),
    "put": lambda saver, thread: saver.put(thread.config(), checkpoint_of(1, {}, {}), {}, {}),
    "put_writes": lambda saver, thread: saver.put_writes(thread.config(1), [("a", 1)], "k"),
    "no writes": lambda saver, thread: saver.put_writes(thread.config(1), [], "k"),
    "delete_thread": lambda saver, thread: saver.delete_thread(thread.id),
    "delete_for_runs": lambda saver, thread: saver.delete_for_runs(["r"]),
    "copy_thread": lambda saver, thread: saver.copy_thread(thread.id, "other"),
    "prune": lambda saver, thread: saver.prune([thread.id]),
    "history": lambda saver, thread: saver.get_delta_channel_history(
        config=thread.config(), channels=["x"]
    ),
    "threads": lambda saver, thread: saver.threads(),
    "count_threads": lambda saver, thread: saver.count_threads(),
    "lag": lambda saver, thread: saver.lag(),
}
every_sync_call = pytest.mark.parametrize("name", SYNC_CALLS)


@every_sync_call
@pytest.mark.timeout(5)
async def test_a_sync_call_on_the_savers_loop_raises(savers: Savers, name: str) -> None:
    """Where it would wait for ever, a sync method raises at once and does nothing. B94."""
    caller = await savers.shared(Store.SQLITE_MEMORY, Form.AWAITED)
    thread = Thread(caller)
    with pytest.raises(asyncio.InvalidStateError, match="event loop"):
        SYNC_CALLS[name](caller.saver, thread)
    assert await thread.get() is None


@every_sync_call
async def test_a_sync_call_before_there_is_a_loop_raises(name: str) -> None:
    """A saver may be built without a loop; a sync call has to wait for its set-up. B95."""
    database = SqliteDatabase(":memory:")
    saver = AsyncKafkaSaver(SqliteEventLog(database), SqliteView(database))
    thread = Thread(Caller(saver, Wiring(Store.SQLITE_MEMORY, ""), Form.AWAITED), "t")
    with pytest.raises(RuntimeError, match="setup"):
        await asyncio.to_thread(SYNC_CALLS[name], saver, thread)


async def test_a_saver_can_be_built_outside_of_its_loop() -> None:
    """It belongs to the loop that sets it up, by `async with` or at its first call. B95."""
    database = SqliteDatabase(":memory:")
    log, view = SqliteEventLog(database), SqliteView(database)
    saver = AsyncKafkaSaver(log, view)

    async def use() -> None:
        async with database:
            async with saver as entered:
                assert entered is saver
                await saver.setup()
                await saver.aput(
                    {"configurable": {"thread_id": "t"}}, checkpoint_of(1, {}, {}), {}, {}
                )
            # What was handed in is still open.
            assert (await log.end_position([0])).next_offset(0) > 1

    await asyncio.to_thread(lambda: asyncio.run(use()))


async def test_a_saver_closes_only_what_it_opened(new_wiring: Wiring) -> None:
    """A handed-in log and view serve another saver after the first one was closed. B97."""
    async with SqliteDatabase(":memory:") as database:
        log, view = SqliteEventLog(database), SqliteView(database)
        async with AsyncKafkaSaver(log, view) as first:
            thread = Thread(Caller.awaited(first, new_wiring))
            await thread.put(1, {"x": 1})
        await first.aclose()
        async with AsyncKafkaSaver(log, view) as second:
            again = Thread(Caller.awaited(second, new_wiring), thread.id)
            assert await again.values() == {"x": 1}
        with pytest.raises(SaverClosedError):
            await thread.get()


async def test_a_closed_saver_says_so(new_wiring: Wiring) -> None:
    """Every form of a saver that was closed raises `SaverClosedError`."""
    async with new_wiring.open() as saver:
        thread = Thread(Caller.awaited(saver, new_wiring))
        await thread.put(1)
    with pytest.raises(SaverClosedError):
        await saver.aput(thread.config(), checkpoint_of(2, {}, {}), {}, {})
    with pytest.raises(SaverClosedError):
        await asyncio.to_thread(saver.get_tuple, thread.config())


async def test_a_closed_twin_says_so(new_wiring: Wiring) -> None:
    """The same for `KafkaSaver`."""

    def use() -> None:
        with new_wiring.open_twin() as saver:
            saver.put({"configurable": {"thread_id": "t"}}, checkpoint_of(1, {}, {}), {}, {})
        with pytest.raises(SaverClosedError):
            saver.get_tuple({"configurable": {"thread_id": "t"}})
        saver.close()

    await asyncio.to_thread(use)


async def test_what_is_acknowledged_is_there_after_reopening(new_reopenable: Wiring) -> None:
    """A saver opened on the same store has everything, by either class."""
    async with new_reopenable.open() as first:
        thread = Thread(Caller.awaited(first, new_reopenable))
        await thread.put(1, {"x": [1]})
        await thread.write(1, [("a", 1)])
    async with new_reopenable.open() as second:
        again = Thread(Caller.awaited(second, new_reopenable), thread.id)
        assert await again.values() == {"x": [1]}
        await again.put(2, {"x": [1, 2]}, parent=1)

    def read() -> Any:
        with new_reopenable.open_twin() as third:
            return [found.checkpoint["channel_values"] for found in third.list(thread.config())]

    assert await asyncio.to_thread(read) == [{"x": [1, 2]}, {"x": [1]}]


async def test_a_lost_view_is_built_again_under_reads(caller: Caller) -> None:
    """Whoever reads next gets the same answers as before the view was lost."""
    thread = Thread(caller)
    await thread.put(1, {"x": 1})
    await thread.write(1, [("a", 1)])
    await thread.put(2, {"x": 1}, {"x": 1}, parent=1, changed=[])
    before = await caller.list(thread.config())
    await caller.lose_view()
    assert await caller.list(thread.config()) == before
    assert await thread.values() == {"x": 1}


@pytest.mark.parametrize("saver", [AsyncKafkaSaver, KafkaSaver])
async def test_no_method_exists_only_to_raise(saver: type) -> None:
    """Every method of the interface has a form of ours that does something. B99."""
    interface = {
        name
        for name, value in vars(BaseCheckpointSaver).items()
        if callable(value) and not name.startswith("_")
    }
    inherited = {
        name for name in interface if getattr(saver, name) is getattr(BaseCheckpointSaver, name)
    }
    # These two call `get_tuple`; the third clones the saver.
    assert inherited <= {"get", "aget", "with_allowlist"}


async def test_inherited_gets_work(caller: Caller) -> None:
    """`get` and `aget`, which are LangGraph's own, find a checkpoint through ours."""
    thread = Thread(caller)
    await thread.put(1, {"x": 1})
    found = await caller.call("get", thread.config())
    assert found["channel_values"] == {"x": 1}


@dataclass
class Allowed:
    """A user's type that LangGraph's serializer gives back only when it is on the list."""

    x: int


async def test_a_clone_reads_by_its_own_serializer_at_once(caller: Caller) -> None:
    """`with_allowlist` clones share everything but the serializer. S17."""
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    plain = copy(caller.saver)
    plain.serde = strict
    thread = Thread(Caller(plain, caller.wiring, caller.form))
    await thread.put(1, {"x": Allowed(1)})
    assert await thread.values() != {"x": Allowed(1)}
    clone: Any = plain.with_allowlist([(Allowed.__module__, Allowed.__name__)])
    assert type(clone) is type(caller.saver)
    cloned = Thread(Caller(clone, caller.wiring, caller.form), thread.id)
    assert await cloned.values() == {"x": Allowed(1)}
    await cloned.put(2, {"x": Allowed(2)}, parent=1)
    assert await cloned.values() == {"x": Allowed(2)}
    assert await thread.numbers() == [2, 1]


@pytest.mark.parametrize("level", ["linearizable", "session", "eventual"])
async def test_every_read_level_sees_what_this_saver_was_told(caller: Caller, level: str) -> None:
    """At `linearizable` and `session` a saver reads its own puts; `eventual` asks for nothing."""
    thread = Thread(caller)
    await thread.put(1, {"x": 1})
    config = thread.config(None, "", __read_level=level)
    found = await caller.get_tuple(config)
    if level != "eventual":
        assert found is not None
        assert found.config == thread.config(1)
    assert len(await caller.list(config)) <= 1
