"""What the view notes of each record that the log holds of a thread, to erase it there one day.

A note is a function of its record alone, whatever else is gone from the log.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .layout import EPOCH_BYTES, epoch_of, is_copy

_PART = struct.Struct(">H")
_OFFSET = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Noted:
    """One entry of `layout.RECORDS`."""

    event_id: bytes
    part: int
    epoch: bytes
    """That of the incarnation that the record names, its copy id, or `layout.placed_epoch`."""
    offset: int
    """Where the record stands."""

    def is_dead(self, incarnation: int) -> bool:
        """Tell whether the record belongs to a life of the thread before this incarnation.

        That is so for all that stands in front of the deletion that began it, and for what names an
        older one. Copies that nobody finished are not told by this.
        """
        is_older = not is_copy(self.epoch) and self.epoch < epoch_of(incarnation)
        return self.offset < incarnation or is_older


def record_field(event_id: bytes, part: int) -> bytes:
    """Return a field of `RECORDS`."""
    return event_id + _PART.pack(part)


def pack_noted(epoch: bytes, offset: int) -> bytes:
    """Return an entry of `RECORDS`: epoch (16), offset (8)."""
    return epoch + _OFFSET.pack(offset)


def unpack_noted(field: bytes, data: bytes) -> Noted:
    """Return the note of an entry and its field."""
    (part,) = _PART.unpack_from(field, len(field) - _PART.size)
    (offset,) = _OFFSET.unpack_from(data, EPOCH_BYTES)
    return Noted(field[: -_PART.size], part, data[:EPOCH_BYTES], offset)
