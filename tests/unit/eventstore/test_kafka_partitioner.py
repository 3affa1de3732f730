"""A thread's partition is the one that every Java client computes."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import partitioner as aiokafka_partitioner
from hypothesis import given
from hypothesis import strategies as st

from eventstore.kafka.partitioner import murmur2, partition_for


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_that_of_kafkas_own_tests(data: bytes, expected: int) -> None:
    """The values stand in Kafka's `UtilsTest.testMurmur2`."""
    assert murmur2(data) == expected & 0xFFFFFFFF


@given(st.binary(max_size=60))
def test_hash_is_that_of_another_implementation(data: bytes) -> None:
    theirs: Any = aiokafka_partitioner
    assert murmur2(data) == theirs.murmur2(data)


def test_partition_is_the_positive_hash_modulo_the_count() -> None:
    """`toPositive(murmur2(utf8(thread id))) % partitions`."""
    assert partition_for("21", 8) == (-973932308 & 0x7FFFFFFF) % 8
    assert partition_for("ü🦜", 5) == (murmur2("ü🦜".encode()) & 0x7FFFFFFF) % 5
    assert partition_for("anything", 1) == 0
