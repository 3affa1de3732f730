"""Processes come and go; the log stays. A saver that is opened anew stands for a new process."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from tests.wirings import Wiring

from .graphs import START_STATE, WHICH_WINDOW, WHO_OWNS, agent, ask, asking, history, line

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_conversation_outlives_the_process(wiring: Wiring, thread: RunnableConfig) -> None:
    """The second question finds the first one's answer in another process too."""
    async with wiring.open() as saver:
        await ask(agent(saver), WHO_OWNS, thread)
    async with wiring.open() as saver:
        messages = await ask(agent(saver), WHICH_WINDOW, thread)
    assert messages[-1].text == "Changes to checkout: on Tuesdays."


async def test_pause_outlives_the_process(wiring: Wiring, thread: RunnableConfig) -> None:
    """Nothing has to run while a person thinks."""
    async with wiring.open() as saver:
        await asking(saver).ainvoke(START_STATE, thread)
    async with wiring.open() as saver:
        result = await asking(saver).ainvoke(Command(resume="yes"), thread)
    assert result["bar"] == ["a", "yes", "z"]


async def test_two_savers_see_each_other_at_once(wiring: Wiring, thread: RunnableConfig) -> None:
    """What one has been told is saved, the other reads: no waiting in between."""
    async with wiring.open() as one, wiring.open() as other:
        for number in range(1, 11):
            await line(one, "a").ainvoke(START_STATE, thread)
            state = await line(other, "a").aget_state(thread)
            assert state.values["bar"] == ["a"] * number


async def test_saver_needs_no_projector(wiring: Wiring, thread: RunnableConfig) -> None:
    """Without one, reads bring the view up to date themselves."""
    async with wiring.open(projector=None) as saver:
        graph = line(saver, "a", "b")
        await graph.ainvoke(START_STATE, thread)
        assert len(await history(graph, thread)) == 4


async def test_sync_twin_shares_the_threads(wiring: Wiring, thread: RunnableConfig) -> None:
    """`KafkaSaver` is the same saver for programs without an event loop."""
    async with wiring.open() as saver:
        await line(saver, "a").ainvoke(START_STATE, thread)

    def in_a_sync_program() -> list[str]:
        with wiring.open_twin() as twin:
            result = line(twin, "b").invoke({"bar": []}, thread)
        bar: list[str] = result["bar"]
        return bar

    assert await asyncio.to_thread(in_a_sync_program) == ["a", "b"]
