"""Every key name in Redis, in one place.

A key of a partition is `{<prefix>:<partition>.<n>}:<generation in hex>:<key of the layout>`. What
stands in braces is the hash tag, so all keys of a partition lie in one slot of a Redis Cluster.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from itertools import count
from typing import Final

PREFIX_LIMIT: Final = 249
"""Characters: as many as the name of a Kafka topic may have. Every key repeats the prefix."""

_PREFIX = re.compile(rf"[A-Za-z0-9._-]{{1,{PREFIX_LIMIT}}}")


class KeySpace:
    """The names of one deployment's keys; deployments with different prefixes share a server."""

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(
                f"prefix must be 1 to {PREFIX_LIMIT} letters, digits, dots, underscores or "
                f"hyphens, not {prefix!r}"
            )
        self.prefix = prefix
        self._bases: dict[int, bytes] = {}

    def base(self, partition: int) -> bytes:
        """Return what all keys of a partition begin with."""
        base = self._bases.get(partition)
        if base is None:
            base = b"{" + tag_of(self.prefix, partition) + b"}:"
            self._bases[partition] = base
        return base

    def meta(self, partition: int) -> bytes:
        """Return the key of the progress.

        A hash: g generation (hex), v fold version, i log id, n partition count, o next offset,
        e last event id. Scripts derive all other keys from this one.
        """
        return self.base(partition) + b"meta"

    def retired(self, partition: int) -> bytes:
        """Return the key of the generations to remove: generation (hex) → where its scan is."""
        return self.base(partition) + b"retired"

    def generation(self, partition: int, generation: bytes) -> bytes:
        """Return what all keys of a generation begin with."""
        return self.base(partition) + generation.hex().encode() + b":"


def tag_of(prefix: str, partition: int) -> bytes:
    """Return a partition's hash tag.

    Its number is chosen so that the slot falls into a window of 64: the windows of partitions 0, 1,
    2… are as far apart as they can be, so that any number of partitions spreads evenly over any
    number of servers. A function of prefix and partition alone, for ever.
    """
    window = int(f"{partition % 256:08b}"[::-1], 2)
    for number in count():
        tag = f"{prefix}:{partition}.{number}".encode()
        if slot_of(tag) >> 6 == window:
            return tag
    raise AssertionError


def slot_of(tag: bytes) -> int:
    """Return the slot of a hash tag: CRC16 (XMODEM) modulo 16,384."""
    return crc_hqx(tag, 0) & 0x3FFF
