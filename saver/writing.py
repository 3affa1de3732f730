"""Writer: every append of the saver, in the order of the calls and with the right incarnation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from langchain_core.runnables import RunnableConfig

from eventstore.events import (
    CheckpointSaved,
    CheckpointsDeleted,
    Event,
    NewEvent,
    ThreadDeleted,
    WritesSaved,
    new_event_id,
)
from eventstore.log import Appended, EventLog
from projector.filling import size_of
from projector.view import StoredCheckpoint

from .bases import Base, Bases
from .encoding import LARGE_BYTES, Encoder
from .errors import ThreadDeletedError
from .lineage import Known, Lineage
from .mapping import CheckpointDraft, TaskWrites, known_of, writes_event
from .opening import opened_values
from .order import CallOrder
from .place import Place, ReadLevel
from .reading import Reader
from .serde import Serde
from .uploading import MAX_INLINE_BYTES, inline_size, upload


class Writer:
    """Appends what the saver is told. Each method ends when the log has acknowledged it."""

    def __init__(
        self,
        log: EventLog,
        reader: Reader,
        lineage: Lineage,
        bases: Bases,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        self._log = log
        self._reader = reader
        self._lineage = lineage
        self._bases = bases
        # Sets everything up at the first call; awaited within a turn, so that it delays, and does
        # not change, the order of the calls.
        self._ready = ready
        self._order = CallOrder()
        # Who waits for the end of a put that is under way, by its event id. Emptied by that put.
        self._waiting: dict[bytes, list[asyncio.Future[None]]] = {}
        # Deletions of this saver that are handed over and not acknowledged, by thread: what is
        # called behind one belongs to the life that it begins. Emptied by `delete_thread`.
        self._deleting: dict[str, list[asyncio.Future[None]]] = {}

    # Thousands of calls wait for the log at the same time. While they do, nothing is kept of what
    # they append: live objects by the hundred thousand cost more in garbage collection than all of
    # the rest.

    async def put(self, draft: CheckpointDraft) -> RunnableConfig:
        """Append a checkpoint; return its config."""
        place = draft.place
        own, stored, appending = await self._hand_over(draft)
        del draft
        try:
            at = await appending
            await self._saw(at)
            if stored:
                known = self._bases.acknowledged(place.thread_id, stored, at.offset)
                own.values = {**own.values, **known}
            own.is_confirmed = True
        except Exception:
            name = place.thread_id, place.namespace, place.checkpoint_id or ""
            self._lineage.forget(*name, own.event_id)
            raise
        finally:
            self._lineage.ended(own)
            for waiter in self._waiting.pop(own.event_id, ()):
                if not waiter.done():
                    waiter.set_result(None)
        return place.config()

    async def put_writes(self, place: Place, parts: TaskWrites) -> None:
        """Append a task's writes on the checkpoint that `place` names."""
        appending = await self._hand_over_writes(place, parts)
        del parts
        await self._saw(await appending)

    async def _hand_over(
        self, draft: CheckpointDraft
    ) -> tuple[Known, dict[str, Base], Awaitable[Appended]]:
        place = draft.place
        async with self._order.enter(place.thread_id):
            await self._ready()
            incarnation, parent = await self._continued(draft)
            event_id = new_event_id()
            encoder = Encoder(draft, event_id, parent, self._bases)
            if draft.size > LARGE_BYTES:
                event = await asyncio.to_thread(encoder.event, incarnation)
            else:
                event = encoder.event(incarnation)
            appending = await self._append(place.thread_id, event, event_id)
            own = Known(
                incarnation,
                event_id,
                draft.versions,
                {} if parent is None else parent.values,
                is_confirmed=False,
                is_under_way=True,
                sources=encoder.sources,
            )
            self._lineage.remember(place.thread_id, place.namespace, event.checkpoint_id, own)
        return own, encoder.stored, appending

    async def _hand_over_writes(self, place: Place, parts: TaskWrites) -> Awaitable[Appended]:
        checkpoint_id = place.checkpoint_id or ""
        began_at = self._lineage.time
        async with self._order.enter(place.thread_id):
            await self._ready()
            await self._deletions(place.thread_id)
            known = self._lineage.get(place.thread_id, place.namespace, checkpoint_id)
            if known is None:
                # A quick task's writes come before its checkpoint is put, which waits for the put
                # of the one before: they belong to the same run, and that goes on in one life.
                known = self._lineage.under_way(place.thread_id, since=began_at)
            if known is None:
                incarnation = await self._present(place.thread_id)
            else:
                incarnation = known.incarnation
            event_id = new_event_id()
            make = partial(writes_event, place, parts, event_id=event_id, incarnation=incarnation)
            is_work = parts.serde.sealer is not None and parts.size > LARGE_BYTES
            event = await asyncio.to_thread(make) if is_work else make()
            return await self._append(place.thread_id, event, event_id)

    async def _append(self, thread_id: str, event: Event, event_id: bytes) -> Awaitable[Appended]:
        """Hand an event to the log, whatever its size."""
        if (
            isinstance(event, CheckpointSaved | WritesSaved)
            and inline_size(event) > MAX_INLINE_BYTES
        ):
            return await upload(self._log, thread_id, event, event_id)
        return self._log.append(NewEvent(thread_id, event, event_id))

    async def delete_thread(self, thread_id: str) -> None:
        """Append the deletion of a thread; what the saver knew of it is forgotten."""
        async with self._order.enter(thread_id):
            await self._ready()
            appending = self._log.append(NewEvent(thread_id, ThreadDeleted()))
            over = asyncio.get_running_loop().create_future()
            self._deleting.setdefault(thread_id, []).append(over)
        try:
            place = await appending
            if place.offset is not None:
                self._lineage.saw_deletion(thread_id, place.offset)
        finally:
            # Also when the outcome is unknown: what is read anew carries the right incarnation.
            self._lineage.forget_thread(thread_id)
            self._deleting[thread_id].remove(over)
            if not self._deleting[thread_id]:
                del self._deleting[thread_id]
            over.set_result(None)
        await self._saw(place)

    def forget(self, thread_id: str) -> None:
        """Forget what the saver knew of a thread."""
        self._lineage.forget_thread(thread_id)

    async def delete_checkpoints(
        self, thread_id: str, incarnation: int, checkpoints: Sequence[tuple[str, str]]
    ) -> None:
        """Append the removal of checkpoints, given as (namespace, checkpoint id)."""
        event = CheckpointsDeleted(incarnation, tuple(checkpoints))
        async with self._order.enter(thread_id):
            appending = self._log.append(NewEvent(thread_id, event))
        await self._saw(await appending)

    async def append_all(
        self, thread_id: str, events: Sequence[tuple[bytes, Event]]
    ) -> list[Appended]:
        """Append (event id, event) pairs of a thread one behind the other; return their places."""
        appending: list[Awaitable[Appended]] = []
        async with self._order.enter(thread_id):
            for event_id, event in events:
                appending.append(await self._append(thread_id, event, event_id))
        places = await asyncio.gather(*appending)
        for place in places:
            await self._saw(place)
        return places

    async def _continued(self, draft: CheckpointDraft) -> tuple[int, Known | None]:
        """Return the incarnation of what a put continues, and the parent it may inherit from."""
        place, known = draft.place, draft.parent
        await self._deletions(place.thread_id)
        if draft.parent_id is None:
            return await self._present(place.thread_id), None
        if known is None:
            # It may have become known while this call waited for its turn.
            known = self._lineage.get(place.thread_id, place.namespace, draft.parent_id)
        deleted_at = self._lineage.deleted_at(place.thread_id)
        if known is not None and known.incarnation < deleted_at:
            # Deleted while this call waited for its turn.
            raise ThreadDeletedError(
                place.thread_id, deleted_at=deleted_at, parent_id=draft.parent_id
            )
        if known is not None and not known.is_confirmed and not draft.is_self_contained:
            await self._acknowledged(known)
        if known is None or not (known.is_confirmed or draft.is_self_contained):
            return await self._read_parent(draft, draft.parent_id)
        return known.incarnation, known if known.is_confirmed else None

    async def _read_parent(
        self, draft: CheckpointDraft, parent_id: str
    ) -> tuple[int, Known | None]:
        place = Place(draft.place.thread_id, draft.place.namespace, parent_id)
        record, stored = await self._reader.checkpoint(place, ReadLevel.LINEARIZABLE)
        if record is not None:
            self._lineage.saw_deletion(place.thread_id, record.incarnation)
        if stored is not None:
            known = await self._known(draft.serde, place.thread_id, stored)
            self._lineage.remember(place.thread_id, place.namespace, parent_id, known)
            return known.incarnation, known
        if record is None:
            return 0, None
        if record.incarnation and not await self._reader.is_removed(place, ReadLevel.LINEARIZABLE):
            raise ThreadDeletedError(
                place.thread_id, deleted_at=record.incarnation, parent_id=parent_id
            )
        return record.incarnation, None

    async def _known(self, serde: Serde, thread_id: str, stored: StoredCheckpoint) -> Known:
        def warmed() -> dict[str, int]:
            opened = opened_values(serde, thread_id, stored)
            return self._bases.warm(thread_id, stored, opened)

        is_large = size_of(stored) > LARGE_BYTES
        return known_of(stored, await asyncio.to_thread(warmed) if is_large else warmed())

    async def _present(self, thread_id: str) -> int:
        record = await self._reader.thread(thread_id, ReadLevel.LINEARIZABLE)
        if record is None:
            return 0
        self._lineage.saw_deletion(thread_id, record.incarnation)
        return record.incarnation

    async def _deletions(self, thread_id: str) -> None:
        """Wait until no deletion of a thread that was called earlier is under way."""
        for over in list(self._deleting.get(thread_id, ())):
            await asyncio.shield(over)

    async def _acknowledged(self, known: Known) -> None:
        if known.is_under_way:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(known.event_id, []).append(waiter)
            await waiter

    async def _saw(self, place: Appended) -> None:
        if place.offset is not None:
            self._reader.saw(place.partition, place.offset + 1)
            return
        # Stored, and the log did not tell where: somewhere in front of its present end.
        end = await self._log.end_position((place.partition,))
        self._reader.saw(place.partition, end.next_offset(place.partition))
