"""Encoding: which form each channel's value takes in an event, given what is known of its parent.

A value of which enough is stored already is a reference, or a range of the stored one between new
bytes; any other one is stored whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from eventstore.codec import digest_of
from eventstore.events import (
    EMPTY,
    INHERITED,
    ChannelState,
    ChannelValue,
    CheckpointSaved,
    Extended,
    Full,
    Payload,
    Referenced,
    Version,
)
from projector.layout import NO_EVENT
from projector.values import INLINE_BYTES

from .bases import MAX_PIECES, MAX_UNREAD, MIN_BYTES, Base, Bases
from .increments import Cut, ValueIndex, cut, index_of
from .lineage import Known
from .mapping import CheckpointDraft, same_version
from .place import Place
from .sealed import SEALED, Chain, sealed_next, sealed_whole
from .sealing import Sealer
from .serde import Serde, body_spot, channel_spot, metadata_spot

LARGE_BYTES: Final = 1024 * 1024
"""A checkpoint with more new bytes is encoded on another OS thread."""

MAX_NEW_BYTES: Final = 384 * 1024
"""New bytes that one event's ranges are put between, together. A value that grew by more is stored
whole: that may lie in chunks of its own."""


class Encoder:
    """Makes the event of one checkpoint. Pure but for the bases that it is given."""

    def __init__(
        self, draft: CheckpointDraft, event_id: bytes, parent: Known | None, bases: Bases
    ) -> None:
        self._draft = draft
        self._event_id = event_id
        self._parent = parent
        self._values = ValueEncoder(draft.place, event_id, bases, draft.serde.sealer)
        self.stored = self._values.stored
        """Channels whose values others may extend once this event is acknowledged."""
        self.sources = self._values.sources
        """Channel → event that sealed its value, of values that are sealed."""

    def event(self, incarnation: int) -> CheckpointSaved:
        """Return the event, inheriting from the parent what has the same version there."""
        draft, parent = self._draft, self._parent
        channels: dict[str, ChannelState] = {}
        inherits = False
        for channel, version in draft.versions.items():
            value: ChannelValue
            if channel in draft.new_channels:
                value = self._value(channel, draft.new_channels[channel])
            elif parent is not None and same_version(parent.versions.get(channel), version):
                value = INHERITED
                inherits = True
                if channel in parent.sources:
                    self.sources[channel] = parent.sources[channel]
            else:
                value = self._value(channel, draft.old_channels.get(channel))
            channels[channel] = ChannelState(version, value)
        body, payloads = self._values.rest(
            draft.serde, draft.parent_id, draft.versions, draft.body, draft.metadata_payloads
        )
        return CheckpointSaved(
            namespace=draft.place.namespace,
            checkpoint_id=draft.checkpoint_id,
            parent_id=draft.parent_id,
            parent_event=parent.event_id if parent is not None and inherits else None,
            incarnation=incarnation,
            channels=channels,
            body=body,
            metadata=draft.metadata,
            metadata_payloads=payloads,
        )

    def _value(self, channel: str, payload: Payload | None) -> ChannelValue:
        base = None if self._parent is None else self._parent.values.get(channel)
        return self._values.value(channel, payload, base)


class ValueEncoder:
    """Gives the values of one event their forms, sealed if there is a sealer.

    Pure but for the bases that it is given.
    """

    def __init__(
        self, place: Place, event_id: bytes, bases: Bases, sealer: Sealer | None = None
    ) -> None:
        self._place = place
        self._event_id = event_id
        self._bases = bases
        self._sealer = sealer
        self._new_bytes = 0
        self.stored: dict[str, Base] = {}
        """Channels whose values others may extend once the event is acknowledged."""
        self.sources: dict[str, bytes] = {}
        """Channel → event that sealed its value, of values that are sealed."""

    def value(self, channel: str, payload: Payload | None, base_offset: int | None) -> ChannelValue:
        """Return the form of a value that may extend the one which the event there has stored."""
        if payload is None:
            return EMPTY
        if len(payload.data) < MIN_BYTES:
            return self._whole(channel, payload)[0]
        base = None
        if base_offset is not None:
            base = self._bases.get(self._place.thread_id, channel, base_offset)
        if base is None or (base.chain is None) != (self._sealer is None):
            return self._full(channel, payload, index_of(payload.type, payload.data))
        found, index = cut(base.index, payload.type, payload.data)
        if found is None:
            return self._full(channel, payload, index)
        return self._cut(channel, payload, index, base, found)

    def rest(
        self,
        serde: Serde,
        parent_id: str | None,
        versions: Mapping[str, Version],
        body: Payload,
        metadata: Mapping[str, Payload],
    ) -> tuple[Payload, dict[str, Payload]]:
        """Return the body and the metadata that is not plain, sealed if there is a sealer.

        To be asked for once all values have their forms: the body belongs beside them.
        """
        if self._sealer is None:
            return body, dict(metadata)
        place, event_id = self._place, self._event_id
        spot = body_spot(place, parent_id, versions, self.sources)
        return serde.sealed(body, spot, event_id), {
            key: serde.sealed(payload, metadata_spot(place, key), event_id)
            for key, payload in metadata.items()
        }

    def _cut(
        self, channel: str, payload: Payload, index: ValueIndex, base: Base, found: Cut
    ) -> ChannelValue:
        offset = cast("int", base.offset)
        if not found.head and not found.tail and found.stop - found.start == base.index.size:
            self.stored[channel] = base
            if base.chain is not None:
                self.sources[channel] = base.chain.event_id
            return Referenced(base.event_id, offset)
        if self._sealer is not None:
            return self._next(channel, payload, index, base, found)
        pieces = base.pieces + self._new_pieces(channel, base, found)
        new_bytes = self._new_bytes + len(found.head) + len(found.tail)
        unread = base.unread + 1
        if pieces > MAX_PIECES or unread > MAX_UNREAD or new_bytes > MAX_NEW_BYTES:
            return self._full(channel, payload, index)
        self._new_bytes = new_bytes
        self.stored[channel] = Base(index, pieces, self._event_id, unread=unread)
        if found.tail:
            self._bases.appended(self._place.buffer(channel), self._event_id)
        elif _has_long_head(found):
            self._bases.appended(self._place.buffer(channel), NO_EVENT)
        return Extended(
            base.event_id,
            offset,
            payload.type,
            found.head,
            found.start,
            found.stop,
            found.tail,
            digest_of(payload.data),
            found.kept_items,
        )

    def _next(
        self, channel: str, payload: Payload, index: ValueIndex, base: Base, found: Cut
    ) -> ChannelValue:
        """Return a sealed value as one more entry behind its base's."""
        chain = cast("Chain", base.chain)
        buffer = self._place.buffer(channel)
        pieces = base.pieces + int(not self._bases.is_tip(buffer, base))
        unread = base.unread + 1
        link = None
        if pieces <= MAX_PIECES and unread <= MAX_UNREAD:
            link = sealed_next(
                cast("Sealer", self._sealer),
                payload,
                channel_spot(self._place.thread_id, self._place.namespace, channel),
                self._event_id,
                chain=chain,
                span=(len(found.head), found.start, found.stop),
                limit=MAX_NEW_BYTES - self._new_bytes,
            )
        if link is None:
            return self._full(channel, payload, index)
        self._new_bytes += len(link.data)
        self.stored[channel] = Base(index, pieces, self._event_id, unread=unread, chain=link.chain)
        self.sources[channel] = self._event_id
        self._bases.appended(buffer, self._event_id)
        return Extended(
            base.event_id,
            cast("int", base.offset),
            SEALED,
            b"",
            0,
            chain.size,
            link.data,
            link.chain.digest,
        )

    def _full(self, channel: str, payload: Payload, index: ValueIndex) -> Full:
        full, chain = self._whole(channel, payload)
        self.stored[channel] = Base(index, 1, self._event_id, chain=chain)
        return full

    def _whole(self, channel: str, payload: Payload) -> tuple[Full, Chain | None]:
        if self._sealer is None:
            return Full(payload, digest_of(payload.data)), None
        self.sources[channel] = self._event_id
        spot = channel_spot(self._place.thread_id, self._place.namespace, channel)
        link = sealed_whole(self._sealer, payload, spot, self._event_id)
        return Full(Payload(SEALED, link.data), link.chain.digest), link.chain

    def _new_pieces(self, channel: str, base: Base, found: Cut) -> int:
        """Return how many pieces a version takes more than its base, at most."""
        if not found.tail:
            return int(_has_long_head(found))
        if _has_long_head(found):
            return 2
        buffer = self._place.buffer(channel)
        return int(found.stop < base.index.size or not self._bases.is_tip(buffer, base))


def _has_long_head(found: Cut) -> bool:
    """Tell whether the view may put the beginning into the buffer, in front of any tail.

    The beginning is the head and what the range has of the base's own beginning, if that was short.
    """
    return len(found.head) > min(found.start, INLINE_BYTES)
