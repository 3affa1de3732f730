"""Beyond LangGraph's interface: which threads are there, and how fresh a read has to be."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from langchain_core.runnables import RunnableConfig

from langgraph.checkpoint.kafka import AsyncKafkaSaver, ReadLevel, Threads
from tests.wirings import Wiring

from .graphs import START_STATE, line, metadata, named

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def busy_saver(new_wiring: Wiring) -> AsyncIterator[AsyncKafkaSaver]:
    """A saver of its own with five threads, begun one behind the other: t0 to t4."""
    async with new_wiring.open() as saver:
        graph = line(saver, "a")
        for number in range(5):
            config: RunnableConfig = {
                "configurable": {"thread_id": f"t{number}"},
                "metadata": {"tenant": "even" if number % 2 == 0 else "odd"},
            }
            await graph.ainvoke(START_STATE, config)
        yield saver


def ids(page: Threads) -> list[str]:
    """Return the ids of a page of threads."""
    return [found.thread_id for found in page.threads]


async def test_threads_by_last_activity(busy_saver: AsyncKafkaSaver) -> None:
    """The latest first; a thread that goes on moves to the front."""
    graph = line(busy_saver, "a")
    await graph.ainvoke({"bar": []}, {"configurable": {"thread_id": "t1"}})
    assert ids(await busy_saver.athreads()) == ["t1", "t4", "t3", "t2", "t0"]


async def test_threads_tell_what_they_hold(busy_saver: AsyncKafkaSaver) -> None:
    """Number of checkpoints, newest checkpoint, its metadata: without reading a state."""
    newest = (await busy_saver.athreads(limit=1)).threads[0]
    stored = await busy_saver.aget_tuple({"configurable": {"thread_id": "t4"}})
    assert stored is not None
    assert newest.thread_id == "t4"
    assert newest.checkpoints == 3
    assert newest.checkpoint_id == stored.checkpoint["id"]
    assert newest.metadata == stored.metadata


async def test_threads_in_pages(busy_saver: AsyncKafkaSaver) -> None:
    """A page's cursor leads to the next one, the last page has none."""
    first = await busy_saver.athreads(limit=3)
    second = await busy_saver.athreads(limit=3, after=first.cursor)
    assert ids(first) + ids(second) == ["t4", "t3", "t2", "t1", "t0"]
    assert second.cursor is None


async def test_threads_searched_and_counted(busy_saver: AsyncKafkaSaver) -> None:
    """By the metadata of each thread's newest checkpoint."""
    assert ids(await busy_saver.athreads(filter={"tenant": "odd"})) == ["t3", "t1"]
    assert await busy_saver.acount_threads(filter={"tenant": "even"}) == 3
    assert await busy_saver.acount_threads() == 5


@pytest.mark.parametrize("level", [level.value for level in ReadLevel])
async def test_read_level_per_call(
    saver: AsyncKafkaSaver, thread: RunnableConfig, level: str
) -> None:
    """The key `__read_level` chooses for one call, and leaves no trace in metadata."""
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, thread)
    await graph.aget_state(thread)
    chosen: RunnableConfig = {"configurable": {**named(thread), "__read_level": level}}
    state = await graph.aget_state(chosen)
    assert state.values == {"foo": "a", "bar": ["a"]}
    await graph.ainvoke(START_STATE, chosen)
    assert "__read_level" not in metadata(await graph.aget_state(thread))


async def test_unknown_read_level_is_refused(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """A typing error is not taken for the default."""
    config: RunnableConfig = {"configurable": {**named(thread), "__read_level": "newest"}}
    with pytest.raises(ValueError, match="newest"):
        await saver.aget_tuple(config)


async def test_integer_thread_ids_are_taken_as_text(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """A thread id is text: 7 and "7" are the same thread."""
    number = uuid.uuid4().int
    graph = line(saver, "a")
    await graph.ainvoke(START_STATE, {"configurable": {"thread_id": number}})
    state = await graph.aget_state({"configurable": {"thread_id": str(number)}})
    assert state.values == {"foo": "a", "bar": ["a"]}
    assert named(state.config)["thread_id"] == str(number)


async def test_too_long_thread_id_is_refused(saver: AsyncKafkaSaver) -> None:
    """Up to 1,024 bytes of any characters; beyond that nothing is read or saved."""
    graph = line(saver, "a")
    longest = ("ü/" * 342)[:-2]
    assert len(longest.encode()) == 1_024 - 1
    await graph.ainvoke(START_STATE, {"configurable": {"thread_id": longest}})
    with pytest.raises(ValueError, match="thread_id"):
        await graph.ainvoke(START_STATE, {"configurable": {"thread_id": longest + "xx"}})
