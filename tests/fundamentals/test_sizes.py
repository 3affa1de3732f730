"""States of any size are saved and read back, in their order, and nothing shows half."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint

from eventstore.codec import thread_hash, thread_of
from eventstore.errors import EventTooLargeError, ValueCorruptedError
from eventstore.events import CHUNK_BYTES
from langgraph.checkpoint.kafka import AsyncKafkaSaver
from projector.errors import ValueUnresolvedError
from projector.layout import CHUNKS
from projector.view import Changes
from saver import uploading
from saver.uploading import MAX_INLINE_BYTES
from tests.waiting import wait_until

from .conftest import new_thread

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = 5 * 1024 * 1024


def incompressible(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def checkpoint(version: int, **values: Any) -> Checkpoint:
    made = empty_checkpoint()
    made["id"] = f"{version:08d}"
    made["channel_values"] = values
    made["channel_versions"] = dict.fromkeys(values, version)
    return made


async def put(
    saver: AsyncKafkaSaver,
    config: RunnableConfig,
    version: int,
    metadata: Any = None,
    **values: Any,
) -> RunnableConfig:
    place: RunnableConfig = {
        "configurable": {"checkpoint_ns": "", **config.get("configurable", {})}
    }
    made = checkpoint(version, **values)
    told: Any = metadata or {}
    return await saver.aput(place, made, told, made["channel_versions"])


EDGES = [0, 1] + [
    edge + step
    for edge in (MAX_INLINE_BYTES, CHUNK_BYTES, 2 * CHUNK_BYTES, 1_000_000)
    for step in (-1, 0, 1)
]


@pytest.mark.parametrize("size", EDGES)
async def test_states_round_every_threshold(
    saver: AsyncKafkaSaver, thread: RunnableConfig, size: int
) -> None:
    """One byte below, at and above each size from which on something is done differently."""
    value = incompressible(size)
    saved = await put(saver, thread, 1, state=value)
    found = await saver.aget_tuple(saved)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"state": value}


async def test_large_values_everywhere(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """A channel, a metadata value, a task's writes: each may be larger than a record."""
    value, told, written = (incompressible(LARGE + n) for n in range(3))
    saved = await put(saver, thread, 1, {"plain": told, "short": 1}, state=value, small=b"x")
    await saver.aput_writes(saved, [("state", written), ("other", "y")], "task")
    found = await saver.aget_tuple(saved)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"state": value, "small": b"x"}
    metadata: Any = found.metadata
    assert metadata["plain"] == told
    assert found.pending_writes == [("task", "state", written), ("task", "other", "y")]
    listed = [each async for each in saver.alist(thread)]
    assert [each.checkpoint["channel_values"] for each in listed] == [
        found.checkpoint["channel_values"]
    ]


async def test_large_values_grow(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """What is added to a large value is all that is stored for its next version."""
    value = [incompressible(1_000 + n) for n in range(3_000)]
    config = await put(saver, thread, 1, state=value)
    for version in range(2, 6):
        value = [*value, incompressible(version)]
        config = await put(saver, config, version, state=value)
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"state": value}


async def test_large_puts_keep_their_place(saver: AsyncKafkaSaver, thread: RunnableConfig) -> None:
    """What is called behind a large put enters the log behind it, small as it may be."""
    first = await put(saver, thread, 1, state=b"small")
    large = asyncio.create_task(put(saver, first, 2, state=incompressible(LARGE)))
    await asyncio.sleep(0)
    second: RunnableConfig = {
        "configurable": {**first.get("configurable", {}), "checkpoint_id": "00000002"}
    }
    await saver.aput_writes(second, [("state", b"write")], "task")
    # The writes are acknowledged, so the checkpoint in front of them is in the log.
    found = await saver.aget_tuple(second)
    assert found is not None
    assert found.pending_writes == [("task", "state", b"write")]
    await large


async def test_nothing_shows_of_a_put_that_ends_between_chunks(
    saver: AsyncKafkaSaver, thread: RunnableConfig
) -> None:
    """A writer that is gone in the middle leaves the checkpoint before it."""
    first = await put(saver, thread, 1, state=b"small")
    large = asyncio.create_task(put(saver, first, 2, state=incompressible(LARGE)))
    for _ in range(6):
        await asyncio.sleep(0)
    large.cancel()
    await asyncio.gather(large, return_exceptions=True)
    found = await saver.aget_tuple(thread)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"state": b"small"}
    third = await put(saver, first, 3, state=b"third")
    found = await saver.aget_tuple(third)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"state": b"third"}


async def test_too_large_is_refused_before_anything_is_stored(
    saver: AsyncKafkaSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the documented limit there is an error that tells both sizes, and no trace of it."""
    monkeypatch.setattr(uploading, "MAX_PAYLOAD_BYTES", LARGE)
    thread = new_thread()
    thread_id = thread.get("configurable", {})["thread_id"]
    await saver.setup()
    log = saver._engine.log
    partition = log.partition_of(thread_id)
    at = (await log.end_position([partition])).next_offset(partition)
    with pytest.raises(EventTooLargeError) as refused:
        await put(saver, thread, 1, state=bytes(LARGE + 1))
    assert (refused.value.limit, refused.value.size) == (LARGE, LARGE + 1)
    end = (await log.end_position([partition])).next_offset(partition)
    while at < end:
        batch = await log.read(partition, at, end)
        assert thread_id not in [thread_of(record) for record in batch.records]
        at = batch.next_offset
    assert await saver.aget_tuple(thread) is None


async def spoil_chunks(
    saver: AsyncKafkaSaver, thread: RunnableConfig, spoilt: Callable[[bytes], bytes | None]
) -> None:
    """Change what the view holds of a thread's chunks."""
    view, log = saver._engine._view, saver._engine.log
    thread_id = thread.get("configurable", {})["thread_id"]
    partition = log.partition_of(thread_id)
    scope = CHUNKS + thread_hash(thread_id)

    async def is_spoilt() -> bool:
        # The projector may be at work on other threads of the partition meanwhile.
        progress = await view.progress(partition)
        assert progress is not None
        cells: dict[tuple[bytes, bytes], bytes | None] = {
            (key, name): spoilt(data)
            for key, fields in (await view.dump(partition)).items()
            if key.startswith(scope)
            for name, data in fields.items()
        }
        assert cells
        changes = Changes(cells=cells)
        return await view.apply(partition, expected=progress, changes=changes, reached=progress)

    done: bool = await wait_until(is_spoilt, description="the chunks are spoilt")
    assert done


def lost(_: bytes) -> None:
    return None


def changed(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("where", ["state", "metadata", "writes"])
@pytest.mark.parametrize(
    ("spoilt", "error"),
    [
        (lost, ValueUnresolvedError),
        (changed, ValueCorruptedError),
    ],
    ids=["lost", "changed"],
)
async def test_lost_or_changed_chunks_are_errors(
    saver: AsyncKafkaSaver,
    thread: RunnableConfig,
    where: str,
    spoilt: Callable[[bytes], bytes | None],
    error: type[Exception],
) -> None:
    """A payload of which a chunk is missing or wrong is never a shorter or another one."""
    large = incompressible(MAX_INLINE_BYTES + 1)
    saved = await put(
        saver,
        thread,
        1,
        {"plain": large if where == "metadata" else b""},
        state=large if where == "state" else b"small",
    )
    await saver.aput_writes(saved, [("state", large if where == "writes" else b"")], "task")
    assert await saver.aget_tuple(saved) is not None
    await spoil_chunks(saver, saved, spoilt)
    with pytest.raises(error):
        await saver.aget_tuple(saved)
    with pytest.raises(error):
        _ = [each async for each in saver.alist(thread)]
    # Other tests list all that the store holds.
    await saver.adelete_thread(saved.get("configurable", {})["thread_id"])


async def test_copy_takes_large_payloads_along(
    saver: AsyncKafkaSaver, thread: RunnableConfig, other_thread: RunnableConfig
) -> None:
    """A copy has chunks of its own for all that is large, wherever it stands in the checkpoint."""
    value, told, written = (incompressible(MAX_INLINE_BYTES + n) for n in range(1, 4))
    saved = await put(saver, thread, 1, {"plain": told}, state=value)
    await saver.aput_writes(saved, [("state", written)], "task")
    source, target = (each.get("configurable", {})["thread_id"] for each in (thread, other_thread))
    await saver.acopy_thread(source, target)
    await saver.adelete_thread(source)
    found = await saver.aget_tuple(other_thread)
    assert found is not None
    metadata: Any = found.metadata
    assert found.checkpoint["channel_values"] == {"state": value}
    assert metadata["plain"] == told
    assert found.pending_writes == [("task", "state", written)]
