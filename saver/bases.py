"""Bases: what this saver can extend, namely values that it read or saw acknowledged. Bounded.

Of each value an index is kept, never its bytes. What was forgotten is stored whole the next time:
that costs space, never a read, and never correctness.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final, TypeAlias

from eventstore.codec import digest_of
from eventstore.events import Payload
from projector.values import count_of_pieces, unpack_value
from projector.view import StoredCheckpoint

from .increments import ValueIndex, index_of
from .sealed import SEALED, Chain

LIMIT: Final = 64 * 1024 * 1024
"""Bytes of memory that all indexes take together: of 5,000 conversations with 50 KB each, say."""

MIN_BYTES: Final = 512
"""Smaller values are always stored whole: naming a base takes about 80 bytes, and time."""

MAX_TIPS: Final = 65_536

MAX_PIECES: Final = 256
"""A version of more pieces is stored whole. Reading so many takes Redis about half a millisecond,
and whoever reads the log needs no event from further back."""

MAX_UNREAD: Final = 500
"""After so many extensions without a read a version is stored whole."""

Buffer: TypeAlias = tuple[str, str, str]
"""(thread id, namespace, channel)."""


@dataclass(slots=True, eq=False)
class Base:
    """A stored value that others may extend."""

    index: ValueIndex
    pieces: int
    """Of how many pieces the view makes it, at most."""
    event_id: bytes | None
    """The event that stored it; None where only its offset is known."""
    offset: int | None = None
    """Where that event stands. None until it is acknowledged: nothing extends it before that."""
    unread: int = 0
    """How many extensions lie between it and what was stored whole, or read, last. Others that add
    to the buffer meanwhile make more pieces of them than `pieces` knows of."""
    chain: Chain | None = None
    """What it takes to go on with it where it is sealed."""

    @property
    def weight(self) -> int:
        """Return about how many bytes of memory this takes."""
        return self.index.weight + (0 if self.chain is None else self.chain.weight)


class Bases:
    """A bounded memory of bases. Safe from any OS thread."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._weight = 0
        # (thread id, channel, offset) → base; the least recently used ones are forgotten first.
        self._bases: OrderedDict[tuple[str, str, int], Base] = OrderedDict()
        # By which event each buffer ends, as far as this saver knows: what is appended to its
        # version needs no further piece. The view knows better; here it only settles a bound.
        self._tips: OrderedDict[Buffer, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, thread_id: str, channel: str, offset: int) -> Base | None:
        """Return the base that an event stored for a channel."""
        with self._lock:
            base = self._bases.get((thread_id, channel, offset))
            if base is not None:
                self._bases.move_to_end((thread_id, channel, offset))
            return base

    def add(self, thread_id: str, channel: str, base: Base) -> None:
        """Remember a base whose event is acknowledged, or was read."""
        if base.offset is None:
            return
        with self._lock:
            key = (thread_id, channel, base.offset)
            before = self._bases.pop(key, None)
            self._bases[key] = base
            self._weight += base.weight - (0 if before is None else before.weight)
            while self._weight > self._limit and len(self._bases) > 1:
                _, oldest = self._bases.popitem(last=False)
                self._weight -= oldest.weight

    def acknowledged(
        self, thread_id: str, stored: Mapping[str, Base], offset: int | None
    ) -> dict[str, int]:
        """Let the values of an event be extended; return where each of them is stored.

        Nothing where the log did not tell the event's offset.
        """
        values: dict[str, int] = {}
        if offset is None:
            return values
        for channel, base in stored.items():
            if base.offset is None:
                base.offset = offset
                self.add(thread_id, channel, base)
            values[channel] = base.offset
        return values

    def is_tip(self, buffer: Buffer, base: Base) -> bool:
        """Tell whether a buffer ends with a version, as far as this saver knows."""
        return base.event_id is not None and self._tips.get(buffer) == base.event_id

    def appended(self, buffer: Buffer, event_id: bytes) -> None:
        """Note that a version was handed over that a buffer will end with."""
        with self._lock:
            self._tips[buffer] = event_id
            self._tips.move_to_end(buffer)
            if len(self._tips) > MAX_TIPS:
                self._tips.popitem(last=False)

    def warm(
        self,
        thread_id: str,
        stored: StoredCheckpoint,
        opened: Mapping[str, Payload] | None = None,
        *,
        is_verified: bool = False,
    ) -> dict[str, int]:
        """Remember the values of a checkpoint that was read; return where each of them is stored.

        `opened` has the sealed ones, by channel. One that it lacks, or whose digest differs, is
        left alone: nothing may be built on it. `is_verified` says that all have been compared
        already.
        """
        opened = opened or {}
        found: dict[str, int] = {}
        for channel, value in stored.values.items():
            if value.data is None:
                continue
            payload, digest = unpack_value(value.data)
            if len(payload.data) < MIN_BYTES:
                continue
            if not is_verified and digest_of(payload.data) != digest:
                continue
            pieces = max(1, count_of_pieces(value.data))
            base = self.get(thread_id, channel, value.offset)
            if base is None:
                row = stored.row
                event_id = row.event_id if value.offset == row.offset else None
                chain = None
                if payload.type == SEALED:
                    if channel not in opened:
                        continue
                    chain = Chain.of(payload.data)
                    payload = opened[channel]
                index = index_of(payload.type, payload.data)
                self.add(
                    thread_id, channel, Base(index, pieces, event_id, value.offset, chain=chain)
                )
            else:
                # The view knows better: others may have added to the buffer meanwhile.
                base.pieces, base.unread = pieces, 0
            found[channel] = value.offset
        return found
