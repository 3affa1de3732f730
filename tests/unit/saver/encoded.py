"""A thread that is encoded, written as records, read, and folded into a view of dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from msgspec.structs import replace

from eventstore import codec
from eventstore.events import (
    ChannelState,
    ChannelValue,
    CheckpointSaved,
    Extended,
    NewEvent,
    Payload,
    new_event_id,
)
from eventstore.log import LogRecord
from projector.layout import VALUES, value_field
from projector.projection import Readable
from projector.values import StoredVersion, unpack_value, whole
from projector.view import StoredCheckpoint, StoredValue
from saver.bases import Base, Bases
from saver.encoding import Encoder
from saver.lineage import Known
from saver.mapping import CheckpointDraft, known_of
from saver.place import Place
from saver.serde import Serde
from tests.folding import DictView

SERDE = JsonPlusSerializer()
THREAD = "thread"


def packed(value: Any) -> Payload:
    """Return what LangGraph's serializer makes of a value."""
    return Payload(*SERDE.dumps_typed(value))


@dataclass(frozen=True, eq=False)
class Saved:
    """A checkpoint that was saved."""

    checkpoint_id: str
    known: Known
    """What the saver that put it knows of it."""
    event: CheckpointSaved
    expected: dict[str, bytes]
    stored: Mapping[str, Base]

    def value(self, channel: str = "x") -> ChannelValue:
        """Return the form in which the event holds a channel."""
        return self.event.channels[channel].value

    def extended(self, channel: str = "x") -> Extended:
        """Return a value that extends another one."""
        value = self.value(channel)
        assert isinstance(value, Extended)
        return value


@dataclass
class Encoded:
    """One thread: all that was saved of it, and the view."""

    bases: Bases = field(default_factory=Bases)
    """Those of the saver that puts, where no other is named."""
    view: DictView = field(default_factory=DictView)
    saved: list[Saved] = field(default_factory=list)

    def put(
        self,
        parent: Saved | None = None,
        *,
        bases: Bases | None = None,
        known: Known | None = None,
        emptied: Sequence[str] = (),
        **values: Any,
    ) -> Saved:
        """Save a checkpoint with these new values; `known` is what the saver knows of the parent.

        A payload is taken as it is. What the parent has besides stays.
        """
        number = len(self.saved) + 1
        known = known or (None if parent is None else parent.known)
        new: dict[str, Payload | None] = {
            name: value if isinstance(value, Payload) else packed(value)
            for name, value in values.items()
        }
        new.update(dict.fromkeys(emptied))
        versions = {**({} if parent is None else parent.known.versions)}
        versions.update(dict.fromkeys(new, number))
        draft = CheckpointDraft(
            Serde(SERDE),
            Place(THREAD, "", f"{number:06}"),
            None if parent is None else parent.checkpoint_id,
            known,
            versions,
            new,
            {},
            packed({}),
            {},
            {},
        )
        return self._encode(draft, known, parent, self.bases if bases is None else bases)

    def _encode(
        self, draft: CheckpointDraft, known: Known | None, parent: Saved | None, bases: Bases
    ) -> Saved:
        event_id = new_event_id()
        encoder = Encoder(draft, event_id, known, bases)
        event = encoder.event(0)
        offset = self._append(NewEvent(THREAD, event, event_id))
        places = {} if known is None else dict(known.values)
        for channel, base in encoder.stored.items():
            if base.offset is None:
                base.offset = offset
                bases.add(THREAD, channel, base)
            places[channel] = base.offset
        expected = {} if parent is None else dict(parent.expected)
        for channel, payload in draft.new_channels.items():
            expected.pop(channel, None)
            if payload is not None:
                expected[channel] = payload.data
        own = Known(0, event_id, draft.versions, places, is_confirmed=True)
        saved = Saved(draft.checkpoint_id, own, event, expected, dict(encoder.stored))
        self.saved.append(saved)
        return saved

    def _append(self, new: NewEvent) -> int:
        """Encode, decode and fold an event; return its offset."""
        offset = self.view.next_offset
        self.view.next_offset += 1
        made = codec.encode(new)
        record = LogRecord(0, offset, 1_000 + offset, made.key, made.value, tuple(made.headers))
        recorded = codec.decode(record)
        assert recorded.event == new.event
        self.view.fold([Readable(recorded, lambda: b"")])
        return offset

    def read(self, saved: Saved) -> StoredCheckpoint:
        """Return a checkpoint as a view answers it."""
        row = self.view.row(THREAD, saved.checkpoint_id)
        values: dict[str, StoredValue] = {}
        for channel, (_, ref) in row.channels.items():
            if isinstance(ref, int):
                data = whole(self._entry(channel, ref), channel, self._cells)
                values[channel] = StoredValue(ref, data)
        record = self.view.known(THREAD)
        return StoredCheckpoint(record, "", saved.checkpoint_id, row, False, values, ())  # noqa: FBT003

    def warmed(self, saved: Saved, bases: Bases) -> Known:
        """Return what a saver with these bases knows of a checkpoint that it has read."""
        stored = self.read(saved)
        return known_of(stored, bases.warm(THREAD, stored))

    def pieces(self, saved: Saved, channel: str = "x") -> int:
        """Return of how many pieces the view makes a value."""
        _, ref = self.view.row(THREAD, saved.checkpoint_id).channels[channel]
        assert isinstance(ref, int)
        return max(1, len(StoredVersion.unpack(self._entry(channel, ref)).pieces))

    def check(self, saved: Saved) -> None:
        """Compare all that the view gives back of a checkpoint with what was put."""
        found: dict[str, bytes] = {}
        for channel, value in self.read(saved).values.items():
            assert value.data is not None
            payload, digest = unpack_value(value.data)
            assert codec.digest_of(payload.data) == digest
            found[channel] = payload.data
        assert found == saved.expected

    def check_all(self, *, every: int = 1) -> None:
        """Compare every checkpoint, or one in so many and the last ones."""
        for saved in {*self.saved[::every], *self.saved[-2:]}:
            self.check(saved)

    def _entry(self, channel: str, offset: int) -> bytes:
        return self.view.cells[VALUES + self.view.scope(THREAD)][value_field(offset, channel)]

    def _cells(self, fields: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        scope = self.view.scope(THREAD)
        return [self.view.cells.get(letter + scope, {}).get(name) for letter, name in fields]


def body_size(saved: Saved, state: ChannelState) -> int:
    event = replace(saved.event, channels={"x": state})
    return codec.encode(NewEvent(THREAD, event, bytes(16))).body_size


def items_in(data: bytes) -> list[Any]:
    """Decode serialized items that stand one behind the other, without their list."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(data)
    items: list[Any] = []
    start = 0
    while start < len(data):
        unpacker.skip()
        stop = unpacker.tell()
        items.append(SERDE.loads_typed(("msgpack", data[start:stop])))
        start = stop
    return items
