"""Which partition holds a thread: Kafka's own murmur2, as every Java client computes it."""

from __future__ import annotations

from functools import lru_cache

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MIX = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Return the hash that Kafka's default partitioner uses, as an unsigned 32-bit integer."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        value = (value * _MIX & _MASK) ^ word
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15


@lru_cache(maxsize=16_384)
def partition_for(thread_id: str, partitions: int) -> int:
    """Return the partition of a thread: murmur2 of its id in UTF-8, made positive, modulo."""
    return (murmur2(thread_id.encode()) & 0x7FFFFFFF) % partitions
