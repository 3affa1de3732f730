"""A fetched run of record batches → records of the log, and where to go on."""

from __future__ import annotations

from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.record.memory_records import MemoryRecords

from eventstore.errors import CorruptEventError
from eventstore.log import LogBatch, LogRecord


def unpack(data: bytes, partition: int, start: int, *, stop: int | None = None) -> LogBatch:
    """Return the records of `[start, stop)` in fetched bytes, with where to go on.

    Control records (transaction markers) and offsets that compaction emptied hold nothing that a
    reader sees; `next_offset` passes them. A batch that is cut off at the end is left for the next
    fetch.

    Raises:
        CorruptEventError: A batch's checksum is wrong, or it cannot be unpacked.
    """
    records: list[LogRecord] = []
    position = start
    batches: Any = MemoryRecords(data)
    while batches.has_next() and (stop is None or position < stop):
        try:
            batch = batches.next_batch()
            if not batch.validate_crc():
                raise CorruptEventError(partition, position, reason="wrong checksum")
            if not batch.is_control_batch:
                records.extend(_records(batch, partition, start, stop))
            # The batch keeps its last offset when compaction removes its last record.
            position = max(position, int(batch.next_offset))
        except (KafkaError, ValueError) as error:
            raise CorruptEventError(partition, position, reason=f"bad batch: {error}") from error
    if stop is not None:
        position = min(position, stop)
    return LogBatch(partition, start, records, position)


def _records(batch: Any, partition: int, start: int, stop: int | None) -> list[LogRecord]:
    return [
        LogRecord(
            partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            # Kafka lets a header have no value; nothing of ours does.
            tuple([(name, value or b"") for name, value in record.headers]),
        )
        for record in batch
        # A batch is given whole, also when only its last record is wanted.
        if record.offset >= start and (stop is None or record.offset < stop)
    ]


def split(batch: LogBatch, size: int) -> list[LogBatch]:
    """Return the same records as batches of at most `size`, without a hole between them."""
    records = batch.records
    if len(records) <= size:
        return [batch]
    parts: list[LogBatch] = []
    start = batch.start
    for first in range(0, len(records), size):
        some = records[first : first + size]
        is_last = first + size >= len(records)
        stop = batch.next_offset if is_last else some[-1].offset + 1
        parts.append(LogBatch(batch.partition, start, some, stop))
        start = stop
    return parts
