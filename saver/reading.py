"""Reader: every read of the saver, at its level. Bound from the log's end, then the view at it."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from eventstore.codec import thread_hash
from eventstore.log import EventLog
from eventstore.position import Position
from projector.catch_up import CatchUp
from projector.errors import ThreadParkedError
from projector.layout import ThreadRecord
from projector.view import (
    Answer,
    CheckpointView,
    Page,
    Selection,
    StoredCheckpoint,
    StoredHistory,
    ThreadPage,
)

from . import soundness
from .place import Place, ReadLevel

T = TypeVar("T")

LIST_PAGE: Final = 100
"""Checkpoints per request of a listing without a limit."""

ANY_VIEW: Final = 1
"""The bound of an eventual read: a view that holds at least the log's first record. A view that
is not there at all is never taken for an empty one."""


class Reader:
    """Asks the view what the saver wants to know, from where the read level demands on."""

    def __init__(self, log: EventLog, view: CheckpointView, catch_up: CatchUp) -> None:
        self._log = log
        self._view = view
        self._catch_up = catch_up
        # All that this saver, its clones and its sync twin had acknowledged or have read.
        self._seen: dict[int, int] = {}

    def saw(self, partition: int, next_offset: int) -> None:
        """Note that everything below `next_offset` was acknowledged to us, or read by us."""
        if next_offset > self._seen.get(partition, 0):
            self._seen[partition] = next_offset

    async def thread(self, thread_id: str, level: ReadLevel) -> ThreadRecord | None:
        """Return a thread's record."""
        name = thread_hash(thread_id)
        partition = self._log.partition_of(thread_id)
        return await self._ask(partition, level, partial(self._view.thread, partition, thread=name))

    async def checkpoint(
        self, place: Place, level: ReadLevel
    ) -> tuple[ThreadRecord | None, StoredCheckpoint | None]:
        """Return a checkpoint, the newest when the place names none, and its thread."""
        name = thread_hash(place.thread_id)
        partition = self._log.partition_of(place.thread_id)
        ask = partial(
            self._view.checkpoint,
            partition,
            thread=name,
            namespace=place.namespace,
            checkpoint_id=place.checkpoint_id,
        )
        record, stored = await self._ask(partition, level, ask)
        if stored is not None:
            soundness.check(partition, stored)
        return record, stored

    async def is_removed(self, place: Place, level: ReadLevel) -> bool:
        """Tell whether the checkpoint that the place names was removed."""
        name = thread_hash(place.thread_id)
        partition = self._log.partition_of(place.thread_id)
        ask = partial(
            self._view.is_removed,
            partition,
            thread=name,
            namespace=place.namespace,
            checkpoint_id=place.checkpoint_id or "",
        )
        return await self._ask(partition, level, ask)

    async def history(
        self, place: Place, channels: Sequence[str], level: ReadLevel
    ) -> dict[str, StoredHistory]:
        """Walk the ancestors of a checkpoint."""
        name = thread_hash(place.thread_id)
        partition = self._log.partition_of(place.thread_id)
        ask = partial(
            self._view.history,
            partition,
            thread=name,
            namespace=place.namespace,
            checkpoint_id=place.checkpoint_id,
            channels=channels,
        )
        found = await self._ask(partition, level, ask)
        soundness.check_history(partition, place.thread_id, found)
        return found

    async def run(self, run_id: str, level: ReadLevel) -> list[tuple[ThreadRecord, str, str]]:
        """Return (thread, namespace, checkpoint id) of every checkpoint of a run."""
        found: list[tuple[ThreadRecord, str, str]] = []
        for partition, bound in (await self._bounds(self.partitions(), level)).items():
            ask = partial(self._view.run, partition, run_id=run_id)
            found += await self._at(partition, bound, ask)
        return found

    async def exported(self, thread_id: str) -> AsyncIterator[Page]:
        """Yield all of a thread's checkpoints, oldest id first, with values and writes."""
        name = thread_hash(thread_id)
        partition = self._log.partition_of(thread_id)
        bounds = await self._bounds([partition], ReadLevel.LINEARIZABLE)
        cursor: bytes | None = None
        while True:
            ask = partial(
                self._view.exported, partition, thread=name, cursor=cursor, limit=LIST_PAGE
            )
            page = await self._at(partition, bounds[partition], ask)
            for stored in page.checkpoints:
                soundness.check(partition, stored)
            yield page
            cursor = page.cursor
            if cursor is None:
                return

    async def checkpoints(
        self,
        selection: Selection,
        thread_id: str | None,
        level: ReadLevel,
        *,
        limit: int | None,
        with_values: bool = True,
    ) -> AsyncIterator[StoredCheckpoint]:
        """Yield checkpoints, greatest id first, over all partitions that may hold some.

        Raises:
            ThreadParkedError: At the end, if parked threads were met and left out.
        """
        partitions = self.partitions() if thread_id is None else [self._log.partition_of(thread_id)]
        bounds = await self._bounds(partitions, level)
        parked: list[tuple[int, ThreadRecord]] = []
        sources = [
            self._pages(
                partition, bound, selection, limit=limit, with_values=with_values, parked=parked
            )
            for partition, bound in bounds.items()
        ]
        if len(sources) == 1:
            async for stored in sources[0]:
                yield stored
        else:
            async for stored in _merged(sources):
                yield stored
        _raise_parked(parked)

    async def threads(
        self, cursors: dict[int, bytes | None], level: ReadLevel, *, limit: int
    ) -> dict[int, ThreadPage]:
        """Return the next threads of each partition that `cursors` names (None: from the front)."""
        bounds = await self._bounds(list(cursors), level)

        async def page(partition: int, bound: int) -> ThreadPage:
            ask = partial(self._view.threads, partition, cursor=cursors[partition], limit=limit)
            return await self._at(partition, bound, ask)

        pages = await asyncio.gather(*[page(p, bound) for p, bound in bounds.items()])
        return dict(zip(bounds, pages, strict=True))

    def partitions(self) -> list[int]:
        """Return all partitions."""
        return list(range(self._log.partition_count))

    async def lag(self) -> dict[int, int]:
        """Return per partition how many offsets of the log the view has not applied."""
        end = await self._log.end_position(self.partitions())
        lags: dict[int, int] = {}
        for partition in self.partitions():
            progress = await self._view.progress(partition)
            applied = 0 if progress is None else progress.next_offset
            lags[partition] = max(0, end.next_offset(partition) - applied)
        return lags

    async def _pages(
        self,
        partition: int,
        bound: int,
        selection: Selection,
        *,
        limit: int | None,
        with_values: bool,
        parked: list[tuple[int, ThreadRecord]],
    ) -> AsyncIterator[StoredCheckpoint]:
        cursor: bytes | None = None
        size = LIST_PAGE if limit is None else min(limit, LIST_PAGE)
        while True:
            ask = partial(
                self._view.checkpoints,
                partition,
                selection=selection,
                cursor=cursor,
                limit=size,
                with_values=with_values,
            )
            page = await self._at(partition, bound, ask)
            parked += [(partition, record) for record in page.parked]
            for stored in page.checkpoints:
                soundness.check(partition, stored)
                yield stored
            cursor = page.cursor
            if cursor is None:
                return

    async def _ask(
        self, partition: int, level: ReadLevel, query: Callable[[int], Awaitable[Answer[T]]]
    ) -> T:
        if level is ReadLevel.LINEARIZABLE:
            bound = (await self._log.end_position((partition,))).next_offset(partition)
        elif level is ReadLevel.SESSION:
            bound = self._seen.get(partition, 0)
        else:
            bound = ANY_VIEW
        return await self._at(partition, max(bound, ANY_VIEW), query)

    async def _bounds(self, partitions: Sequence[int], level: ReadLevel) -> dict[int, int]:
        if level is ReadLevel.LINEARIZABLE:
            position = await self._log.end_position(partitions)
        elif level is ReadLevel.SESSION:
            position = Position(self._seen)
        else:
            position = Position()
        return {p: max(position.next_offset(p), ANY_VIEW) for p in partitions}

    async def _at(
        self, partition: int, bound: int, query: Callable[[int], Awaitable[Answer[T]]]
    ) -> T:
        answer = await self._catch_up.read(partition, bound, query)
        self.saw(partition, answer.applied)
        return answer.value


async def _merged(
    sources: Sequence[AsyncIterator[StoredCheckpoint]],
) -> AsyncIterator[StoredCheckpoint]:
    """Merge listings that are each newest id first; equal ids in the order of the partitions."""
    heap: list[tuple[_Descending, int, StoredCheckpoint]] = []
    for number, source in enumerate(sources):
        if (first := await anext(source, None)) is not None:
            heap.append((_Descending(first.checkpoint_id), number, first))
    heapq.heapify(heap)
    while heap:
        _, number, stored = heap[0]
        yield stored
        following = await anext(sources[number], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (_Descending(following.checkpoint_id), number, following))


class _Descending(str):
    """A text that sorts in reverse."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def parked_error(partition: int, record: ThreadRecord) -> ThreadParkedError:
    """Return the error that reading a parked thread raises."""
    offset, reason = record.parked or (0, "")
    name = record.thread_id or ""
    return ThreadParkedError(name, partition=partition, offset=offset, reason=reason)


def _raise_parked(parked: list[tuple[int, ThreadRecord]]) -> None:
    if not parked:
        return
    errors = [parked_error(partition, record) for partition, record in parked]
    for other in errors[1:]:
        errors[0].add_note(f"also left out: {other}")
    raise errors[0]
