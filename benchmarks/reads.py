"""Latencies of reads, with few and with many checkpoints in the view."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph.checkpoint.kafka import AsyncKafkaSaver

from .machine import settle
from .savers import opened
from .work import Run, config_of

HISTORY = 1_000
PAGE = 50
WRITERS = 128


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one kind of read took, in milliseconds."""

    saver: str
    checkpoints: int
    """In the view, the read thread's own included."""
    read: str
    p50: float
    p99: float


async def measure(name: str, *, checkpoints: Sequence[int], repeats: int) -> list[Latency]:
    """Measure each read at each size of the view."""
    latencies: list[Latency] = []
    async with opened(name) as saver:
        read = Run(saver, "read")
        filled = 0
        others = [Run(saver, f"other-{number}") for number in range(WRITERS)]
        for size in sorted(checkpoints):
            own = min(size, HISTORY)
            while read.step + 1 < own:
                await read.put()
            await _fill(others, size - own - filled)
            filled = max(size - own, filled)
            await _caught_up(saver)
            settle()
            for kind, call in _reads(saver, read).items():
                durations = await _timed(call, 20 if kind.startswith("history") else repeats)
                cuts = quantiles(durations, n=100)
                latencies.append(Latency(name, size, kind, cuts[49] * 1000, cuts[98] * 1000))
    return latencies


def _reads(saver: BaseCheckpointSaver[Any], run: Run) -> dict[str, Callable[[], Awaitable[object]]]:
    latest = config_of("read")
    exact = run.config

    async def history() -> None:
        count = len([item async for item in saver.alist(latest, limit=HISTORY)])
        if count != run.step + 1:
            raise AssertionError(f"{count} checkpoints listed, expected {run.step + 1}")

    reads: dict[str, Callable[[], Awaitable[object]]] = {
        "get latest": lambda: saver.aget_tuple(latest),
        "get by id": lambda: saver.aget_tuple(exact),
        f"history of {run.step + 1}": history,
    }
    if isinstance(saver, AsyncKafkaSaver):
        reads[f"page of {PAGE} threads"] = lambda: saver.athreads(limit=PAGE)
    return reads


async def _fill(runs: Sequence[Run], count: int) -> None:
    async def follow(run: Run, steps: int) -> None:
        for _ in range(steps):
            await run.put()

    share, rest = divmod(max(count, 0), len(runs))
    await asyncio.gather(*(follow(run, share + (number < rest)) for number, run in enumerate(runs)))


async def _caught_up(saver: BaseCheckpointSaver[Any]) -> None:
    """Wait until the view has what was filled in: filling is faster than projecting."""
    if not isinstance(saver, AsyncKafkaSaver):
        return
    while any((await saver.alag()).values()):  # noqa: ASYNC110 - a service may do the projecting
        await asyncio.sleep(0.2)


async def _timed(call: Callable[[], Awaitable[object]], repeats: int) -> list[float]:
    await call()
    durations: list[float] = []
    for _ in range(repeats):
        started = perf_counter()
        await call()
        durations.append(perf_counter() - started)
    return durations
