"""Deleting threads and runs, pruning, copying: what goes is gone, what stays has all it needs."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langgraph.checkpoint.kafka import CopyRefusedError, InvalidConfigError, ThreadDeletedError
from tests.waiting import wait_until
from tests.wirings import EVERY_STORE, Caller, Form, Savers, Store, Wiring

from .thread import ABSENT, Thread

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def delta_thread(thread: Thread, runs: dict[int, str] | None = None) -> None:
    """Put ten checkpoints: a snapshot of channel `log` at the first, a write on each but the last.

    `runs` names the run of each checkpoint.
    """
    for number in range(1, 11):
        values = {"log": _DeltaSnapshot(["seed"])} if number == 1 else {}
        metadata = {} if runs is None else {"run_id": runs[number]}
        await thread.put(
            number,
            values,
            {"log": number},
            parent=number - 1 if number > 1 else None,
            metadata=metadata,
        )
        if number < 10:
            await thread.write(number, [("log", number)])


DELTA_HISTORY = ([*range(1, 10)], _DeltaSnapshot(["seed"]))


async def test_a_late_writer_revives_nothing(caller: Caller) -> None:
    """What continues a deleted thread is refused or void, and a fresh run starts again. B71."""
    thread = Thread(caller)
    config = await thread.put(1, {"x": 1})
    await caller.delete_thread(thread.id)
    await thread.write(config, [("a", 1)])
    with pytest.raises(ThreadDeletedError, match=thread.id):
        await thread.put(2, {"x": 2}, parent=1)
    assert await thread.get() is None
    assert await thread.get(1) is None
    assert await thread.numbers() == []
    await thread.put(3, {"x": 3})
    await thread.put(4, {"x": 4}, parent=3)
    assert await thread.numbers() == [4, 3]


async def test_a_late_writer_elsewhere_revives_nothing(wiring: Wiring) -> None:
    """The same for a writer that knows the thread from before and not of its deletion. B71."""
    async with wiring.open() as first, wiring.open() as second:
        late = Thread(Caller.awaited(first, wiring))
        config = await late.put(1, {"x": 1})
        deleter = Thread(Caller.awaited(second, wiring), late.id)
        await deleter.caller.delete_thread(late.id)
        await late.write(config, [("a", 1)])
        await late.put(2, {"x": 2}, parent=1)
        for thread in (late, deleter):
            assert await thread.get() is None
            assert await thread.numbers() == []
        await deleter.put(3, {"x": 3})
        assert await late.numbers() == [3]


@pytest.mark.parametrize("store", EVERY_STORE)
async def test_a_fresh_run_may_write_before_its_first_put_is_acknowledged(
    savers: Savers, store: Store
) -> None:
    """After a deletion, writes on a checkpoint whose put is under way belong to it. B71."""
    thread = Thread(await savers.shared(store, Form.AWAITED))
    await thread.put(1, {"x": 1})
    await thread.caller.delete_thread(thread.id)
    putting = asyncio.ensure_future(thread.put(2, {"x": 2}))
    writing = asyncio.ensure_future(thread.write(2, [("a", 1)]))
    await asyncio.gather(putting, writing)
    assert await thread.numbers() == [2]
    assert await thread.pending(2) == [("task", "a", 1)]


@pytest.mark.parametrize("store", EVERY_STORE)
async def test_a_deleted_thread_leaves_no_trace(savers: Savers, store: Store) -> None:
    """Once it is cleaned up, no key and no value of the view names the thread. B72.

    Other threads are as they were.
    """
    async with AsyncExitStack() as stack:
        await check_no_trace(await savers.alone(store, Form.AWAITED, stack))


async def check_no_trace(caller: Caller) -> None:
    """Delete one of two threads, and look for it in the whole view."""
    gone, kept = Thread(caller), Thread(caller)
    secrets = {gone.id: uuid.uuid4().hex, kept.id: uuid.uuid4().hex}
    for thread in (gone, kept):
        secret = secrets[thread.id]
        for ns in ("", f"{secret}:1"):
            await thread.put(1, {"x": secret}, ns=ns, metadata={"user": secret})
            await thread.put(2, {"x": secret}, ns=ns, parent=1)
            await thread.put(3, {"x": secret}, {"x": 2}, ns=ns, parent=1)
            await thread.write(thread.config(1, ns), [("a", secret)], secret, secret)
    before = await caller.list(kept.config(None, None))
    await caller.delete_thread(gone.id)
    assert await gone.numbers() == []
    engine: Any = caller.saver._engine
    partition = engine.log.partition_of(gone.id)

    async def is_clean() -> bool:
        view = repr(await engine._view.dump(partition))
        return gone.id not in view and secrets[gone.id] not in view

    wanted = "nothing of the thread in the view"
    cleaned: bool = await wait_until(is_clean, description=wanted, timeout=20)
    assert cleaned
    assert await caller.list(kept.config(None, None)) == before


async def test_pruning_keeps_the_history_of_what_it_keeps(caller: Caller) -> None:
    """The newest checkpoint of a delta channel still has its seed and all its writes. B74."""
    thread = Thread(caller)
    await delta_thread(thread)
    assert await thread.history(10, "log") == DELTA_HISTORY
    await caller.prune([thread.id])
    assert await thread.numbers() == [10]
    assert await thread.history(10, "log") == DELTA_HISTORY
    assert (await thread.found()).parent_config is None
    await thread.put(11, {}, {"log": 11}, parent=10)
    assert await thread.history(11, "log") == DELTA_HISTORY


async def test_deleting_a_run_keeps_what_others_need(caller: Caller) -> None:
    """A run's checkpoints are gone from get and list; later ones keep their history. B80."""
    thread = Thread(caller)
    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    await delta_thread(thread, {n: first if n <= 5 else second for n in range(1, 11)})
    await caller.delete_for_runs([first])
    assert await thread.numbers() == [10, 9, 8, 7, 6]
    assert await thread.get(5) is None
    assert (await thread.found(6)).parent_config is None
    assert (await thread.found(7)).parent_config == thread.config(6)
    assert await thread.history(10, "log") == DELTA_HISTORY


async def test_a_removed_checkpoint_put_again_begins_anew(caller: Caller) -> None:
    """Writes on a checkpoint that was removed never show on a later one with its id."""
    thread = Thread(caller)
    await thread.put(1, {"x": 1})
    await thread.write(1, [("a", "old")])
    await thread.put(2, {"x": 2}, parent=1)
    await caller.prune([thread.id])
    await thread.put(1, {"x": "again"})
    assert await thread.pending(1) == []
    assert await thread.values(1) == {"x": "again"}
    assert (await thread.found(2)).parent_config == thread.config(1)


async def test_pruning_knows_two_strategies(caller: Caller) -> None:
    """`keep_latest` and `delete`; any other word is an error that names both. S18."""
    thread = Thread(caller)
    await thread.put(1)
    await thread.put(2, parent=1)
    with pytest.raises(ValueError, match=r"delete_all.*keep_latest.*delete"):
        await caller.prune([thread.id], "delete_all")
    await caller.prune([thread.id], "keep_latest")
    assert await thread.numbers() == [2]
    await caller.prune([thread.id], "delete")
    assert await thread.numbers() == []


async def test_pruning_keeps_a_paused_threads_writes(caller: Caller) -> None:
    """The newest checkpoint's pending writes stay, in each namespace."""
    thread = Thread(caller)
    for ns in ("", "child:1"):
        await thread.put(1, ns=ns)
        await thread.put(2, parent=1, ns=ns)
        await thread.write(thread.config(2, ns), [("__interrupt__", "q")])
    await caller.prune([thread.id])
    for ns in ("", "child:1"):
        assert (await thread.found(ns=ns)).pending_writes == [("task", "__interrupt__", "q")]


async def test_a_copy_is_complete_and_apart(caller: Caller) -> None:
    """A copy has all checkpoints, namespaces, writes and histories, and shares nothing later."""
    thread, copy = Thread(caller), Thread(caller)
    await delta_thread(thread)
    await thread.put(1, {"x": [1]}, ns="child:1")
    await thread.put(2, {"x": [1]}, {"x": 1}, parent=1, ns="child:1", changed=[])
    await caller.copy_thread(thread.id, copy.id)
    for number in await thread.numbers(ns=""):
        here, there = await thread.found(number), await copy.found(number)
        assert there.checkpoint == here.checkpoint
        assert there.pending_writes == here.pending_writes
    assert await copy.history(10, "log") == DELTA_HISTORY
    assert await copy.values(2, "child:1") == {"x": [1]}
    await caller.delete_thread(thread.id)
    assert await copy.history(10, "log") == DELTA_HISTORY
    assert await copy.numbers(ns="") == [*range(10, 0, -1)]


async def test_a_copy_of_a_pruned_thread_keeps_its_history(caller: Caller) -> None:
    """Ancestors that were removed are carried along, for the history only."""
    thread, copy, second = Thread(caller), Thread(caller), Thread(caller)
    await delta_thread(thread)
    await caller.prune([thread.id])
    await caller.copy_thread(thread.id, copy.id)
    await caller.copy_thread(copy.id, second.id)
    for there in (copy, second):
        assert await there.numbers() == [10]
        assert (await there.found()).parent_config is None
        assert await there.history(10, "log") == DELTA_HISTORY


async def test_a_copys_removed_parent_is_no_parent(caller: Caller) -> None:
    """Where the source shows no parent, neither does the copy, history or not."""
    thread, copy = Thread(caller), Thread(caller)
    await thread.put(1, {"x": 1})
    await thread.put(2, {"x": 2}, parent=1)
    await caller.prune([thread.id])
    await caller.copy_thread(thread.id, copy.id)
    assert (await copy.found()).parent_config is None


async def test_a_copy_needs_an_empty_target(caller: Caller) -> None:
    """Copying onto a thread that holds checkpoints, or onto itself, is refused."""
    thread, other = Thread(caller), Thread(caller)
    await thread.put(1, {"x": 1})
    await other.put(2, {"x": 2})
    with pytest.raises(CopyRefusedError, match=other.id):
        await caller.copy_thread(thread.id, other.id)
    with pytest.raises(InvalidConfigError, match="target_thread_id"):
        await caller.copy_thread(thread.id, thread.id)
    assert await other.numbers() == [2]
    await caller.delete_thread(other.id)
    await caller.copy_thread(thread.id, other.id)
    assert await other.values() == {"x": 1}
    nothing = Thread(caller)
    await caller.copy_thread(nothing.id, Thread(caller).id)
    assert await nothing.get() is None


@pytest.mark.parametrize("store", EVERY_STORE)
async def test_a_cancelled_put_is_whole_or_absent(savers: Savers, store: Store) -> None:
    """Cancelled wherever it waits, a put leaves the old checkpoint or the complete new one. B78.

    What is put after it is not held up, and comes after it.
    """
    thread = Thread(await savers.shared(store, Form.AWAITED))
    await thread.put(1, {"x": 1, "y": 1})
    for turns in range(12):
        number = 2 + 2 * turns
        values = {"x": number, "y": 1}
        versions = {"x": number, "y": 1}
        putting = asyncio.ensure_future(
            thread.put(number, values, versions, parent=number - 1, changed=["x"])
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        putting.cancel()
        await asyncio.gather(putting, return_exceptions=True)
        following = {"x": number + 1, "y": 1}
        await thread.put(number + 1, following, {"x": number + 1, "y": 1}, parent=number)
        assert await thread.values() == following
        if await thread.get(number) is not None:
            assert await thread.values(number) == values


async def test_a_history_does_not_go_round_in_circles(caller: Caller) -> None:
    """A checkpoint put again under its own descendant ends a walk, and is no ancestor of itself."""
    thread = Thread(caller)
    await thread.put(1, {}, {"log": 1})
    await thread.write(1, [("log", "on 1")])
    await thread.put(2, {}, {"log": 2}, parent=1)
    await thread.write(2, [("log", "on 2")])
    await thread.put(1, {}, {"log": 3}, parent=2)
    assert await thread.history(1, "log") == (["on 2"], ABSENT)
    assert await thread.history(2, "log") == (["on 1"], ABSENT)
