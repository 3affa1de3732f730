"""One large state: put and get, the memory they take, and what small puts meanwhile wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median, quantiles
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph.checkpoint.kafka import EventStoreError

from . import peak
from .machine import settle
from .peak import Peak
from .savers import KAFKA_INSIDE, POSTGRES, SQLITE, caught_up, opened
from .states import get, put, refusal_of, state_of
from .work import Run

NAMES = (POSTGRES, KAFKA_INSIDE, SQLITE)

SMALL_THREADS = 16
_TICK = 0.001


@dataclass(slots=True)
class Large:
    """Puts and gets of one large state on one saver, in seconds."""

    saver: str
    puts: list[float] = field(default_factory=list[float])
    first_gets: list[float] = field(default_factory=list[float])
    """Right after the put: the view catches up first."""
    gets: list[float] = field(default_factory=list[float])
    """Once the view has it."""
    peak: Peak | None = None
    refusal: str | None = None
    """Why there are no figures."""


@dataclass(frozen=True, slots=True)
class Small:
    """Latencies of small puts of other threads, in milliseconds."""

    saver: str
    large: int
    """How many large puts went on meanwhile, one after another."""
    count: int
    p50: float
    p99: float
    longest: float
    stall: float
    """The longest time between two turns of the event loop."""


class Followers:
    """Small puts of several threads, for as long as the block runs."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._durations: list[float] = []
        self._ticks: list[float] = []
        self._goes_on = True
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._follow(run)) for run in self._runs]
        self._tasks.append(asyncio.create_task(self._tick()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._goes_on = False
        await asyncio.gather(*self._tasks)

    def found(self, saver: str, *, large: int) -> Small:
        """Return what they waited, in milliseconds."""
        cuts = quantiles(self._durations, n=100, method="inclusive")
        stall = max(later - earlier for earlier, later in pairwise(self._ticks))
        figures = (cuts[49], cuts[98], max(self._durations), stall)
        return Small(saver, large, len(self._durations), *(1000 * figure for figure in figures))

    async def _follow(self, run: Run) -> None:
        while self._goes_on:
            started = perf_counter()
            await run.put()
            self._durations.append(perf_counter() - started)

    async def _tick(self) -> None:
        while self._goes_on:
            self._ticks.append(perf_counter())
            await asyncio.sleep(_TICK)
        self._ticks.append(perf_counter())


async def large(*, size: int, kind: str, repeats: int) -> list[Large]:
    """Put and get a state on each saver in turn, `repeats` times; then once in an own process."""
    found = {name: Large(name) for name in NAMES}
    state = state_of(size, kind=kind)
    async with AsyncExitStack() as stack:
        savers = {name: await stack.enter_async_context(opened(name)) for name in NAMES}
        settle()
        for repeat in range(repeats):
            for name, saver in savers.items():
                await _put_and_get(found[name], saver, f"large-{repeat}", state)
    for each in found.values():
        if each.refusal is None:
            measured = await peak.measure(each.saver, size=size, kind=kind)
            if isinstance(measured, str):
                each.refusal = measured
            else:
                each.peak = measured
    return list(found.values())


async def small(*, size: int, kind: str, seconds: float, repeats: int) -> list[Small]:
    """Let threads make small puts alone, and then beside large ones, on each saver.

    Where large ones are not taken, there are figures without them only.
    """
    state = state_of(size, kind=kind)
    found: list[Small] = []
    for name in NAMES:
        async with opened(name) as saver:
            runs = [Run(saver, f"small-{number}") for number in range(SMALL_THREADS)]
            await asyncio.gather(*(run.put() for run in runs))
            settle()
            async with Followers(runs) as alone:
                await asyncio.sleep(seconds)
            found.append(alone.found(name, large=0))
            await caught_up(saver)
            with suppress(EventStoreError):
                async with Followers(runs) as beside:
                    for repeat in range(repeats):
                        await put(saver, f"large-{repeat}", state)
                found.append(beside.found(name, large=repeats))
            await caught_up(saver)
    return found


async def _put_and_get(
    found: Large, saver: BaseCheckpointSaver[Any], thread_id: str, state: object
) -> None:
    if found.refusal is not None:
        return
    try:
        times = [perf_counter()]
        await put(saver, thread_id, state)
        times.append(perf_counter())
        first = await get(saver, thread_id)
        times.append(perf_counter())
        # So that no other saver's put pays for the projecting.
        await caught_up(saver)
        again = perf_counter()
        second = await get(saver, thread_id)
        found.gets.append(perf_counter() - again)
    except EventStoreError as error:
        found.refusal = refusal_of(error)
        return
    if first != state or second != state:
        raise AssertionError(f"{found.saver} returned another state than it was given")
    found.puts.append(times[1] - times[0])
    found.first_gets.append(times[2] - times[1])


def serialization(*, size: int, kind: str, repeats: int) -> float:
    """Return the seconds that LangGraph's serializer takes for the state."""
    state = state_of(size, kind=kind)
    durations: list[float] = []
    for _ in range(repeats):
        started = perf_counter()
        JsonPlusSerializer().dumps_typed(state)
        durations.append(perf_counter() - started)
    return median(durations)
