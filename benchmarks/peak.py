"""How much memory the put and the get of one large state take, in a process for each saver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from langgraph.checkpoint.kafka import EventStoreError

from .machine import settle
from .savers import caught_up, opened_at, placed
from .states import get, put, refusal_of, state_of

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes of resident memory at the highest point, above what there was before."""

    put: int
    """Until the view has it, where this process does the projecting. The state is not counted."""
    get: int
    """The state that is returned is counted."""


async def measure(name: str, *, size: int, kind: str) -> Peak | str | None:
    """Put and get in a new process on a fresh store.

    None where there is no /proc; why the saver does not take the state, if it does not.
    """
    if not _is_known():
        return None
    async with placed(name) as url:
        # Spawned: a forked process would begin with the memory of this one.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
            run = asyncio.get_running_loop().run_in_executor
            return await run(processes, _measure, name, url, size, kind)


def _measure(name: str, url: str, size: int, kind: str) -> Peak | str:
    try:
        return asyncio.run(_peaks(name, url, size, kind))
    except EventStoreError as error:
        # As text: not every exception survives the way between processes.
        return refusal_of(error)


async def _peaks(name: str, url: str, size: int, kind: str) -> Peak:
    async with opened_at(name, url) as saver:
        await put(saver, "warm-up", "small")
        await get(saver, "warm-up")
        await caught_up(saver)
        state = state_of(size, kind=kind)

        async def put_and_project() -> None:
            await put(saver, "large", state)
            await caught_up(saver)

        return Peak(await _peak_of(put_and_project()), await _peak_of(get(saver, "large")))


async def _peak_of(work: Awaitable[object]) -> int:
    settle()
    _forget_peak()
    before = _resident("VmRSS")
    result = await work
    highest = _resident("VmHWM") - before
    # Until here: what was returned counts.
    del result
    return highest


def _is_known() -> bool:
    return _RESET.exists()


def _forget_peak() -> None:
    """Let the highest point begin at what is resident now."""
    _RESET.write_text(_RESET_PEAK)


def _resident(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024
