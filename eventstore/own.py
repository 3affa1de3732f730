"""OwnEvents: what this process has appended a moment ago, so that its own tail need not decode it.

A projector inside a saver's process meets mostly events that the process itself has made: decoding
them again is a tenth of all that such a process does.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from .codec import EncodedEvent
from .events import NewEvent, RecordedEvent
from .log import LogBatch, LogRecord

MAX_EVENTS: Final = 2_048
"""How many are kept until the tail meets them; the oldest are forgotten first."""

MAX_BODY_BYTES: Final = 4_096
"""Larger ones are not kept: all together take less than 20 MB."""


class OwnEvents:
    """Remembers events while somebody tails the log. Used on one event loop."""

    def __init__(self) -> None:
        self._tails = 0
        # Record key → the record's value and its event. A key is unique for ever, and the value is
        # compared: what is recognised is the very record that was made of the event.
        self._events: dict[bytes, tuple[bytes, NewEvent]] = {}

    def __enter__(self) -> None:
        """A tail begins."""
        self._tails += 1

    def __exit__(self, *_: object) -> None:
        """It ends."""
        self._tails -= 1
        if not self._tails:
            self._events.clear()

    def note(self, encoded: EncodedEvent, event: NewEvent) -> None:
        """Take note of an event that is about to be appended."""
        if not self._tails or encoded.body_size > MAX_BODY_BYTES:
            return
        self._events[encoded.key] = (encoded.value, event)
        if len(self._events) > MAX_EVENTS:
            del self._events[next(iter(self._events))]

    def recognised(self, batch: LogBatch) -> LogBatch:
        """Return a batch with the event in each record that this process has made."""
        if not self._events:
            return batch
        records = [self._recognised(record) for record in batch.records]
        return LogBatch(batch.partition, batch.start, records, batch.next_offset)

    def _recognised(self, record: LogRecord) -> LogRecord:
        if record.key is None or record.value is None:
            return record
        value, new = self._events.pop(record.key, (None, None))
        if new is None or value != record.value:
            return record
        event = RecordedEvent(
            record.partition,
            record.offset,
            record.timestamp_ms,
            new.thread_id,
            new.event,
            new.event_id,
            new.part,
        )
        return replace(record, event=event)
