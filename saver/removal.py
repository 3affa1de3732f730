"""Deleting runs, pruning: which checkpoints go is decided here, from a read; events name them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from eventstore.codec import thread_hash
from projector.view import Selection

from .place import ReadLevel
from .reading import Reader
from .writing import Writer

KEEP_LATEST: Final = "keep_latest"
DELETE: Final = "delete"

IDS_PER_EVENT: Final = 1_000
"""Checkpoints that one event removes at most, about 40 KB of ids; all of one event go at once."""


async def delete_runs(reader: Reader, writer: Writer, run_ids: Sequence[str]) -> None:
    """Remove every checkpoint whose metadata names one of the runs."""
    for run_id in dict.fromkeys(run_ids):
        found: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
        for record, namespace, checkpoint_id in await reader.run(run_id, ReadLevel.LINEARIZABLE):
            if record.thread_id is not None:
                found[record.thread_id, record.incarnation].append((namespace, checkpoint_id))
        for (thread_id, incarnation), checkpoints in found.items():
            await _remove(writer, thread_id, incarnation, checkpoints)


async def prune(reader: Reader, writer: Writer, thread_ids: Sequence[str], strategy: str) -> None:
    """Remove all but the newest checkpoint of each namespace, or all.

    Raises:
        ValueError: There is no such strategy.
    """
    if strategy not in (KEEP_LATEST, DELETE):
        raise ValueError(f"unknown strategy {strategy!r}; there are {KEEP_LATEST!r} and {DELETE!r}")
    for thread_id in dict.fromkeys(thread_ids):
        if strategy == DELETE:
            if await reader.thread(thread_id, ReadLevel.LINEARIZABLE) is not None:
                await writer.delete_thread(thread_id)
            continue
        kept: set[str] = set()
        removed: list[tuple[str, str]] = []
        incarnation = 0
        selection = Selection(thread=thread_hash(thread_id))
        async for stored in reader.checkpoints(
            selection, thread_id, ReadLevel.LINEARIZABLE, limit=None, with_values=False
        ):
            incarnation = stored.thread.incarnation
            if stored.namespace in kept:
                removed.append((stored.namespace, stored.checkpoint_id))
            kept.add(stored.namespace)
        await _remove(writer, thread_id, incarnation, removed)


async def _remove(
    writer: Writer, thread_id: str, incarnation: int, checkpoints: Sequence[tuple[str, str]]
) -> None:
    for start in range(0, len(checkpoints), IDS_PER_EVENT):
        part = checkpoints[start : start + IDS_PER_EVENT]
        await writer.delete_checkpoints(thread_id, incarnation, part)
