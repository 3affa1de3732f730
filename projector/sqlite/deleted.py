"""Walks over what is to be erased from the log: deleted threads, and what nothing names."""

from __future__ import annotations

from typing import cast

from eventstore.sqlite.statement import rows
from projector.layout import PENDING, RECORDS, THREADS, ThreadRecord
from projector.noted import unpack_noted
from projector.pending import unpack_pending
from projector.view import DeletedThread, DeletedThreads, PendingPage

from .tables import Snapshot

_PAGE = """
    SELECT field, value FROM view1_cell WHERE view = ? AND key = ? AND field > ?
    ORDER BY field LIMIT ?
"""


def deleted_threads(view: Snapshot | None, *, cursor: bytes | None, limit: int) -> DeletedThreads:
    """Return those of the next `limit` threads that were deleted; the cursor is the last one."""
    if view is None:
        return DeletedThreads([], None)
    page = _page(view, THREADS, after=cursor or b"", limit=limit)
    found: list[DeletedThread] = []
    for thread, data in page:
        record = ThreadRecord.unpack(data)
        if record.incarnation:
            # One more than is wanted tells whether there is more.
            noted = _page(view, RECORDS + thread, after=b"", limit=limit + 1)
            if noted:
                notes = [unpack_noted(*each) for each in noted[:limit]]
                found.append(DeletedThread(thread, record, notes, len(noted) <= limit))
    return DeletedThreads(found, page[-1][0] if len(page) == limit else None)


def pending(view: Snapshot | None, *, cursor: bytes | None, limit: int) -> PendingPage:
    """Return the next `limit` entries; the cursor is the last one's field."""
    if view is None:
        return PendingPage([], None)
    page = _page(view, PENDING, after=cursor or b"", limit=limit)
    entries = [unpack_pending(*each) for each in page]
    return PendingPage(entries, page[-1][0] if len(page) == limit else None)


def _page(view: Snapshot, key: bytes, *, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    found = rows(view.connection, _PAGE, (view.number, key, after, limit))
    return cast("list[tuple[bytes, bytes]]", found)
