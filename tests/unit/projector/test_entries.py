"""Records as the fold's entries."""

from __future__ import annotations

import pytest

from eventstore.codec import encode
from eventstore.events import Event, LogNudged, LogStarted, NewEvent, ThreadErased
from eventstore.log import LogBatch, LogRecord
from projector.batch import Erased, Unreadable
from projector.entries import Cutter, entry_of, event_id_of, pack_record, unpack_record
from projector.layout import NO_EVENT
from tests.contracts.view_suite import saved
from tests.projections import corrupt, nameless


def record_of(new: NewEvent, offset: int = 7) -> LogRecord:
    encoded = encode(new)
    headers = tuple(encoded.headers)
    return LogRecord(3, offset, 1_000, encoded.key, encoded.value, headers)


def test_packed_record_is_unpacked_as_it_was() -> None:
    """What waits in a parked thread can be applied later as if it came from the log."""
    record = record_of(saved("thread", "1", {"channel": b"value"}))
    assert unpack_record(3, 7, pack_record(record)) == record


def test_unreadable_record_keeps_its_names() -> None:
    """The thread and the event id are those of the key."""
    new = saved("thread", "1")
    entry = entry_of(corrupt(record_of(new)))
    assert isinstance(entry, Unreadable)
    assert (entry.thread_id, event_id_of(entry), entry.offset) == ("thread", new.event_id, 7)


@pytest.mark.parametrize(
    "event", [LogNudged(), LogStarted(b"x" * 16, 1), ThreadErased(b"x" * 16, 5)]
)
def test_unreadable_housekeeping_parks_nobody(event: Event) -> None:
    """A corrupt event of no thread names no thread, whatever stands in its key."""
    entry = entry_of(corrupt(record_of(NewEvent(None, event))))
    assert isinstance(entry, Unreadable)
    assert entry.thread_id is None


def test_foreign_tombstone_names_nothing() -> None:
    """A tombstone whose key is not one of ours is passed."""
    record = nameless(record_of(saved("thread", "1")))
    entry = entry_of(LogRecord(3, 7, 1_000, record.key, None, ()))
    assert entry == Erased(7, None, NO_EVENT, 0)


def test_chunk_passes_the_gap_behind_it() -> None:
    """The last chunk of a batch reaches to where the next batch begins, the others to their end."""
    records = [record_of(saved("thread", f"{offset}"), offset) for offset in (3, 5, 9)]
    cutter = Cutter(LogBatch(0, 2, records, 20), max_entries=2)
    chunks = [cutter.chunk(start) for start in (2, 6, 10)]
    assert [(len(chunk.entries), chunk.next_offset) for chunk in chunks] == [
        (2, 6),
        (1, 20),
        (0, 20),
    ]
