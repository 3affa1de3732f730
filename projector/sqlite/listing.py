"""Listings, page by page. A cursor is the last member that a page has looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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

from .answers import Place, newest, refuse_parked, stored, thread_record
from .tables import END, Range, Snapshot, prefixed

MAX_EXAMINED: Final = 2000
"""Index entries that one page looks at; then it ends, however few of them were wanted."""


@dataclass(frozen=True, slots=True)
class _Found:
    """An index entry, read."""

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
    places: list[Place] = []
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
    return Page(
        _present(stored(view, places, with_values=with_values)), rest, list(parked.values())
    )


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
        return _Found(scope[:HASH_BYTES], scope[HASH_BYTES:], namespace, checkpoint_id)
    thread, epoch = key[1 : 1 + HASH_BYTES], key[-EPOCH_BYTES:]
    if selection.namespace is None:
        checkpoint_id, namespace = split_timeline_member(member)
    else:
        namespace = selection.namespace
        checkpoint_id = member[len(namespace_prefix(namespace)) :].decode()
    return _Found(thread, epoch, namespace, checkpoint_id)


def _visible(
    view: Snapshot,
    entries: Sequence[_Found],
    selection: Selection,
    parked: dict[bytes, ThreadRecord],
) -> list[Place]:
    """Return where the entries of live scopes lie; gather the parked threads among them."""
    records = view.threads([entry.thread for entry in entries])
    places: list[Place] = []
    for entry in entries:
        record = records.get(entry.thread)
        if record is None or record.epoch != entry.epoch:
            continue
        if selection.namespace is not None and entry.namespace != selection.namespace:
            continue
        if record.parked is not None:
            parked[entry.thread] = record
            continue
        places.append(Place(entry.thread, record, entry.namespace, entry.checkpoint_id))
    return places


def threads(view: Snapshot, *, cursor: bytes | None, limit: int) -> ThreadPage:
    """Return threads that hold a checkpoint, latest activity first."""
    stop = END if cursor is None else cursor
    members = view.page((RECENT, b"", stop), limit=limit + 1, newest_first=True)
    rest = members[limit - 1] if len(members) > limit else None
    hashes = [member[-HASH_BYTES:] for member in members[:limit]]
    records = view.threads(hashes)
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
    places = [
        Place(thread, record, namespace, checkpoint_id)
        for checkpoint_id, namespace in map(split_timeline_member, members[:limit])
    ]
    rest = members[limit - 1] if len(members) > limit else None
    return Page(_present(stored(view, places, with_values=True)), rest)


def _present(found: Sequence[StoredCheckpoint | None]) -> list[StoredCheckpoint]:
    return [checkpoint for checkpoint in found if checkpoint is not None]
