"""A tail recognises what its own process appended, and never anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from msgspec.structs import replace

from eventstore.codec import decode, encode
from eventstore.events import NewEvent, Payload, ThreadDeleted, Write, WritesSaved
from eventstore.log import LogBatch, LogRecord
from eventstore.own import MAX_BODY_BYTES, MAX_EVENTS, OwnEvents
from tests.event_strategies import new_events


def writes(data: bytes = b"x") -> NewEvent:
    event = WritesSaved("", "1", "task", "", 0, (Write(0, "c", Payload("bytes", data)),))
    return NewEvent("thread", event)


def record_of(new: NewEvent, offset: int = 7) -> LogRecord:
    encoded = encode(new)
    return LogRecord(2, offset, 1_000, encoded.key, encoded.value, tuple(encoded.headers))


def noted(own: OwnEvents, *events: NewEvent) -> list[LogRecord]:
    """Note events as a log does, and return their records."""
    for new in events:
        own.note(encode(new), new)
    return [record_of(new) for new in events]


def recognised(own: OwnEvents, *records: LogRecord) -> list[LogRecord]:
    return list(own.recognised(LogBatch(2, 7, records, 8)).records)


@given(new_events())
def test_recognised_event_is_the_decoded_one(new: NewEvent) -> None:
    """Whatever the event, what a tail recognises equals what decoding its record gives."""
    own = OwnEvents()
    with own:
        (record,) = noted(own, new)
        (found,) = recognised(own, record)
    assert found.event in (None, decode(record))
    assert (found.event is None) == (encode(new).body_size > MAX_BODY_BYTES)
    assert replace(found, event=None) == record


def test_each_record_is_recognised_once() -> None:
    """What was met is forgotten: a tail that goes back decodes."""
    own = OwnEvents()
    with own:
        (record,) = noted(own, writes())
        assert recognised(own, record)[0].event is not None
        assert recognised(own, record)[0].event is None


@pytest.mark.parametrize("changed", [{"value": b"\x80"}, {"value": None}, {"key": None}])
def test_other_record_is_not_recognised(changed: dict[str, bytes | None]) -> None:
    """A key alone is not enough, and a tombstone is no event."""
    own = OwnEvents()
    with own:
        (record,) = noted(own, writes())
        assert recognised(own, replace(record, **changed))[0].event is None


def test_nothing_is_kept_without_a_tail() -> None:
    """A process that only appends remembers nothing, nor does one whose last tail has ended."""
    own = OwnEvents()
    (record,) = noted(own, writes())
    with own:
        assert recognised(own, record)[0].event is None
        noted(own, writes())
        with own:
            pass
        assert own._events
    assert not own._events


def test_memory_is_bounded() -> None:
    """The oldest events are forgotten first, and large ones are not kept, however compressible."""
    own = OwnEvents()
    with own:
        records = noted(own, *(writes() for _ in range(MAX_EVENTS + 1)))
        assert len(own._events) == MAX_EVENTS
        assert recognised(own, records[0])[0].event is None
        assert recognised(own, records[1])[0].event is not None
        large = writes(bytes(MAX_BODY_BYTES))
        assert len(encode(large).value) < MAX_BODY_BYTES
        assert recognised(own, *noted(own, large))[0].event is None


def test_deletion_is_recognised_with_its_thread() -> None:
    """An event without fields of its own keeps its thread and its id."""
    own = OwnEvents()
    new = NewEvent("thread", ThreadDeleted())
    with own:
        (found,) = recognised(own, *noted(own, new))
    assert found.event is not None
    assert (found.event.thread_id, found.event.event_id) == ("thread", new.event_id)
