"""Records that go from the log unless an event names them in time: chunks, and void manifests."""

from __future__ import annotations

from dataclasses import dataclass

from .layout import HASH_BYTES, ThreadRecord, u64


@dataclass(frozen=True, slots=True)
class Pending:
    """One entry of `layout.PENDING`. A function of its record alone."""

    offset: int
    thread: bytes
    """The hash of its thread."""
    incarnation: int
    timestamp_ms: int
    """When the log stored it."""
    key: bytes
    """The record's key."""

    def is_past(self, record: ThreadRecord | None) -> bool:
        """Tell whether its thread was deleted since: then it is erased with the thread."""
        return record is not None and self.incarnation < record.incarnation

    def pack(self) -> bytes:
        """Return the entry: thread hash, incarnation (8), time (8), key."""
        return self.thread + u64(self.incarnation) + u64(self.timestamp_ms) + self.key


def unpack_pending(field: bytes, data: bytes) -> Pending:
    """Return what an entry and its field say."""
    at = HASH_BYTES
    return Pending(
        int.from_bytes(field),
        data[:at],
        int.from_bytes(data[at : at + 8]),
        int.from_bytes(data[at + 8 : at + 16]),
        data[at + 16 :],
    )
