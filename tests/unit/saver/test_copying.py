"""Copies of threads that change while they are copied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint.kafka import AsyncKafkaSaver
from projector.view import Page
from saver.reading import LIST_PAGE

COUNT = LIST_PAGE + 1
"""Checkpoints of the source: they take two pages."""


@pytest.fixture
async def saver() -> AsyncIterator[AsyncKafkaSaver]:
    """A saver that holds the thread `source`."""
    async with AsyncKafkaSaver.from_conn_string("sqlite:///:memory:") as saver:
        await put_source(saver, COUNT)
        yield saver


async def put_source(saver: AsyncKafkaSaver, count: int) -> None:
    config: Any = {"configurable": {"thread_id": "source"}}
    for _ in range(count):
        await saver.aput(config, empty_checkpoint(), {}, {})


async def count_of(saver: AsyncKafkaSaver, thread_id: str) -> int:
    config: Any = {"configurable": {"thread_id": thread_id}}
    return len([found async for found in saver.alist(config)])


@pytest.mark.parametrize("in_the_new_life", [0, 1, COUNT])
async def test_a_source_deleted_meanwhile_leaves_no_half_copy(
    saver: AsyncKafkaSaver, monkeypatch: pytest.MonkeyPatch, in_the_new_life: int
) -> None:
    """The copy is of one life of the source: of what follows the deletion, if anything does."""
    reader = saver.engine.reader
    exported = reader.exported
    has_changed = False

    async def changing(thread_id: str) -> AsyncIterator[Page]:
        nonlocal has_changed
        async for page in exported(thread_id):
            yield page
            if not has_changed:
                has_changed = True
                await saver.adelete_thread("source")
                await put_source(saver, in_the_new_life)

    monkeypatch.setattr(reader, "exported", changing)
    await saver.acopy_thread("source", "target")
    assert has_changed
    assert await count_of(saver, "target") == in_the_new_life
