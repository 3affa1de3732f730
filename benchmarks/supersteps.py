"""Super-steps per second of many threads at once: two tasks' writes, then a checkpoint."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from .machine import settle
from .savers import opened
from .work import Run


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one saver did."""

    saver: str
    steps_per_second: float
    p50: float
    """Of a super-step, in milliseconds."""
    p99: float
    lag: int | None
    """Offsets that the view lacked at the end, None for savers without one."""


async def measure(name: str, *, threads: int, seconds: float, warm_up: float) -> Throughput:
    """Let every thread make super-steps for a while, and count."""
    async with opened(name) as saver:
        runs = [Run(saver, f"bench-{number}") for number in range(threads)]
        await asyncio.gather(*(run.put() for run in runs))
        await _steps(runs, warm_up)
        settle()
        started = perf_counter()
        durations = await _steps(runs, seconds)
        elapsed = perf_counter() - started
        lag = await _lag(saver)
    cuts = quantiles(durations, n=100)
    return Throughput(name, len(durations) / elapsed, cuts[49] * 1000, cuts[98] * 1000, lag)


async def _steps(runs: list[Run], seconds: float) -> list[float]:
    until = perf_counter() + seconds
    durations: list[float] = []

    async def follow(run: Run) -> None:
        while (started := perf_counter()) < until:
            await asyncio.gather(run.writes("model"), run.writes("tool"))
            await run.put()
            durations.append(perf_counter() - started)

    await asyncio.gather(*(follow(run) for run in runs))
    return durations


async def _lag(saver: BaseCheckpointSaver[Any]) -> int | None:
    lag = getattr(saver, "alag", None)
    return None if lag is None else sum((await lag()).values())
