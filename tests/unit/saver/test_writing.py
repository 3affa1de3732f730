"""What is called behind a deletion that is still under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint.kafka import AsyncKafkaSaver, ThreadDeletedError

THREAD: Any = {"configurable": {"thread_id": "t"}}


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[AsyncKafkaSaver]:
    """A saver whose appends take their time, as they reach a disk."""
    async with AsyncKafkaSaver.from_conn_string(f"sqlite:///{tmp_path}/t.sqlite") as saver:
        yield saver


async def put(saver: AsyncKafkaSaver, config: Any) -> Any:
    return await saver.aput(config, empty_checkpoint(), {}, {})


async def called(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Return a call that has handed its event to the log."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    return task


async def test_a_put_behind_a_deletion_begins_a_new_life(saver: AsyncKafkaSaver) -> None:
    """It is saved, and so is all that continues it: only what was called before is gone."""
    before = await put(saver, THREAD)
    deleting = await called(saver.adelete_thread("t"))
    first = await put(saver, THREAD)
    await deleting
    second = await put(saver, first)
    assert [found.config async for found in saver.alist(THREAD)] == [second, first]
    assert await saver.aget_tuple(before) is None


async def test_writes_behind_a_deletion_belong_to_the_new_life(saver: AsyncKafkaSaver) -> None:
    """They show on a checkpoint that is put behind the deletion too."""
    await put(saver, THREAD)
    checkpoint = empty_checkpoint()
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_id": checkpoint["id"]}}
    deleting = await called(saver.adelete_thread("t"))
    await saver.aput_writes(place, [("a", 1)], "task")
    await saver.aput(THREAD, checkpoint, {}, {})
    await deleting
    found = await saver.aget_tuple(THREAD)
    assert found is not None
    assert found.pending_writes == [("task", "a", 1)]


async def test_what_continues_the_deleted_thread_raises(saver: AsyncKafkaSaver) -> None:
    """Though the saver knew the parent when the call began. Nothing is appended."""
    before = await put(saver, THREAD)
    deleting = await called(saver.adelete_thread("t"))
    with pytest.raises(ThreadDeletedError):
        await put(saver, before)
    await deleting
    assert await saver.aget_tuple(THREAD) is None


async def test_a_deletion_by_another_saver_is_noticed_by_reading(
    saver: AsyncKafkaSaver, tmp_path: Path
) -> None:
    """From then on what the saver remembers of the older life is not continued any more."""
    before = await put(saver, THREAD)
    async with AsyncKafkaSaver.from_conn_string(f"sqlite:///{tmp_path}/t.sqlite") as other:
        await other.adelete_thread("t")
    assert await saver.aget_tuple(THREAD) is None
    with pytest.raises(ThreadDeletedError):
        await put(saver, before)


async def test_a_cancelled_deletion_holds_nothing_up(saver: AsyncKafkaSaver) -> None:
    """Whether it is in the log or not: what is called behind it goes on."""
    await put(saver, THREAD)
    deleting = await called(saver.adelete_thread("t"))
    putting = await called(put(saver, THREAD))
    deleting.cancel()
    await asyncio.gather(deleting, return_exceptions=True)
    await putting
    assert await saver.aget_tuple(await put(saver, THREAD)) is not None
