"""Putting checkpoints and getting them back, by id and the newest one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wirings import Caller, Wiring

from .thread import Thread, checkpoint_of, id_of, number_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_unchanged_channels_keep_their_values(caller: Caller) -> None:
    """A checkpoint has all of its values, whichever of them the last step changed. B18."""
    thread = Thread(caller)
    await thread.put(1, {"x": 1, "y": [1]}, {"x": 1, "y": 1})
    await thread.put(2, {"x": 2, "y": [1]}, {"x": 2, "y": 1}, parent=1, changed=["x"])
    assert await thread.values(2) == {"x": 2, "y": [1]}


async def test_forks_share_no_value(caller: Caller) -> None:
    """Two children that give a channel the same version keep each its own value. B19."""
    thread = Thread(caller)
    await thread.put(1, {"x": "base"}, {"x": 1})
    await thread.put(2, {"x": "A"}, {"x": 2}, parent=1)
    await thread.put(3, {"x": "B"}, {"x": 2}, parent=1)
    assert await thread.values(2) == {"x": "A"}
    assert await thread.values(3) == {"x": "B"}
    assert await thread.values(1) == {"x": "base"}


async def test_values_not_from_the_parent_are_kept(caller: Caller) -> None:
    """A copy put under the grandparent, with no new versions, has the values that it was given."""
    thread = Thread(caller)
    await thread.put(1, {"x": "old", "y": 1}, {"x": 1, "y": 1})
    await thread.put(2, {"x": "new", "y": 1}, {"x": 2, "y": 1}, parent=1, changed=["x"])
    await thread.put(3, {"x": "new", "y": 1}, {"x": 2, "y": 1}, parent=1, changed=[])
    assert await thread.values(3) == {"x": "new", "y": 1}


async def test_an_unknown_parent_is_returned_as_given(caller: Caller) -> None:
    """A parent that was never there is accepted, and the values given with it are kept."""
    thread = Thread(caller)
    await thread.put(2, {"x": 1}, {"x": 1}, parent=1, changed=[])
    found = await thread.found()
    assert found.parent_config == thread.config(1)
    assert found.checkpoint["channel_values"] == {"x": 1}


async def test_a_checkpoint_of_an_older_langgraph_is_read(caller: Caller) -> None:
    """What an older LangGraph did not write is simply missing. B21, its first half.

    Events of older formats of ours are among the tests of the format.
    """
    thread = Thread(caller)
    checkpoint: Any = checkpoint_of(1, {"x": 1}, {"x": 1})
    del checkpoint["updated_channels"]
    await caller.put(thread.config(), checkpoint, {}, {"x": 1})
    found = await thread.found()
    assert found.checkpoint == checkpoint
    assert found.metadata == {}


async def test_the_newest_checkpoint_names_itself(caller: Caller) -> None:
    """The config of an answer has exactly thread, namespace and id. B23."""
    thread = Thread(caller)
    stored = await thread.put(1)
    assert stored == thread.config(1)
    assert (await thread.found()).config == thread.config(1)
    found = await caller.get_tuple(thread.config(1, user_id="u"))
    assert found is not None
    assert found.config == thread.config(1)


async def test_the_newest_is_the_one_with_the_greatest_id(caller: Caller) -> None:
    """Clocks may step back: what counts is the id, not the arrival. B25, S13."""
    thread = Thread(caller)
    await thread.put(3)
    await thread.put(2)
    assert number_of((await thread.found()).config) == 3
    assert await thread.numbers() == [3, 2]


async def test_an_id_put_again_is_replaced(caller: Caller) -> None:
    """The last put of an id is the one that is read, also when old content comes back. B27."""
    thread = Thread(caller)
    for step, value in ((1, "first"), (2, "second"), (1, "first")):
        await thread.put(1, {"x": value}, {"x": step}, metadata={"step": step})
        found = await thread.found()
        assert found.metadata.get("step") == step
        assert found.checkpoint["channel_values"] == {"x": value}
        assert await thread.numbers() == [1]


async def test_a_child_keeps_its_values_when_its_parent_is_put_again(caller: Caller) -> None:
    """What a checkpoint was put with stays, whatever becomes of the parent's id. B27."""
    thread = Thread(caller)
    await thread.put(1, {"x": "old", "y": 1}, {"x": 1, "y": 1})
    await thread.put(2, {"x": "old", "y": 2}, {"x": 1, "y": 2}, parent=1, changed=["y"])
    await thread.put(1, {"x": "new", "y": 9}, {"x": 1, "y": 1})
    assert await thread.values(2) == {"x": "old", "y": 2}
    assert await thread.values(1) == {"x": "new", "y": 9}


async def test_a_missing_namespace_is_the_root(caller: Caller) -> None:
    """Every method takes a config with only the thread, and means the root namespace. B28."""
    thread = Thread(caller)
    config = await thread.put(1, {"x": 1}, ns=None)
    assert config == thread.config(1, "")
    await thread.write(thread.config(1, None), [("a", 1)])
    found = await thread.found(1, None)
    assert found.config == thread.config(1, "")
    assert found.pending_writes == [("task", "a", 1)]
    await thread.put(2, {}, {"x": 2}, parent=1, ns=None)
    history = await caller.history(thread.config(2, None), ["x"])
    assert history["x"].get("seed") == 1


async def test_namespaces_are_apart(caller: Caller) -> None:
    """A subgraph's checkpoints are never the root's. B30."""
    thread = Thread(caller)
    await thread.put(1, {"x": "root"})
    await thread.put(2, {"x": "child"}, ns="child:1")
    assert await thread.values() == {"x": "root"}
    assert await thread.values(ns="child:1") == {"x": "child"}


async def test_equal_ids_in_two_namespaces_are_two(caller: Caller) -> None:
    """The same id in two namespaces names two checkpoints, and none in a third. S04."""
    thread = Thread(caller)
    await thread.put(1, {"x": 1}, ns="a")
    await thread.put(1, {"x": 2}, ns="b")
    assert await thread.values(1, "a") == {"x": 1}
    assert await thread.values(1, "b") == {"x": 2}
    assert await thread.get(1) is None


async def test_names_that_join_alike_stay_apart(caller: Caller) -> None:
    """No separator between ids can make two places one. S05."""
    one = Thread(caller)
    other = Thread(caller, f"{one.id}:n")
    await one.put(1, {"x": 1}, ns="n:1")
    await other.put(1, {"x": 2}, ns="1")
    assert await one.values(1, "n:1") == {"x": 1}
    assert await other.values(1, "1") == {"x": 2}
    assert len(await caller.list(one.config(None, None))) == 1
    await one.put(2, {"x:1": "a", "x": "b"}, {"x:1": "2", "x": "1:2"})
    assert await one.values(2) == {"x:1": "a", "x": "b"}


async def test_another_saver_reads_what_was_acknowledged(wiring: Wiring) -> None:
    """What one client was told is saved, another one reads at once. B35, S22."""
    async with wiring.open() as first, wiring.open() as second:
        writer = Thread(Caller.awaited(first, wiring))
        reader = Thread(Caller.awaited(second, wiring), writer.id)
        for number in range(1, 20):
            await writer.put(number, {"x": number}, parent=number - 1 if number > 1 else None)
            await writer.write(number, [("a", number)])
            assert await reader.values() == {"x": number}
            assert await reader.pending() == [("task", "a", number)]


async def test_stores_on_one_server_are_apart(new_wiring: Wiring, caller: Caller) -> None:
    """Two topics or files with the same thread share nothing. B24."""
    here = Thread(caller)
    async with new_wiring.open() as saver:
        there = Thread(Caller.awaited(saver, new_wiring), here.id)
        await here.put(1, {"x": "here"})
        await there.put(2, {"x": "there"})
        assert await here.numbers() == [1]
        assert await there.numbers() == [2]
        await here.caller.delete_thread(here.id)
        assert await there.values() == {"x": "there"}


async def test_a_branch_can_be_put_under_any_ancestor(caller: Caller) -> None:
    """A chain of forks reads back along each path, parents and all."""
    thread = Thread(caller)
    await thread.put(1, {"x": [1]}, {"x": 1})
    await thread.put(2, {"x": [1, 2]}, {"x": 2}, parent=1)
    await thread.put(3, {"x": [1, 2, 3]}, {"x": 3}, parent=2)
    await thread.put(4, {"x": [1, 4]}, {"x": 2}, parent=1)
    parents = [item.parent_config for item in await caller.list(thread.config())]
    assert parents == [thread.config(1), thread.config(2), thread.config(1), None]
    assert (await thread.values(3), await thread.values(4)) == ({"x": [1, 2, 3]}, {"x": [1, 4]})
    assert (await thread.found(4)).checkpoint["id"] == id_of(4)
