"""`SqliteView`: the port on one SQLite file. Each call is one job on a connection's OS thread."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import apsw
import msgpack

from eventstore.errors import LogUnavailableError
from eventstore.sqlite import SqliteConnection, SqliteDatabase
from projector.errors import ViewCorruptedError, ViewUnavailableError
from projector.layout import ThreadRecord
from projector.projection import FOLD_VERSION
from projector.view import (
    Answer,
    Changes,
    DeletedThreads,
    Loaded,
    Page,
    PendingPage,
    Progress,
    Selection,
    StoredCheckpoint,
    StoredHistory,
    ThreadPage,
    ViewBehindError,
    Wanted,
)

from . import answers, changing, deleted, listing, whole
from .tables import BrokenIndexError, Snapshot, reading

T = TypeVar("T")

UNREADABLE: Final = (ValueError, LookupError, struct.error, msgpack.UnpackException)
"""What reading damaged bytes raises."""

_DISCARDED_AT_ONCE: Final = 1000
"""Rows of a discarded view that one transaction removes."""


class SqliteView:
    """A view in a file, or in memory, that was handed in; it closes nothing but its own reader.

    Several processes may use the file. Applying goes through the one connection that the process
    writes with, reading through a connection of its own.
    """

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._opening = asyncio.Lock()
        self._reader: SqliteConnection | None = None
        """Opened by the first call that reads, under the lock."""

    @property
    def name(self) -> str:
        """Return the file's name."""
        return f"the view in {self._database.name}"

    async def setup(self) -> None:
        """Create the tables that are missing. Idempotent."""
        await self._write(changing.create)

    async def progress(self, partition: int) -> Progress | None:
        """Return how far a partition's view has come, None when it has none."""
        return await self._read(partition, lambda view: None if view is None else view.progress)

    async def begin(self, partition: int, start: Progress) -> bool:
        """Start a partition's view from nothing, if it has none; return whether it had none."""
        return await self._write(partial(changing.begin, partition=partition, start=start))

    async def discard(self, partition: int) -> None:
        """Forget a partition's view: its progress first and at once, the rest in small steps."""
        await self._write(partial(changing.forget, partition=partition))
        while await self._write(partial(changing.clear, limit=_DISCARDED_AT_ONCE)):
            pass

    async def load(self, partition: int, wanted: Wanted) -> Loaded:
        """Read state and progress in one atomic step."""
        return await self._read(partition, partial(whole.load, wanted=wanted))

    async def apply(
        self, partition: int, *, expected: Progress, changes: Changes, reached: Progress
    ) -> bool:
        """Apply changes if the progress still is `expected`; return whether it was."""
        return await self._write(
            partial(
                changing.apply,
                partition=partition,
                expected=expected,
                changes=changes,
                reached=reached,
            )
        )

    async def sweep(self, partition: int, *, limit: int = 200) -> bool:
        """Remove up to `limit` unreachable entries; return whether there is more to remove."""
        try:
            return await self._write(partial(changing.sweep, partition=partition, limit=limit))
        except UNREADABLE as error:
            raise ViewCorruptedError(
                self.name, partition=partition, reason=f"unreadable bytes: {error!r}"
            ) from error

    async def deleted_threads(
        self, partition: int, *, cursor: bytes | None, limit: int
    ) -> DeletedThreads:
        """Look at about `limit` threads; return those that were deleted."""
        return await self._read(
            partition, partial(deleted.deleted_threads, cursor=cursor, limit=limit)
        )

    async def pending(self, partition: int, *, cursor: bytes | None, limit: int) -> PendingPage:
        """Return up to `limit` entries of what no event has named yet."""
        return await self._read(partition, partial(deleted.pending, cursor=cursor, limit=limit))

    async def dump(self, partition: int) -> dict[bytes, dict[bytes, bytes]]:
        """Return everything reachable in a partition."""
        return await self._read(partition, lambda view: {} if view is None else whole.dump(view))

    async def close(self) -> None:
        """Close the connection for reading. Idempotent."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await self._database.release(reader)

    async def thread(
        self, partition: int, bound: int, thread: bytes
    ) -> Answer[ThreadRecord | None]:
        """Return a thread's record."""
        return await self._ask(partition, bound, partial(answers.thread_record, thread=thread))

    async def checkpoint(
        self,
        partition: int,
        bound: int,
        *,
        thread: bytes,
        namespace: str,
        checkpoint_id: str | None,
    ) -> Answer[tuple[ThreadRecord | None, StoredCheckpoint | None]]:
        """Return a checkpoint, the one with the greatest id when none is named, and its thread."""
        question = partial(
            answers.checkpoint, thread=thread, namespace=namespace, checkpoint_id=checkpoint_id
        )
        return await self._ask(partition, bound, question)

    async def is_removed(
        self, partition: int, bound: int, *, thread: bytes, namespace: str, checkpoint_id: str
    ) -> Answer[bool]:
        """Tell whether a checkpoint of this id was removed in the thread's present life."""
        question = partial(
            answers.is_removed, thread=thread, namespace=namespace, checkpoint_id=checkpoint_id
        )
        return await self._ask(partition, bound, question)

    async def checkpoints(
        self,
        partition: int,
        bound: int,
        selection: Selection,
        *,
        cursor: bytes | None,
        limit: int,
        with_values: bool,
    ) -> Answer[Page]:
        """Return up to `limit` checkpoints, greatest id first."""
        question = partial(
            listing.checkpoints,
            selection=selection,
            cursor=cursor,
            limit=limit,
            with_values=with_values,
        )
        return await self._ask(partition, bound, question)

    async def history(
        self,
        partition: int,
        bound: int,
        *,
        thread: bytes,
        namespace: str,
        checkpoint_id: str | None,
        channels: Sequence[str],
    ) -> Answer[dict[str, StoredHistory]]:
        """Walk the parents of a checkpoint, removed ones too, until each channel has a value."""
        question = partial(
            answers.history,
            thread=thread,
            namespace=namespace,
            checkpoint_id=checkpoint_id,
            channels=channels,
        )
        return await self._ask(partition, bound, question)

    async def threads(
        self, partition: int, bound: int, *, cursor: bytes | None, limit: int
    ) -> Answer[ThreadPage]:
        """Return up to `limit` threads that hold a checkpoint, latest activity first."""
        return await self._ask(
            partition, bound, partial(listing.threads, cursor=cursor, limit=limit)
        )

    async def run(
        self, partition: int, bound: int, *, run_id: str
    ) -> Answer[Sequence[tuple[ThreadRecord, str, str]]]:
        """Return (thread, namespace, checkpoint id) of every visible checkpoint of a run."""
        return await self._ask(partition, bound, partial(listing.run, run_id=run_id))

    async def exported(
        self, partition: int, bound: int, *, thread: bytes, cursor: bytes | None, limit: int
    ) -> Answer[Page]:
        """Return up to `limit` of a thread's checkpoints, oldest id first, for copying."""
        question = partial(listing.exported, thread=thread, cursor=cursor, limit=limit)
        return await self._ask(partition, bound, question)

    async def _ask(
        self, partition: int, bound: int, question: Callable[[Snapshot], T]
    ) -> Answer[T]:
        def answer(view: Snapshot | None) -> Answer[T]:
            # What another fold version made is no view of ours.
            if view is None or view.progress.fold_version != FOLD_VERSION:
                raise ViewBehindError(0)
            applied = view.progress.next_offset
            if applied < bound:
                raise ViewBehindError(applied)
            return Answer(applied, question(view))

        return await self._read(partition, answer)

    async def _read(self, partition: int, question: Callable[[Snapshot | None], T]) -> T:
        def job(connection: apsw.Connection) -> T:
            with reading(connection, partition) as view:
                return question(view)

        try:
            async with self._opening:
                reader = self._reader
                if reader is None:
                    reader = self._reader = await self._database.reader()
            return await reader.run(job)
        except LogUnavailableError as error:
            raise ViewUnavailableError(self.name, reason=error.reason) from error
        except BrokenIndexError as error:
            raise ViewCorruptedError(self.name, partition=partition, reason=str(error)) from error
        except UNREADABLE as error:
            raise ViewCorruptedError(
                self.name, partition=partition, reason=f"unreadable bytes: {error!r}"
            ) from error

    async def _write(self, job: Callable[[apsw.Connection], T]) -> T:
        try:
            writer = await self._database.writer()
            return await writer.run(job)
        except LogUnavailableError as error:
            raise ViewUnavailableError(self.name, reason=error.reason) from error
