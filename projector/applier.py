"""Brings a view forward: load, fold, apply by compare-and-set, and again when someone was faster.

Anyone may do it at any time: the projector that holds the lease, one that lost it without noticing,
a reader that does not want to wait. Nothing here owns a partition; the view's compare-and-set is
what keeps it right, and the locks below only avoid double work inside one process.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from eventstore.errors import LogIdentityError, LogTruncatedError
from eventstore.log import EventLog, LogBatch, LogIdentity

from .batch import wanted_after, wanted_by
from .entries import MAX_BYTES, MAX_ENTRIES, Chunk, Cutter, entry_of, event_id_of
from .errors import ProjectionHaltedError, ViewVersionError
from .layout import NO_EVENT
from .poison import FOLD_FAILURES, blame_view
from .projection import FOLD_VERSION, fold
from .state import State
from .view import Loaded, Progress, ViewWriter

GENERATION_BYTES: Final = 8
UNKNOWN_LOG_ID: Final = bytes(16)
"""Log id of a view that was made from a log without its first record."""

logger = logging.getLogger("langgraph_checkpoint_kafka.projector")


class Applier:
    """Applies the log to the view. Safe for any number of tasks, and of processes beside it."""

    def __init__(
        self,
        log: EventLog,
        view: ViewWriter,
        *,
        max_entries: int = MAX_ENTRIES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._log = log
        self._view = view
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        # Held for one step of work on a partition, never for a whole restore: whoever waits looks
        # at the view again before it works itself. Cancelling the holder lets the next one go on.
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        # What the view was last seen at, by partition. Only a guess of where to cut: each load
        # brings the truth.
        self._seen: dict[int, Progress] = {}
        # The generation of each partition that was found to belong to this log.
        self._verified: dict[int, bytes] = {}

    async def apply(self, batch: LogBatch) -> int:
        """Apply a batch of the log, as far as the view lacks it; return the view's next offset.

        What the view has applied already is passed over. A batch that begins beyond the view's next
        offset is left alone: read on from what is returned. 0 when the partition has no view.

        Raises:
            ProjectionHaltedError: The first event that the view lacks is from the future. What
                stands in front of one is applied, and the offset returned is that of the event.
            LogIdentityError, ViewVersionError: It is not this log's view.
        """
        async with self._locks[batch.partition]:
            return await self._apply(batch)

    async def advance(
        self,
        partition: int,
        bound: int,
        *,
        may_replace: bool = False,
        on_progress: Callable[[int], object] | None = None,
    ) -> int:
        """Bring a partition's view to `bound` or beyond; return its next offset.

        A missing view is begun. `bound` must not be beyond the log's end. `may_replace` lets it
        discard the view of an older fold version, which is a projector's business. `on_progress` is
        told the view's next offset after every step.

        Raises:
            ProjectionHaltedError: An event from the future stands in front of the bound.
            LogIdentityError: The view was built from another log.
            LogTruncatedError: Records that the view lacks are gone from the log.
            ViewVersionError: The view was made by another fold version.
        """
        reached = -1
        while True:
            async with self._locks[partition]:
                if reached < 0:
                    reached = await self._open(partition, may_replace=may_replace)
                if on_progress is not None:
                    on_progress(reached)
                if reached >= bound:
                    return reached
                batch = await self._log.read(partition, reached, bound)
                reached = await self._apply(batch)
            if reached <= batch.start:
                # Someone discarded the view, or it was lost, or a newer program is at work.
                reached = -1

    async def open(self, partition: int, *, may_replace: bool = False) -> int:
        """Make sure that a partition has a view of this log; return its next offset.

        Raises:
            LogIdentityError, LogTruncatedError, ViewVersionError: As `advance`.
        """
        async with self._locks[partition]:
            return await self._open(partition, may_replace=may_replace)

    def hurry(self) -> None:
        """Let whoever applies what this process tails go on at once."""
        self._log.hurry()

    async def end(self, partition: int) -> int:
        """Return the log's end; see `EventLog.end_position`."""
        return (await self._log.end_position([partition])).next_offset(partition)

    async def discard(self, partition: int, *, accepts_loss: bool = False) -> None:
        """Forget a partition's view, whatever it is, so that it is made anew.

        `accepts_loss` begins it at once from what is left of a log whose front is gone.
        """
        async with self._locks[partition]:
            self.recheck(partition)
            before = await self._view.progress(partition)
            await self._view.discard(partition)
            if not accepts_loss:
                return
            try:
                await self._log.identity(partition)
            except LogTruncatedError as error:
                # The record that names the log is gone too: only the view knew its id.
                identity = LogIdentity(UNKNOWN_LOG_ID, self._log.partition_count)
                if before is not None:
                    identity = before.identity
                logger.warning("partition %d: what is lost is accepted: %s", partition, error)
                await self._view.begin(partition, _beginning(identity, error.first))

    def recheck(self, partition: int) -> None:
        """Verify again, before the next step, that the view belongs to the log.

        To be called when the log or the view was out of reach: it may be another one now.
        """
        self._seen.pop(partition, None)
        self._verified.pop(partition, None)

    async def _open(self, partition: int, *, may_replace: bool) -> int:
        while True:
            progress = await self._view.progress(partition)
            if progress is None:
                await self._begin(partition)
            elif may_replace and progress.fold_version < FOLD_VERSION:
                logger.warning(
                    "partition %d: the view of fold version %d is discarded and made anew by "
                    "version %d",
                    partition,
                    progress.fold_version,
                    FOLD_VERSION,
                )
                await self._view.discard(partition)
            else:
                await self._verify(partition, progress)
                self._seen[partition] = progress
                return progress.next_offset

    async def _begin(self, partition: int) -> None:
        identity = await self._log.identity(partition)
        if await self._view.begin(partition, _beginning(identity, 0)):
            logger.info("partition %d: a new view begins", partition)

    async def _verify(self, partition: int, progress: Progress) -> None:
        """Raise unless the view is this log's and this fold's. Asks the log once a generation."""
        if progress.fold_version != FOLD_VERSION:
            raise ViewVersionError(
                self._view.name,
                partition=partition,
                found=progress.fold_version,
                expected=FOLD_VERSION,
            )
        if self._verified.get(partition) == progress.generation:
            return
        try:
            identity = await self._log.identity(partition)
        except LogTruncatedError as error:
            if progress.next_offset < error.first:
                raise LogTruncatedError(
                    partition, wanted=progress.next_offset, first=error.first
                ) from error
            # The view has all that is gone; nothing is missing until it has to be made anew.
            logger.warning("partition %d: %s", partition, error)
        else:
            if identity != progress.identity:
                raise LogIdentityError(
                    partition, expected=_named(progress.identity), found=_named(identity)
                )
        await self._verify_last(partition, progress)
        self._verified[partition] = progress.generation

    async def _verify_last(self, partition: int, progress: Progress) -> None:
        """Compare the last record that the view applied with what the log holds in its place."""
        last = progress.next_offset - 1
        end = await self.end(partition)
        if progress.next_offset > end:
            raise LogIdentityError(
                partition,
                expected=f"the records below offset {progress.next_offset}, which the view has",
                found=f"a log that ends at offset {end}",
            )
        first = await self._log.first_position([partition])
        if last < first.next_offset(partition):
            return
        batch = await self._log.read(partition, last, last + 1)
        # The record may be gone (compacted) or have no key; then there is nothing to compare.
        for record in batch.records:
            if record.offset == last and record.key is not None:
                found = event_id_of(entry_of(record))
                if found != progress.last_event_id:
                    raise LogIdentityError(
                        partition,
                        expected=f"event {progress.last_event_id.hex()} at offset {last}",
                        found=f"event {found.hex()}",
                    )

    async def _apply(self, batch: LogBatch) -> int:
        partition = batch.partition
        cutter = Cutter(batch, max_entries=self._max_entries, max_bytes=self._max_bytes)
        progress = self._seen.get(partition)
        if progress is None or not _is_in(batch, progress):
            # By what was last seen there is nothing to do; that may be old, and the view lost.
            progress = await self._look(partition)
        has_worked = False
        while progress is not None and _is_in(batch, progress):
            try:
                chunk = cutter.chunk(progress.next_offset)
            except ProjectionHaltedError:
                latest = await self._look(partition)
                if latest == progress:
                    if has_worked:
                        break
                    raise
                progress = latest
                continue
            progress = await self._step(partition, cutter, chunk, progress)
            has_worked = True
        return 0 if progress is None else progress.next_offset

    async def _step(
        self, partition: int, cutter: Cutter, chunk: Chunk, seen: Progress
    ) -> Progress | None:
        """Apply one chunk to the view as it was seen; return where the view is now.

        That is not behind the chunk when the view was found elsewhere, or when the chunk cannot be
        folded: cut again from there.
        """
        await self._verify(partition, seen)
        loaded = await self._load(partition, chunk, seen)
        if loaded.progress != seen:
            return self._note(partition, loaded.progress)
        try:
            changes = fold(chunk.entries, State(loaded.threads, loaded.cells))
        except FOLD_FAILURES as error:
            blame_view(self._view.name, partition, loaded.cells, error)
            cutter.failed(chunk, reason=f"it cannot be folded: {error!r}")
            return seen
        reached = replace(
            seen,
            next_offset=chunk.next_offset,
            last_event_id=chunk.last_event_id or seen.last_event_id,
        )
        if await self._view.apply(partition, expected=seen, changes=changes, reached=reached):
            return self._note(partition, reached)
        return await self._look(partition)

    async def _load(self, partition: int, chunk: Chunk, seen: Progress) -> Loaded:
        """Return all state that a chunk needs, or another progress than `seen` and no use of it."""
        if not chunk.entries:
            return Loaded(seen, {}, {})
        first = await self._view.load(partition, wanted_by(chunk.entries))
        if first.progress != seen:
            return first
        try:
            more = wanted_after(chunk.entries, State(first.threads, first.cells))
        except FOLD_FAILURES as error:
            blame_view(self._view.name, partition, first.cells, error)
            raise
        if more is None:
            return first
        second = await self._view.load(partition, more)
        return Loaded(second.progress, first.threads, {**first.cells, **second.cells})

    async def _look(self, partition: int) -> Progress | None:
        return self._note(partition, await self._view.progress(partition))

    def _note(self, partition: int, progress: Progress | None) -> Progress | None:
        if progress is None:
            self._seen.pop(partition, None)
        else:
            self._seen[partition] = progress
        return progress


def _is_in(batch: LogBatch, progress: Progress) -> bool:
    return batch.start <= progress.next_offset < batch.next_offset


def _beginning(identity: LogIdentity, next_offset: int) -> Progress:
    generation = os.urandom(GENERATION_BYTES)
    return Progress(generation, FOLD_VERSION, identity, next_offset, NO_EVENT)


def _named(identity: LogIdentity) -> str:
    return f"log {identity.log_id.hex()} with {identity.partitions} partitions"
