"""Listing threads: pages over all partitions, latest activity first, and their cursors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgpack
from langgraph.checkpoint.base import CheckpointMetadata

from eventstore.codec import thread_hash
from projector.errors import ThreadParkedError
from projector.layout import ThreadRecord, u64
from projector.view import StoredCheckpoint

from .errors import InvalidConfigError
from .listing import matches
from .mapping import metadata_of
from .place import ReadLevel
from .reading import Reader, parked_error
from .serde import Serde

SMALLEST_PAGE = 16
"""Threads per partition and request, at least: fewer cost a request about as much."""

SCAN_PAGE = 200
"""Threads per partition and request, at most."""


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A thread that holds checkpoints."""

    thread_id: str
    last_activity: datetime
    """When the log stored its last checkpoint, or the last removal of one (UTC)."""
    checkpoints: int
    """How many checkpoints it holds, over all namespaces."""
    checkpoint_id: str | None
    """Its newest checkpoint in the root namespace."""
    metadata: CheckpointMetadata
    """That checkpoint's metadata; empty when there is none in the root namespace."""


@dataclass(frozen=True, slots=True)
class Threads:
    """A page of threads, latest activity first."""

    threads: Sequence[ThreadInfo]
    cursor: str | None
    """Pass it as `after` to get the next page; None at the end. Opaque."""
    parked: Sequence[ThreadParkedError] = ()
    """Parked threads that would stand on this page: what reading each of them raises."""


async def list_threads(
    reader: Reader,
    serde: Serde,
    level: ReadLevel,
    *,
    wanted: Mapping[str, Any] | None,
    limit: int,
    after: str | None,
) -> Threads:
    """Return up to `limit` threads whose newest checkpoint's metadata has what is wanted.

    Parked threads are named apart, wanted or not: their metadata cannot be told.

    Raises:
        InvalidConfigError: `after` is not a cursor of this listing, or `limit` is negative.
    """
    if limit < 0:
        raise InvalidConfigError("limit", reason=f"{limit} is negative")
    cursors = dict.fromkeys(reader.partitions()) if after is None else _cursors(after, reader)
    found: list[ThreadInfo] = []
    parked: list[ThreadParkedError] = []
    # A search goes through many that do not match. A page without one takes about an equal share of
    # each partition, and asks again where that was too little.
    share = max(SMALLEST_PAGE, 2 * limit // max(len(cursors), 1))
    size = SCAN_PAGE if wanted else min(limit, share, SCAN_PAGE)
    while cursors and len(found) < limit:
        merged, unfinished = await _next_threads(reader, level, cursors, size)
        for partition, record, newest in merged:
            cursors[partition] = _member(record)
            if record.parked is not None:
                parked.append(parked_error(partition, record))
                continue
            info = _info(serde, record, newest)
            if matches(info.metadata, wanted):
                found.append(info)
            if len(found) == limit:
                break
        else:
            cursors = {partition: cursors[partition] for partition in unfinished}
    return Threads(found, _cursor(cursors) if cursors and limit else None, parked)


async def count_threads(
    reader: Reader,
    serde: Serde,
    level: ReadLevel,
    *,
    wanted: Mapping[str, Any] | None,
) -> int:
    """Return how many threads `list_threads` would give in all, parked ones apart."""
    count = 0
    after: str | None = None
    while True:
        page = await list_threads(reader, serde, level, wanted=wanted, limit=SCAN_PAGE, after=after)
        count += len(page.threads)
        after = page.cursor
        if after is None:
            return count


async def _next_threads(
    reader: Reader, level: ReadLevel, cursors: dict[int, bytes | None], size: int
) -> tuple[list[tuple[int, ThreadRecord, StoredCheckpoint | None]], set[int]]:
    """Return the next threads over all partitions, and the partitions that hold further ones.

    Parked ones are among them. Where a partition has more than it gave, nothing that is older than
    its last one can be placed.
    """
    pages = await reader.threads(cursors, level, limit=size)
    merged: list[tuple[int, ThreadRecord, StoredCheckpoint | None]] = []
    certain = 0
    for partition, page in pages.items():
        given = [*page.threads, *((record, None) for record in page.parked)]
        merged += [(partition, record, newest) for record, newest in given]
        if page.cursor is not None:
            oldest = min((record.activity_ms for record, _ in given), default=0)
            certain = max(certain, oldest)
    merged.sort(key=lambda item: (-item[1].activity_ms, item[0], _sortable(item[1])))
    unfinished = {partition for partition, page in pages.items() if page.cursor is not None}
    placed = [item for item in merged if item[1].activity_ms >= certain]
    unfinished.update(partition for partition, _, _ in merged[len(placed) :])
    return placed, unfinished


def _member(record: ThreadRecord) -> bytes:
    """Return where a thread stands in a partition's order: the view's cursor behind it."""
    return u64(record.activity_ms) + thread_hash(record.thread_id or "")


def _sortable(record: ThreadRecord) -> bytes:
    # Within one partition the view goes through equal times by falling hash.
    return bytes(255 - byte for byte in thread_hash(record.thread_id or ""))


def _info(serde: Serde, record: ThreadRecord, newest: StoredCheckpoint | None) -> ThreadInfo:
    return ThreadInfo(
        record.thread_id or "",
        datetime.fromtimestamp(record.activity_ms / 1000, UTC),
        record.count,
        None if newest is None else newest.checkpoint_id,
        {} if newest is None else metadata_of(serde, record.thread_id or "", newest),
    )


def _cursor(cursors: Mapping[int, bytes | None]) -> str:
    packed: bytes = msgpack.packb({str(partition): cursor for partition, cursor in cursors.items()})
    return base64.urlsafe_b64encode(packed).decode()


def _cursors(after: str, reader: Reader) -> dict[int, bytes | None]:
    try:
        unpacked = msgpack.unpackb(base64.urlsafe_b64decode(after.encode()))
        cursors = {int(partition): cursor for partition, cursor in unpacked.items()}
        is_known = set(cursors) <= set(reader.partitions()) and all(
            cursor is None or isinstance(cursor, bytes) for cursor in cursors.values()
        )
    except (binascii.Error, msgpack.UnpackException, ValueError, AttributeError) as error:
        raise InvalidConfigError("after", reason="not a cursor of a thread listing") from error
    if not is_known:
        raise InvalidConfigError("after", reason="a cursor of another log's thread listing")
    return cursors
