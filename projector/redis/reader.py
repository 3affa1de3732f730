"""The reading half: one script call per question, bound check and data in one atomic step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from projector.errors import ThreadParkedError, ViewUnavailableError
from projector.filling import size_of
from projector.layout import (
    NEWEST,
    ThreadRecord,
    checkpoint_field,
    namespace_prefix,
    run_prefix,
    split_run_member,
)
from projector.projection import FOLD_VERSION
from projector.view import (
    Answer,
    Page,
    Selection,
    StoredCheckpoint,
    StoredHistory,
    ThreadPage,
    ViewBehindError,
)

from . import scripts
from .answers import Walk, checkpoint_of, listed, read_from, records_of
from .fetching import Fetcher, MovedError
from .keys import KeySpace
from .scripts import Script
from .server import Server
from .spans import Span, export_span, span_of

MAX_PAGE: Final = 250
"""Entries of one listing call: what Redis answers within a few milliseconds."""
MAX_PAGE_WITH_VALUES: Final = 100
MAX_RUN_PAGE: Final = 2_000
PAGE_BYTES: Final = 8 * 1024 * 1024
"""Once its values and writes take more, a page ends early."""
ATTEMPTS: Final = 8
"""How often an answer is begun that takes several calls: its thread may be deleted in between."""

_LONGER: Final = 4
"""How many times longer the calls of a walk are that begins again."""

T = TypeVar("T")

_FOLD = b"%d" % FOLD_VERSION
_SCOPE_BYTES = 32


class RedisReader:
    """Answers the saver's questions."""

    def __init__(self, server: Server, keys: KeySpace) -> None:
        self._server = server
        self._keys = keys

    async def thread(
        self, partition: int, bound: int, thread: bytes
    ) -> Answer[ThreadRecord | None]:
        """See `ViewReader`."""
        applied, data, _ = await self._ask(scripts.THREAD, partition, bound, thread)
        return Answer(applied, self._record(partition, data))

    async def is_removed(
        self, partition: int, bound: int, *, thread: bytes, namespace: str, checkpoint_id: str
    ) -> Answer[bool]:
        """See `ViewReader`."""
        field = checkpoint_field(namespace, checkpoint_id)
        applied, data, found = await self._ask(scripts.THREAD, partition, bound, thread, field)
        self._record(partition, data)
        return Answer(applied, bool(found))

    async def checkpoint(
        self,
        partition: int,
        bound: int,
        *,
        thread: bytes,
        namespace: str,
        checkpoint_id: str | None,
    ) -> Answer[tuple[ThreadRecord | None, StoredCheckpoint | None]]:
        """See `ViewReader`."""
        place = [thread, namespace_prefix(namespace)]
        named = [] if checkpoint_id is None else [checkpoint_id.encode()]

        async def attempt(
            scale: int,
        ) -> Answer[tuple[ThreadRecord | None, StoredCheckpoint | None]]:
            applied, data, found_id, reply = await self._ask(
                scripts.CHECKPOINT, partition, bound, *place, b"%d" % scale, *named
            )
            record = self._record(partition, data)
            if record is None or found_id is None:
                return Answer(applied, (record, None))
            fetcher = self._fetcher(partition, applied, thread, record)
            with read_from(self._server.name, partition):
                if reply is not None:
                    await fetcher.complete(reply)
                found = checkpoint_of(record, namespace, found_id.decode(), reply)
                found = await fetcher.filled(found, with_body=True)
            return Answer(applied, (record, found))

        return await self._in_one_state(attempt)

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
        """See `ViewReader`."""
        span = span_of(selection, cursor)
        page = partial(self._page, partition, bound, span, limit=limit, with_values=with_values)
        return await self._in_one_state(page)

    async def exported(
        self, partition: int, bound: int, *, thread: bytes, cursor: bytes | None, limit: int
    ) -> Answer[Page]:
        """See `ViewReader`."""
        span = export_span(thread, cursor)
        page = partial(self._page, partition, bound, span, limit=limit, with_values=True)
        return await self._in_one_state(page)

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
        """See `ViewReader`. A long walk takes several calls, in one state of the thread.

        When the thread changes between two of them, the walk begins again in longer calls. So a
        busy thread gets its answer too: sooner or later the whole walk is one call.
        """
        start = [thread, namespace_prefix(namespace)]
        start += [b"latest", b""] if checkpoint_id is None else [b"id", checkpoint_id.encode()]
        scale = 1
        while True:
            answer = await self._walk(Walk(channels), partition, bound, start, scale)
            if answer is not None:
                return answer
            scale *= _LONGER

    async def _walk(
        self, walk: Walk, partition: int, bound: int, start: Sequence[bytes], scale: int
    ) -> Answer[dict[str, StoredHistory]] | None:
        """Walk to the end; return None when the thread has changed meanwhile."""
        place = start
        while True:
            opened = [channel.encode() for channel in walk.open]
            applied, data, mark, following, ancestors, begin = await self._ask(
                scripts.HISTORY, partition, bound, *place, b"%d" % scale, *opened
            )
            record = self._record(partition, data)
            # Of a thread that was deleted once, notes also go away: one may come while one goes.
            loses_notes = record is not None and record.incarnation > 0
            if not walk.stays_in((mark, applied if loses_notes else None)):
                return None
            if begin is not None:
                walk.begin(begin)
            if record is None:
                return Answer(applied, walk.result())
            fetcher = self._fetcher(partition, applied, place[0], record)
            try:
                await fetcher.complete_walk(ancestors, mark)
                if not walk.add(ancestors) or following is None:
                    return Answer(applied, await fetcher.filled_histories(walk.result()))
            except MovedError:
                return None
            place = [*start[:2], b"parent", following]

    async def threads(
        self, partition: int, bound: int, *, cursor: bytes | None, limit: int
    ) -> Answer[ThreadPage]:
        """See `ViewReader`."""
        start = b"+" if cursor is None else b"(" + cursor
        count = b"%d" % min(limit, MAX_PAGE)
        applied, following, parked, entries = await self._ask(
            scripts.THREADS, partition, bound, start, count
        )
        found: list[tuple[ThreadRecord, StoredCheckpoint | None]] = []
        with read_from(self._server.name, partition):
            for data, checkpoint_id, reply in entries:
                record = ThreadRecord.unpack(data)
                newest: StoredCheckpoint | None = None
                if checkpoint_id is not None:
                    newest = checkpoint_of(record, "", checkpoint_id.decode(), reply)
                found.append((record, newest))
            page = ThreadPage(found, following, [ThreadRecord.unpack(data) for data in parked])
        return Answer(applied, page)

    async def run(
        self, partition: int, bound: int, *, run_id: str
    ) -> Answer[Sequence[tuple[ThreadRecord, str, str]]]:
        """See `ViewReader`. Raises `ThreadParkedError` if one of its threads is parked."""
        prefix = run_prefix(run_id)
        # A scope follows the prefix, which may begin with any byte.
        start, stop = b"[" + prefix, b"(" + prefix + b"\xff" * (_SCOPE_BYTES + 1)
        count, size = b"%d" % MAX_RUN_PAGE, b"%d" % len(prefix)
        found: list[tuple[ThreadRecord, str, str]] = []
        while True:
            applied, following, flat, members = await self._ask(
                scripts.RUN, partition, bound, start, stop, count, size
            )
            threads = records_of(flat)
            for record in threads.values():
                self._refuse_parked(partition, record)
            for member in members:
                scope, namespace, checkpoint_id = split_run_member(member)
                found.append((threads[scope[:16]], namespace, checkpoint_id))
            if following is None:
                return Answer(applied, found)
            start = b"(" + following

    async def _page(
        self, partition: int, bound: int, span: Span, scale: int, *, limit: int, with_values: bool
    ) -> Answer[Page]:
        args = [span.index, span.thread or b"", span.command, span.start, span.stop]
        most = MAX_PAGE_WITH_VALUES if with_values else MAX_PAGE
        args += [b"%d" % min(limit, most), b"1" if with_values else b"0", b"%d" % scale]
        if span.index == NEWEST and span.namespace is not None:
            args.append(span.namespace.encode())
        applied, following, records, parked, entries = await self._ask(
            scripts.LIST, partition, bound, *args
        )
        with read_from(self._server.name, partition):
            passed_over = [ThreadRecord.unpack(data) for data in parked]
            if span.thread is not None:
                for record in passed_over:
                    self._refuse_parked(partition, record)
            threads = records_of(records)
            found: list[StoredCheckpoint] = []
            size = 0
            for entry in entries:
                if size > PAGE_BYTES:
                    following = entries[len(found) - 1][1]
                    break
                thread, _, reply = entry
                fetcher = self._fetcher(partition, applied, thread, threads[thread])
                if with_values and reply is not None:
                    await fetcher.complete(reply)
                checkpoint = listed(span.index, span.namespace, threads, entry)
                found.append(await fetcher.filled(checkpoint, with_body=with_values))
                size += size_of(found[-1])
        return Answer(applied, Page(found, following, passed_over))

    def _fetcher(
        self, partition: int, applied: int, thread: bytes, record: ThreadRecord
    ) -> Fetcher:
        """Return what fetches more of a thread's life than an answer holds that had `applied`."""
        ask = partial(self._ask, scripts.CELLS, partition, applied)
        return Fetcher(ask, thread, record, applied)

    async def _in_one_state(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """Return an answer that may take several calls, all parts of it of one state.

        When something changes between two of them it begins again in larger calls: sooner or later
        all that may change comes in the first one.
        """
        for number in range(ATTEMPTS):
            try:
                return await attempt(_LONGER**number)
            except MovedError:
                continue
        raise ViewUnavailableError(
            self._server.name, reason=f"what is read was deleted meanwhile, {ATTEMPTS} times"
        )

    async def _ask(self, script: Script, partition: int, bound: int, *args: bytes) -> list[Any]:
        """Return (position, facts…) of a view that covers the bound."""
        reply: list[Any] = await self._server.call(
            script, [self._keys.meta(partition)], [_FOLD, b"%d" % bound, *args]
        )
        if not reply[0]:
            raise ViewBehindError(int(reply[1]))
        return [int(reply[1]), *reply[2:]]

    def _record(self, partition: int, data: bytes | None) -> ThreadRecord | None:
        if data is None:
            return None
        with read_from(self._server.name, partition):
            record = ThreadRecord.unpack(data)
        self._refuse_parked(partition, record)
        return record

    def _refuse_parked(self, partition: int, record: ThreadRecord) -> None:
        if record.parked is not None:
            offset, reason = record.parked
            raise ThreadParkedError(
                record.thread_id or "", partition=partition, offset=offset, reason=reason
            )
