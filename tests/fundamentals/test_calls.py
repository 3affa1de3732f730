"""The four ways to call a graph on a thread, and the one that is refused.

The fourth, `None` with an old snapshot's config, is in `test_time_travel`.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.errors import EmptyInputError

from langgraph.checkpoint.kafka import AsyncKafkaSaver
from tests.waiting import wait_until

from .graphs import START_STATE, Bars, Ran, line, side_by_side

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_new_input_does_not_clear_the_thread(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """Input on a thread goes through the reducers, on top of what is there."""
    graph = line(saver, "a")
    await graph.ainvoke({"foo": "", "bar": ["in"]}, thread)
    result = await graph.ainvoke({"bar": ["again"]}, thread)
    assert result == {"foo": "a", "bar": ["in", "a", "again", "a"]}


async def test_none_after_an_error_retries_what_is_unfinished(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """The node that failed runs again; its finished sibling of the same step does not."""
    ran: Ran = []

    async def second(state: Bars) -> dict[str, Any]:
        ran.append("second")
        if ran.count("second") == 1:
            saved: list[str] = await wait_until(
                saved_by_first, description="the writes of `first` are saved"
            )
            assert saved == ["bar"]
            raise ConnectionError("the network is down")
        return {"bar": ["second"]}

    async def saved_by_first() -> list[str]:
        stored = await saver.aget_tuple(thread)
        written = stored.pending_writes if stored is not None else None
        return [channel for _, channel, value in written or () if value == ["first"]]

    graph = side_by_side(saver, second, ran)
    with pytest.raises(ConnectionError):
        await graph.ainvoke({"bar": []}, thread)
    failed = await graph.aget_state(thread)
    assert failed.next == ("second",)
    assert [task.error is not None for task in failed.tasks if task.name == "second"] == [True]

    result = await graph.ainvoke(None, thread)
    assert result == {"bar": ["first", "second"]}
    assert sorted(ran) == ["first", "second", "second"]


async def test_none_on_a_finished_thread_does_nothing(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """There is no unfinished work: the state comes back as it is."""
    graph = line(saver, "a")
    result = await graph.ainvoke(START_STATE, thread)
    assert await graph.ainvoke(None, thread) == result


async def test_none_on_an_unknown_thread_is_refused(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """There is nothing to go on with."""
    with pytest.raises(EmptyInputError):
        await line(saver, "a").ainvoke(None, thread)
