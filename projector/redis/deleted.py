"""Walks over what is to be erased from the log: deleted threads, and what nothing names."""

from __future__ import annotations

from typing import Any

from projector.layout import PENDING, RECORDS, THREADS, ThreadRecord
from projector.noted import Noted, unpack_noted
from projector.pending import unpack_pending
from projector.view import DeletedThread, DeletedThreads, PendingPage

from .server import Server


async def deleted_threads(
    server: Server, base: bytes, *, cursor: bytes | None, limit: int
) -> DeletedThreads:
    """Return those of about `limit` threads that were deleted; the cursor is HSCAN's.

    Read in steps: a thread's notes may be newer than its record, and what is gone by then has been
    erased.
    """
    following, threads = await _page(server, base + THREADS, cursor or b"0", limit)
    found: list[DeletedThread] = []
    for thread, data in threads.items():
        record = ThreadRecord.unpack(data)
        if record.incarnation:
            is_complete, notes = await _notes(server, base + RECORDS + thread, limit)
            if notes:
                found.append(DeletedThread(thread, record, notes, is_complete))
    return DeletedThreads(found, None if following == b"0" else following)


async def pending(server: Server, base: bytes, *, cursor: bytes | None, limit: int) -> PendingPage:
    """Return about `limit` entries; the cursor is HSCAN's."""
    following, page = await _page(server, base + PENDING, cursor or b"0", limit)
    entries = [unpack_pending(*each) for each in page.items()]
    return PendingPage(entries, None if following == b"0" else following)


async def _notes(server: Server, key: bytes, limit: int) -> tuple[bool, list[Noted]]:
    """Return whether all was met, and about `limit` notes: none only if there is none."""
    cursor, notes = b"0", dict[bytes, bytes]()
    while True:
        # Where much was removed, a step may meet nothing.
        cursor, notes = await _page(server, key, cursor, limit)
        if notes or cursor == b"0":
            return cursor == b"0", [unpack_noted(*each) for each in notes.items()]


async def _page(
    server: Server, key: bytes, cursor: bytes, limit: int
) -> tuple[bytes, dict[bytes, bytes]]:
    answer: list[Any] = await server.command(b"HSCAN", key, cursor, b"COUNT", b"%d" % limit)
    following, flat = answer
    return following, dict(zip(flat[::2], flat[1::2], strict=True))
