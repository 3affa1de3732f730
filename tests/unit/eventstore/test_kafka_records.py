"""What a broker's bytes mean: records, gaps, cut-off ends, broken ones; what a refusal means."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
)
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from eventstore.errors import CorruptEventError
from eventstore.kafka.outcome import refusal_in
from eventstore.kafka.records import split, unpack
from eventstore.log import LogBatch, LogRecord


def batch_of(
    first: int, count: int, *, headers: list[tuple[str, bytes | None]] | None = None
) -> bytes:
    """Return the bytes of a batch of `count` records from offset `first` on."""
    builder: Any = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for index in range(count):
        key, value = b"key %d" % (first + index), b"value"
        assert builder.append(index, 1_000, key, value, headers or []) is not None
    data = bytearray(builder.build())
    # The broker sets it; the checksum does not cover it.
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def offsets(batch: LogBatch) -> list[int]:
    return [record.offset for record in batch.records]


def test_records_come_with_where_to_go_on() -> None:
    """A hole between two batches is passed, and the next offset follows the last batch."""
    batch = unpack(batch_of(10, 3) + batch_of(20, 2), 4, 10)
    assert offsets(batch) == [10, 11, 12, 20, 21]
    assert (batch.partition, batch.start, batch.next_offset) == (4, 10, 22)
    assert batch.records[0].key == b"key 10"


def test_only_the_range_is_given() -> None:
    """Batches come whole; what stands in front of the start or behind the stop is left out."""
    data = batch_of(10, 5) + batch_of(15, 5)
    batch = unpack(data, 0, 12, stop=14)
    assert (offsets(batch), batch.next_offset) == ([12, 13], 14)
    batch = unpack(data, 0, 12, stop=17)
    assert (offsets(batch), batch.next_offset) == ([12, 13, 14, 15, 16], 17)


def test_hole_up_to_the_stop_is_passed() -> None:
    """A read whose whole range was compacted away ends at its stop."""
    batch = unpack(batch_of(50, 2), 0, 10, stop=20)
    assert (offsets(batch), batch.next_offset) == ([], 20)


def test_cut_off_batch_is_left_for_the_next_fetch() -> None:
    """A broker cuts its answer anywhere."""
    data = batch_of(10, 3) + batch_of(13, 3)
    for end in (len(data) - 1, len(batch_of(10, 3)) + 5):
        batch = unpack(data[:end], 0, 10)
        assert (offsets(batch), batch.next_offset) == ([10, 11, 12], 13)
    nothing = unpack(b"", 0, 10)
    assert (offsets(nothing), nothing.next_offset) == ([], 10)


def test_header_without_a_value_is_empty() -> None:
    """Other programs may write such; readers of events see bytes."""
    batch = unpack(batch_of(0, 1, headers=[("name", None), ("other", b"x")]), 0, 0)
    assert batch.records[0].headers == (("name", b""), ("other", b"x"))


@pytest.mark.parametrize("position", [30, -2])
def test_broken_bytes_are_never_records(position: int) -> None:
    """A wrong checksum raises with its place."""
    data = bytearray(batch_of(10, 3) + batch_of(13, 3))
    data[position] ^= 0xFF
    with pytest.raises(CorruptEventError) as corrupt:
        unpack(bytes(data), 4, 10)
    assert corrupt.value.partition == 4
    assert corrupt.value.offset in {10, 13}


def test_split_leaves_no_hole() -> None:
    """Parts join, and the last one goes as far as the whole did."""
    records = [LogRecord(0, offset, 0, b"", b"", ()) for offset in (3, 5, 6, 9, 12)]
    whole = LogBatch(0, 1, records, 20)
    parts = split(whole, 2)
    assert [offsets(part) for part in parts] == [[3, 5], [6, 9], [12]]
    assert [(part.start, part.next_offset) for part in parts] == [(1, 6), (6, 10), (10, 20)]
    assert split(whole, 5) == [whole]


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (MessageSizeTooLargeError(), True),
        (TopicAuthorizationFailedError(), True),
        (OutOfOrderSequenceNumber(), False),
        (NotEnoughReplicasError(), False),
        (KafkaError(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refusal_is_told_from_doubt(error: KafkaError, *, is_refusal: bool) -> None:
    """Only an answer that the record was not stored and would not be counts as one."""
    assert (refusal_in(error) is error) == is_refusal
