"""Growing values through a saver: what its log then holds, and faults in what its view holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from random import Random
from typing import Any

import pytest

from eventstore import codec
from eventstore.codec import thread_hash
from eventstore.events import ChannelValue, CheckpointSaved, RecordedEvent
from langgraph.checkpoint.kafka import AsyncKafkaSaver, SaverSettings
from projector.view import Changes
from tests.cases.thread import Thread
from tests.wirings import Caller


@cache
def items(start: int, stop: int) -> list[str]:
    """Return items that differ from all others and do not compress well."""
    return [
        "".join(Random(number).choices("abcdefghijklmnopqrstuvwxyz ", k=100))
        for number in range(start, stop)
    ]


@asynccontextmanager
async def another(caller: Caller) -> AsyncGenerator[Caller]:
    """Open another saver on the same log and view, as another process has it."""
    engine = caller.saver._engine
    config = SaverSettings(projector=None)
    async with AsyncKafkaSaver(engine.log, engine._view, config=config) as saver:
        yield Caller.awaited(saver, caller.wiring)


def through(caller: Caller, thread: Thread) -> Thread:
    """Return the same thread, called through another saver."""
    return Thread(caller, thread.id)


async def events_of(saver: AsyncKafkaSaver, thread_id: str) -> list[RecordedEvent]:
    """Return a thread's events as a consumer of the log reads them."""
    log = saver.engine.log
    partition = log.partition_of(thread_id)
    end = (await log.end_position((partition,))).next_offset(partition)
    at = (await log.first_position((partition,))).next_offset(partition)
    found: list[RecordedEvent] = []
    while at < end:
        batch = await log.read(partition, at, end)
        found += [codec.decode(r) for r in batch.records if codec.thread_of(r) == thread_id]
        at = batch.next_offset
    return found


async def saves_of(thread: Thread) -> list[RecordedEvent]:
    """Return the events of a thread's checkpoints."""
    assert isinstance(thread.caller.saver, AsyncKafkaSaver)
    events = await events_of(thread.caller.saver, thread.id)
    return [found for found in events if isinstance(found.event, CheckpointSaved)]


async def forms_of(thread: Thread, channel: str = "x") -> list[ChannelValue]:
    """Return the form that a channel's value has in each event of a thread's checkpoints."""
    return [
        found.event.channels[channel].value
        for found in await saves_of(thread)
        if isinstance(found.event, CheckpointSaved)
    ]


async def kinds_of(thread: Thread, channel: str = "x") -> list[str]:
    """Return the names of these forms."""
    return [type(value).__name__ for value in await forms_of(thread, channel)]


async def spoil(thread: Thread, letter: bytes, name: bytes) -> None:
    """Change the last byte of a cell of a thread's scope."""
    engine = thread.caller.saver._engine
    view, partition = engine._view, engine.log.partition_of(thread.id)
    # Also brings the view up to the log.
    await thread.numbers()
    progress = await view.progress(partition)
    assert progress is not None
    dump = await view.dump(partition)
    key = next(key for key in dump if key[:17] == letter + thread_hash(thread.id))
    data = dump[key][name]
    changes = Changes(cells={(key, name): data[:-1] + bytes([data[-1] ^ 1])})
    assert await view.apply(partition, expected=progress, changes=changes, reached=progress)


def reads(caller: Caller, patch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an entry for each question that a saver asks of the view."""
    asked: list[int] = []
    reader = caller.saver._engine.reader
    ask = reader._at

    async def asking(partition: int, bound: int, query: Any) -> Any:
        asked.append(bound)
        return await ask(partition, bound, query)

    patch.setattr(reader, "_at", asking)
    return asked
