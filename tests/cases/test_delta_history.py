"""The history of delta channels: writes and seed along the ancestors."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from tests.wirings import Caller

from .thread import ABSENT, Thread

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEEDS: tuple[Any, ...] = (
    *([10], "abc", 0, False, "", None, [], {}, b"x"),
    _DeltaSnapshot(["a", b"\0"]),
)


async def three_steps(thread: Thread, seed: Any) -> None:
    """Put a checkpoint with the seed and a write on it, one without a value, and a third one."""
    await thread.put(1, {"m": seed}, {"m": 1})
    await thread.write(1, [("m", "at"), ("other", "no")])
    await thread.put(2, {}, {"m": 2}, parent=1)
    await thread.write(2, [("m", "after")])
    await thread.put(3, {}, {"m": 3}, parent=2)


@pytest.mark.parametrize("seed", SEEDS, ids=repr)
async def test_a_walk_ends_at_the_nearest_value(caller: Caller, seed: Any) -> None:
    """That ancestor's own writes count, and any value is a seed, None too. B81, B82."""
    thread = Thread(caller)
    await three_steps(thread, seed)
    writes, found = await thread.history(3, "m")
    assert writes == ["at", "after"]
    assert found == seed
    assert type(found) is type(seed)


async def test_a_walk_without_a_value_ends_at_the_root(caller: Caller) -> None:
    """Then there is no seed, and all writes on the way count."""
    thread = Thread(caller)
    await three_steps(thread, 1)
    assert await thread.history(3, "other") == (["no"], ABSENT)
    assert await thread.history(3, "unheard of") == ([], ABSENT)


async def test_a_history_without_id_is_the_newest_ones(caller: Caller) -> None:
    """No id means the newest; an unknown one has no history, no channels get no answer. B84."""
    thread = Thread(caller)
    await three_steps(thread, [10])
    assert await thread.history(None, "m") == await thread.history(3, "m")
    assert await thread.history(9, "m") == ([], ABSENT)
    assert await caller.history(thread.config(3), []) == {}
    assert await Thread(caller).history(None, "m") == ([], ABSENT)


async def test_a_checkpoints_own_writes_are_its_childrens(caller: Caller) -> None:
    """What was written on a checkpoint is in its child's history and not in its own. B86."""
    thread = Thread(caller)
    await three_steps(thread, [10])
    await thread.write(3, [("m", "own")])
    await thread.put(4, {}, {"m": 4}, parent=3)
    assert (await thread.history(3, "m"))[0] == ["at", "after"]
    assert (await thread.history(4, "m"))[0] == ["at", "after", "own"]


async def test_forks_have_each_its_own_history(caller: Caller) -> None:
    """Only what lies on the path to the root counts."""
    thread = Thread(caller)
    await three_steps(thread, [10])
    await thread.put(4, {}, {"m": 2}, parent=1)
    await thread.write(4, [("m", "fork")])
    await thread.put(5, {}, {"m": 3}, parent=4)
    assert await thread.history(5, "m") == (["at", "fork"], [10])
    assert await thread.history(3, "m") == (["at", "after"], [10])


async def test_channels_end_each_at_its_own_value(caller: Caller) -> None:
    """One walk answers for several channels, whose nearest values lie apart."""
    thread = Thread(caller)
    await thread.put(1, {"a": "old", "b": "seed b"}, {"a": 1, "b": 1})
    await thread.write(1, [("a", 1), ("b", 2)])
    await thread.put(2, {"a": "seed a"}, {"a": 2, "b": 2}, parent=1)
    await thread.write(2, [("a", 3), ("b", 4)])
    await thread.put(3, {}, {"a": 3, "b": 3}, parent=2)
    assert await thread.history(3, "a") == ([3], "seed a")
    assert await thread.history(3, "b") == ([2, 4], "seed b")


async def test_a_long_history_is_complete(caller: Caller) -> None:
    """More ancestors than one request visits give all of their writes, in order."""
    thread = Thread(caller)
    await thread.put(1, {"m": "seed"}, {"m": 1})
    for number in range(2, 402):
        await thread.write(number - 1, [("m", number)])
        await thread.put(number, {}, {"m": number}, parent=number - 1)
    assert await thread.history(None, "m") == ([*range(2, 402)], "seed")
