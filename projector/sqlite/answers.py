"""The saver's questions, answered from one consistent state of a partition. Reads, never writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from eventstore.events import ChunkedPayload
from projector.chunks import chunk_scope
from projector.errors import ThreadParkedError
from projector.filling import chunked_in, chunked_of, filled, filled_history, size_of
from projector.layout import (
    CHUNKS,
    HIDDEN,
    IDS,
    NO_EVENT,
    REMOVED,
    ROWS,
    VALUES,
    WRITERS,
    WRITES,
    Row,
    StoredWrite,
    ThreadRecord,
    checkpoint_field,
    namespace_prefix,
    stored_writes,
    u64,
    unpack_removed,
    value_field,
    write_member,
)
from projector.values import Lookup, whole
from projector.view import Cell, StoredCheckpoint, StoredHistory, StoredValue

from .tables import BrokenIndexError, Range, Snapshot, prefixed


@dataclass(frozen=True, slots=True)
class Place:
    """Where a checkpoint lies."""

    thread: bytes
    record: ThreadRecord
    namespace: str
    checkpoint_id: str

    @property
    def scope(self) -> bytes:
        """Return the thread's live scope."""
        return self.thread + self.record.epoch

    @property
    def name(self) -> bytes:
        """Return the checkpoint's field."""
        return checkpoint_field(self.namespace, self.checkpoint_id)


def thread_record(view: Snapshot, *, thread: bytes) -> ThreadRecord | None:
    """Return a thread's record.

    Raises:
        ThreadParkedError: The thread is parked.
    """
    record = view.threads([thread]).get(thread)
    if record is not None:
        refuse_parked(view, record)
    return record


def refuse_parked(view: Snapshot, record: ThreadRecord) -> None:
    """Raise for a parked thread.

    Raises:
        ThreadParkedError: It is.
    """
    if record.parked is not None:
        offset, reason = record.parked
        raise ThreadParkedError(
            record.thread_id or "", partition=view.partition, offset=offset, reason=reason
        )


def checkpoint(
    view: Snapshot, *, thread: bytes, namespace: str, checkpoint_id: str | None
) -> tuple[ThreadRecord | None, StoredCheckpoint | None]:
    """Return one checkpoint, the one with the greatest id when none is named, and its thread."""
    record = thread_record(view, thread=thread)
    if record is None:
        return None, None
    if checkpoint_id is not None:
        place = Place(thread, record, namespace, checkpoint_id)
        return record, stored(view, [place], with_values=True)[0]
    newest_id = _newest_ids(view, [(thread, record)], namespace)[0]
    if newest_id is None:
        return record, None
    place = Place(thread, record, namespace, newest_id)
    return record, indexed(view, [place], with_values=True)[0]


def is_removed(view: Snapshot, *, thread: bytes, namespace: str, checkpoint_id: str) -> bool:
    """Tell whether a checkpoint of this id was removed in the thread's present life."""
    record = thread_record(view, thread=thread)
    if record is None:
        return False
    place = Place(thread, record, namespace, checkpoint_id)
    return _was_removed(view.cell(REMOVED + place.scope, place.name))


def newest(
    view: Snapshot, threads: Sequence[tuple[bytes, ThreadRecord]], namespace: str
) -> list[StoredCheckpoint | None]:
    """Return each thread's newest checkpoint of a namespace, without values and writes."""
    ids = _newest_ids(view, threads, namespace)
    places = [
        Place(thread, record, namespace, checkpoint_id)
        for (thread, record), checkpoint_id in zip(threads, ids, strict=True)
        if checkpoint_id is not None
    ]
    found = iter(indexed(view, places, with_values=False))
    return [None if checkpoint_id is None else next(found) for checkpoint_id in ids]


def indexed(
    view: Snapshot, places: Sequence[Place], *, with_values: bool, most_bytes: int | None = None
) -> list[StoredCheckpoint]:
    """Return the checkpoints at places that an index names; the first ones beyond `most_bytes`.

    Raises:
        BrokenIndexError: One of them is not there.
    """
    found: list[StoredCheckpoint] = []
    answer = stored(view, places, with_values=with_values, most_bytes=most_bytes)
    for place, checkpoint in zip(places, answer, strict=False):
        if checkpoint is None:
            raise BrokenIndexError(f"there is no checkpoint {place.checkpoint_id!r}")
        found.append(checkpoint)
    return found


def stored(
    view: Snapshot, places: Sequence[Place], *, with_values: bool, most_bytes: int | None = None
) -> list[StoredCheckpoint | None]:
    """Return the checkpoints at these places, None where there is none.

    Only the first ones once they have more than `most_bytes`.
    """
    cells = view.cells([(ROWS + place.scope, place.name) for place in places])
    rows: list[Row | None] = []
    for place in places:
        data = cells[ROWS + place.scope, place.name]
        rows.append(None if data is None else Row.unpack(data))
    known = [(place, row) for place, row in zip(places, rows, strict=True) if row is not None]
    wanted = [cell for place, row in known for cell in _parent_cells(place, row)]
    if with_values:
        wanted.extend(cell for known_row in known for _, _, cell in _value_cells(*known_row))
    cells = view.cells(wanted)
    writes: Iterator[Sequence[StoredWrite]] = (
        iter(_writes(view, known)) if with_values else repeat(())
    )
    answer: list[StoredCheckpoint | None] = []
    size = 0
    for place, row in zip(places, rows, strict=True):
        if row is None:
            answer.append(None)
            continue
        if most_bytes is not None and size > most_bytes:
            break
        look_up = _look_up(view, place.thread, place.record)
        values = {
            channel: StoredValue(offset, _assembled(channel, cells[cell], look_up))
            for channel, offset, cell in (_value_cells(place, row) if with_values else ())
        }
        checkpoint = StoredCheckpoint(
            place.record,
            place.namespace,
            place.checkpoint_id,
            row,
            _parent_is_removed(place, row, cells),
            values,
            next(writes),
        )
        chunked = chunked_of(checkpoint, with_body=with_values)
        checkpoint = filled(checkpoint, _contents(chunked, look_up))
        answer.append(checkpoint)
        size += size_of(checkpoint)
    return answer


def history(
    view: Snapshot,
    *,
    thread: bytes,
    namespace: str,
    checkpoint_id: str | None,
    channels: Sequence[str],
) -> dict[str, StoredHistory]:
    """Walk a checkpoint's parents, removed ones too, until each channel has a value."""
    record = thread_record(view, thread=thread)
    if record is not None and checkpoint_id is None:
        checkpoint_id = _newest_ids(view, [(thread, record)], namespace)[0]
    if record is None or checkpoint_id is None or not channels:
        return {channel: StoredHistory([], None) for channel in channels}
    chain, ends = _ancestors(view, Place(thread, record, namespace, checkpoint_id), set(channels))
    seeds = {
        channel: (VALUES + thread + record.epoch, value_field(ref, channel))
        for channel, (_, ref) in ends.items()
        if isinstance(ref, int)
    }
    cells = view.cells(list(seeds.values()))
    writes = _writes(view, chain)
    answer: dict[str, StoredHistory] = {}
    look_up = _look_up(view, thread, record)
    for channel in channels:
        length, ref = ends.get(channel, (len(chain), None))
        steps: list[tuple[bytes, Sequence[StoredWrite]]] = []
        for (_, row), of_row in zip(chain[:length], writes, strict=False):
            of_channel = [write for write in of_row if write.channel == channel]
            if of_channel:
                steps.append((row.event_id, of_channel))
        if isinstance(ref, int):
            seed = _assembled(channel, cells[seeds[channel]], look_up)
            answer[channel] = StoredHistory(steps, StoredValue(ref, seed))
        else:
            answer[channel] = StoredHistory(steps, None, ref)
    contents = _contents(chunked_in(answer.values()), look_up)
    return {channel: filled_history(each, contents) for channel, each in answer.items()}


def _ancestors(
    view: Snapshot, start: Place, channels: set[str]
) -> tuple[list[tuple[Place, Row]], dict[str, tuple[int, int | str]]]:
    """Return the ancestors that were needed, and where each channel's walk ended, if it did.

    An end is (how many ancestors the walk passed, the offset of the value or why there is none).
    """
    data = view.cell(ROWS + start.scope, start.name)
    chain: list[tuple[Place, Row]] = []
    ends: dict[str, tuple[int, int | str]] = {}
    row = None if data is None else Row.unpack(data)
    # A checkpoint may have been put again under one of its own descendants: a ring has no root.
    seen: set[tuple[bytes, int]] = set() if row is None else {(row.event_id, row.offset)}
    left = set(channels)
    while row is not None and row.parent_id is not None and left:
        place = replace(start, checkpoint_id=row.parent_id)
        row = _present_or_removed(view, place)
        if row is None or (row.event_id, row.offset) in seen:
            break
        seen.add((row.event_id, row.offset))
        chain.append((place, row))
        for channel in sorted(left):
            _, ref = row.channels.get(channel, (0, None))
            if ref is not None:
                ends[channel] = (len(chain), ref if isinstance(ref, int) else ref.missing)
                left.discard(channel)
    return chain, ends


def _present_or_removed(view: Snapshot, place: Place) -> Row | None:
    present, removed = (ROWS + place.scope, place.name), (REMOVED + place.scope, place.name)
    cells = view.cells([present, removed])
    data, last = cells[present], cells[removed]
    if data is None and last is not None:
        data = view.cell(HIDDEN + place.scope, unpack_removed(last)[1])
    return None if data is None else Row.unpack(data)


def _newest_ids(
    view: Snapshot, threads: Sequence[tuple[bytes, ThreadRecord]], namespace: str
) -> list[str | None]:
    prefix = namespace_prefix(namespace)
    ranges: list[Range] = [
        prefixed(IDS + thread + record.epoch, prefix) for thread, record in threads
    ]
    return [
        None if member is None else member[len(prefix) :].decode()
        for member in view.last_members(ranges)
    ]


def _parent_cells(place: Place, row: Row) -> list[Cell]:
    if row.parent_id is None:
        return []
    name = checkpoint_field(place.namespace, row.parent_id)
    return [(ROWS + place.scope, name), (REMOVED + place.scope, name)]


def _parent_is_removed(place: Place, row: Row, cells: dict[Cell, bytes | None]) -> bool:
    found = [cells[cell] for cell in _parent_cells(place, row)]
    return bool(found) and found[0] is None and _was_removed(found[1])


def _was_removed(data: bytes | None) -> bool:
    # The entry of an id that did not exist when it was to be removed names no event.
    return data is not None and unpack_removed(data)[1] != NO_EVENT


def _value_cells(place: Place, row: Row) -> list[tuple[str, int, Cell]]:
    return [
        (channel, ref, (VALUES + place.scope, value_field(ref, channel)))
        for channel, (_, ref) in row.channels.items()
        if isinstance(ref, int)
    ]


def _look_up(view: Snapshot, thread: bytes, record: ThreadRecord) -> Lookup:
    """Return what looks up the cells of a thread's present life."""
    live, chunks = thread + record.epoch, chunk_scope(thread, record.incarnation)

    def look_up(fields: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        wanted = [
            (letter + (chunks if letter == CHUNKS else live), name) for letter, name in fields
        ]
        cells = view.cells(wanted)
        return [cells[cell] for cell in wanted]

    return look_up


def _assembled(channel: str, data: bytes | None, look_up: Lookup) -> bytes | None:
    """Return a stored value with all its parts, None when one of them is missing."""
    return None if data is None else whole(data, channel, look_up)


def _contents(payloads: Sequence[ChunkedPayload], look_up: Lookup) -> dict[int, bytes | None]:
    """Return the bytes of the chunks of some payloads."""
    offsets = list(dict.fromkeys([offset for each in payloads for offset, _ in each.chunks]))
    if not offsets:
        return {}
    found = look_up([(CHUNKS, u64(offset)) for offset in offsets])
    return dict(zip(offsets, found, strict=True))


def _writes(view: Snapshot, rows: Sequence[tuple[Place, Row]]) -> list[list[StoredWrite]]:
    """Return the writes on each checkpoint, in the life that its row is of."""
    found = view.members(
        [
            prefixed(
                WRITERS + place.scope,
                write_member(place.namespace, place.checkpoint_id, row.life, ""),
            )
            for place, row in rows
        ]
    )
    cells = view.cells(
        [
            (WRITES + place.scope, member)
            for (place, _), members in zip(rows, found, strict=True)
            for member in members
        ]
    )
    answer: list[list[StoredWrite]] = []
    for (place, _), members in zip(rows, found, strict=True):
        writes: list[StoredWrite] = []
        for member in members:
            data = cells[WRITES + place.scope, member]
            if data is None:
                raise BrokenIndexError("a task's writes are missing")
            writes.extend(stored_writes(member, data))
        answer.append(writes)
    return answer
