"""Listings, page by page. A cursor is the last member that a page has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from projector.filling import size_of
from projector.layout import (
    EPOCH_BYTES,
    HASH_BYTES,
    IDS,
    NEWEST,
    RECENT,
    RUNS,
    TIMELINE,
    ThreadRecord,
    namespace_prefix,
    ordered,
    run_prefix,
    split_newest_member,
    split_run_member,
    split_timeline_member,
)
from projector.view import Page, Selection, StoredCheckpoint, ThreadPage

from .answers import Place, indexed, newest, refuse_parked, thread_record
from .tables import END, BrokenIndexError, Range, Snapshot, prefixed

MAX_EXAMINED: Final = 2000
"""Index entries that one page looks at; then it ends, however few of them were wanted."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""Once its values and writes take more, a page ends early."""

_READ_AT_FIRST: Final = 4
"""Checkpoints whose values are read before their size is looked at; then twice as many."""


@dataclass(frozen=True, slots=True)
class _Found:
    """An index entry, read."""

    member: bytes
    thread: bytes
    epoch: bytes
    namespace: str
    checkpoint_id: str


def checkpoints(
    view: Snapshot, *, selection: Selection, cursor: bytes | None, limit: int, with_values: bool
) -> Page:
    """Return checkpoints, greatest id first."""
    record = None
    if selection.thread is not None:
        record = thread_record(view, thread=selection.thread)
        if record is None:
            return Page([], None)
    key, start, stop = _narrowed(selection, record)
    if cursor is not None:
        stop = min(stop, cursor)
    places: list[tuple[bytes, Place]] = []
    parked: dict[bytes, ThreadRecord] = {}
    examined = 0
    rest: bytes | None = None
    while len(places) < limit and examined < MAX_EXAMINED:
        wanted = limit - len(places)
        # One more than wanted tells whether anything follows.
        members = view.page((key, start, stop), limit=wanted + 1, newest_first=True)
        rest = members[wanted - 1] if len(members) > wanted else None
        entries = [_read(key, member, selection) for member in members[:wanted]]
        places.extend(_visible(view, entries, selection, parked))
        if rest is None:
            break
        examined += wanted
        stop = rest
    found, cut = _read_places(view, places, with_values=with_values)
    return Page(found, cut or rest, list(parked.values()))


def _read_places(
    view: Snapshot, places: Sequence[tuple[bytes, Place]], *, with_values: bool
) -> tuple[list[StoredCheckpoint], bytes | None]:
    """Return checkpoints, and the member to go on from when they became too large."""
    found: list[StoredCheckpoint] = []
    size = start = 0
    step = _READ_AT_FIRST if with_values else len(places)
    while start < len(places):
        if size > PAGE_BYTES:
            return found, places[start - 1][0]
        some = [place for _, place in places[start : start + step]]
        read = indexed(view, some, with_values=with_values, most_bytes=PAGE_BYTES - size)
        found += read
        size += sum(map(size_of, read))
        start += len(read)
        step *= 2
    return found, None


def _narrowed(selection: Selection, record: ThreadRecord | None) -> Range:
    """Return the index that a selection is read from, and its range there."""
    if selection.thread is None or record is None:
        key, prefix = NEWEST, b""
    elif selection.namespace is None:
        key, prefix = TIMELINE + selection.thread + record.epoch, b""
    else:
        key = IDS + selection.thread + record.epoch
        prefix = namespace_prefix(selection.namespace)
    is_by_id = key.startswith(IDS)
    encoded = str.encode if is_by_id else ordered
    if selection.checkpoint_id is None:
        wanted = prefixed(key, prefix) if prefix else (key, b"", END)
    elif is_by_id:
        member = prefix + encoded(selection.checkpoint_id)
        wanted = (key, member, member + b"\0")
    else:
        wanted = prefixed(key, encoded(selection.checkpoint_id) + b"\0")
    if selection.before is None:
        return wanted
    return key, wanted[1], min(wanted[2], prefix + encoded(selection.before))


def _read(key: bytes, member: bytes, selection: Selection) -> _Found:
    if key == NEWEST:
        checkpoint_id, scope, namespace = split_newest_member(member)
        return _Found(member, scope[:HASH_BYTES], scope[HASH_BYTES:], namespace, checkpoint_id)
    thread, epoch = key[1 : 1 + HASH_BYTES], key[-EPOCH_BYTES:]
    if selection.namespace is None:
        checkpoint_id, namespace = split_timeline_member(member)
    else:
        namespace = selection.namespace
        checkpoint_id = member[len(namespace_prefix(namespace)) :].decode()
    return _Found(member, thread, epoch, namespace, checkpoint_id)


def _visible(
    view: Snapshot,
    entries: Sequence[_Found],
    selection: Selection,
    parked: dict[bytes, ThreadRecord],
) -> list[tuple[bytes, Place]]:
    """Return where the entries of live scopes lie; gather the parked threads among them."""
    records = view.threads([entry.thread for entry in entries])
    places: list[tuple[bytes, Place]] = []
    for entry in entries:
        record = records.get(entry.thread)
        if record is None or record.epoch != entry.epoch:
            continue
        if selection.namespace is not None and entry.namespace != selection.namespace:
            continue
        if record.parked is not None:
            parked[entry.thread] = record
            continue
        place = Place(entry.thread, record, entry.namespace, entry.checkpoint_id)
        places.append((entry.member, place))
    return places


def threads(view: Snapshot, *, cursor: bytes | None, limit: int) -> ThreadPage:
    """Return threads that hold a checkpoint, latest activity first."""
    stop = END if cursor is None else cursor
    members = view.page((RECENT, b"", stop), limit=limit + 1, newest_first=True)
    rest = members[limit - 1] if len(members) > limit else None
    hashes = [member[-HASH_BYTES:] for member in members[:limit]]
    records = view.threads(hashes)
    if len(records) < len(hashes):
        raise BrokenIndexError("an active thread has no record")
    shown = [(thread, records[thread]) for thread in hashes if records[thread].parked is None]
    found = newest(view, shown, "")
    return ThreadPage(
        [(record, first) for (_, record), first in zip(shown, found, strict=True)],
        rest,
        [records[thread] for thread in hashes if records[thread].parked is not None],
    )


def run(view: Snapshot, *, run_id: str) -> Sequence[tuple[ThreadRecord, str, str]]:
    """Return (thread, namespace, checkpoint id) of every visible checkpoint of a run."""
    members = view.members([prefixed(RUNS, run_prefix(run_id))])[0]
    split = [split_run_member(member) for member in members]
    records = view.threads([scope[:HASH_BYTES] for scope, _, _ in split])
    found: list[tuple[ThreadRecord, str, str]] = []
    for scope, namespace, checkpoint_id in split:
        record = records.get(scope[:HASH_BYTES])
        if record is not None and record.epoch == scope[HASH_BYTES:]:
            refuse_parked(view, record)
            found.append((record, namespace, checkpoint_id))
    return found


def exported(view: Snapshot, *, thread: bytes, cursor: bytes | None, limit: int) -> Page:
    """Return a thread's checkpoints, in the order of its timeline, with values and writes."""
    record = thread_record(view, thread=thread)
    if record is None:
        return Page([], None)
    start = b"" if cursor is None else cursor + b"\0"
    members = view.page(
        (TIMELINE + thread + record.epoch, start, END), limit=limit + 1, newest_first=False
    )
    places: list[tuple[bytes, Place]] = []
    for member in members[:limit]:
        checkpoint_id, namespace = split_timeline_member(member)
        places.append((member, Place(thread, record, namespace, checkpoint_id)))
    rest = members[limit - 1] if len(members) > limit else None
    found, cut = _read_places(view, places, with_values=True)
    return Page(found, cut or rest)
