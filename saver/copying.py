"""Copying a thread: the target's partition gets events of its own, visible all at once at the end.

Values extend what the copy has stored before, as those that are put do. What a copied checkpoint
needs of ancestors that were removed (the history of delta channels) is carried along as removed
ancestors of the copy.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Final

from eventstore.events import (
    EMPTY,
    INHERITED,
    ChannelState,
    ChannelValue,
    CheckpointSaved,
    CheckpointsDeleted,
    Event,
    Payload,
    ThreadCopied,
    Write,
    WritesSaved,
    new_event_id,
)
from eventstore.log import Appended
from projector.layout import StoredWrite
from projector.view import StoredCheckpoint, StoredHistory

from .bases import Bases
from .encoding import LARGE_BYTES, ValueEncoder
from .errors import CopyRefusedError, InvalidConfigError
from .mapping import checked, payload_of, sealed_writes
from .opening import body_of
from .place import Place, ReadLevel
from .reading import Reader
from .sealing import Sealer
from .serde import Serde, channel_spot, metadata_spot, write_spot
from .writing import Writer

BASES_BYTES: Final = 16 * 1024 * 1024
"""What the indexes of one copy's values take, at most: forks reach back a few hundred versions."""

MAX_STAGED: Final = 4_096
"""Checkpoints that a copy remembers. What continues an older one is stored in longer form."""


async def copy_thread(
    reader: Reader, writer: Writer, serde: Serde, threads: tuple[str, str], *, partition: int
) -> None:
    """Copy all that is visible of a thread: from the first one, in `partition`, to the second one.

    Nothing happens when the source holds no checkpoint.

    Raises:
        CopyRefusedError: The target holds checkpoints.
        InvalidConfigError: Source and target are the same thread.
        PlainValueError, CipherMissingError, SealedPieceError, UnknownKeyError: As `Serde.opened`;
            the copy is not visible.
    """
    source_thread_id, target_thread_id = threads
    if source_thread_id == target_thread_id:
        raise InvalidConfigError("target_thread_id", reason="is the source itself")
    while True:
        target = await reader.thread(target_thread_id, ReadLevel.LINEARIZABLE)
        if target is not None and target.count:
            raise CopyRefusedError(source_thread_id, target_thread_id=target_thread_id)
        incarnation = 0 if target is None else target.incarnation
        copy = _Copy(reader, writer, serde, *threads, partition, incarnation=incarnation)
        if await _stage(reader, copy):
            break
    if not copy.count:
        return
    done = ThreadCopied(copy.copy_id, source_thread_id, incarnation, copy.count)
    await writer.append_all(target_thread_id, [(new_event_id(), done)])
    # Removed checkpoints of the target, which could be continued so far, are out of reach now.
    writer.forget(target_thread_id)
    target = await reader.thread(target_thread_id, ReadLevel.LINEARIZABLE)
    if target is None or target.epoch != copy.copy_id:
        raise CopyRefusedError(source_thread_id, target_thread_id=target_thread_id)


async def _stage(reader: Reader, copy: _Copy) -> bool:
    """Append all of the source, not yet visible; return whether it is all of one life of it.

    The source is read page by page: a thread that was deleted in between would leave a copy that
    ends in the middle, and looks like a whole one.
    """
    epochs: set[bytes] = set()
    async for page in reader.exported(copy.source_thread_id):
        for stored in page.checkpoints:
            epochs.add(stored.thread.epoch)
            await copy.add(stored)
        if len(epochs) > 1:
            return False
    source = await reader.thread(copy.source_thread_id, ReadLevel.LINEARIZABLE)
    return not epochs or (source is not None and epochs == {source.epoch})


@dataclass(slots=True)
class _Staged:
    """A checkpoint of the source that the target has already been given."""

    event_id: bytes
    sources: Mapping[str, tuple[object, int | None]]
    """channel → (version, offset in the source of the event that stored its value)."""
    values: dict[str, int]
    """channel → offset in the target of the event that stored its last value that may be extended:
    its own one, else that of an ancestor."""
    sealed_by: Mapping[str, bytes]
    """channel → event of the target that sealed its value, of values that are sealed."""


@dataclass(slots=True)
class _Batch:
    """The events that make one checkpoint of the source one of the target."""

    place: Place
    bases: Bases
    sealer: Sealer | None
    events: list[tuple[bytes, Event]] = field(default_factory=list)
    encoders: dict[bytes, ValueEncoder] = field(default_factory=dict)
    """By the event whose values they made."""

    def encoder(self, event_id: bytes) -> ValueEncoder:
        """Return what gives the values of an event their forms."""
        encoder = ValueEncoder(self.place, event_id, self.bases, self.sealer)
        return self.encoders.setdefault(event_id, encoder)

    def acknowledged(self, places: Sequence[Appended]) -> dict[str, int]:
        """Return which values may be extended from now on, and where each of them is stored."""
        values: dict[str, int] = {}
        for (event_id, _), at in zip(self.events, places, strict=True):
            if event_id in self.encoders:
                stored = self.encoders[event_id].stored
                values |= self.bases.acknowledged(self.place.thread_id, stored, at.offset)
        return values


@dataclass(slots=True)
class _Copy:
    """One copy under way."""

    reader: Reader
    writer: Writer
    serde: Serde
    source_thread_id: str
    target_thread_id: str
    partition: int
    """The source's."""
    _: KW_ONLY
    incarnation: int
    copy_id: bytes = field(default_factory=new_event_id)
    count: int = 0
    bases: Bases = field(default_factory=lambda: Bases(BASES_BYTES))
    staged: OrderedDict[tuple[str, str | None], _Staged] = field(default_factory=OrderedDict)
    """By namespace and checkpoint id; without an id, the last one of the namespace."""

    async def add(self, stored: StoredCheckpoint) -> None:
        """Give the target one checkpoint of the source, not yet visible."""
        self.count += 1
        parent = None
        if not stored.parent_is_removed and stored.row.parent_id is not None:
            parent = self.staged.get((stored.namespace, stored.row.parent_id))
        # Values may extend whichever others of their namespace; the parent's are the most alike.
        alike = parent or self.staged.get((stored.namespace, None))
        values = {} if alike is None else alike.values
        place = Place(self.target_thread_id, stored.namespace, stored.checkpoint_id)
        batch = _Batch(place, self.bases, self.serde.sealer)
        parent_id = stored.row.parent_id
        if stored.parent_is_removed:
            parent_id = await self._add_ancestors(stored, values, batch)
        event_id = new_event_id()
        size = sum(len(value.data or b"") for value in stored.values.values())
        encoder = batch.encoder(event_id)
        ask = partial(self._channels, stored, parent, values, encoder)
        channels = await asyncio.to_thread(ask) if size > LARGE_BYTES else ask()
        opened = body_of(self.serde, self.source_thread_id, stored)
        versions = {channel: state.version for channel, state in channels.items()}
        metadata, open_payloads = self._metadata(stored)
        body, payloads = encoder.rest(self.serde, parent_id, versions, opened, open_payloads)
        inherits = any(state.value is INHERITED for state in channels.values())
        saved = CheckpointSaved(
            namespace=stored.namespace,
            checkpoint_id=stored.checkpoint_id,
            parent_id=parent_id,
            parent_event=parent.event_id if parent is not None and inherits else None,
            incarnation=self.incarnation,
            channels=channels,
            body=body,
            metadata=metadata,
            metadata_payloads=payloads,
            copy_id=self.copy_id,
        )
        batch.events.append((event_id, saved))
        batch.events += self._writes(stored.namespace, stored.checkpoint_id, stored.writes)
        places = await self.writer.append_all(self.target_thread_id, batch.events)
        known = {**values, **batch.acknowledged(places)}
        self._remember(stored, event_id, known, encoder.sources)

    def _remember(
        self,
        stored: StoredCheckpoint,
        event_id: bytes,
        values: dict[str, int],
        sealed_by: Mapping[str, bytes],
    ) -> None:
        sources = {
            channel: (version, ref if isinstance(ref, int) else None)
            for channel, (version, ref) in stored.row.channels.items()
        }
        staged = _Staged(event_id, sources, values, sealed_by)
        for checkpoint_id in (stored.checkpoint_id, None):
            self.staged[stored.namespace, checkpoint_id] = staged
            self.staged.move_to_end((stored.namespace, checkpoint_id))
        while len(self.staged) > MAX_STAGED:
            self.staged.popitem(last=False)

    def _channels(
        self,
        stored: StoredCheckpoint,
        parent: _Staged | None,
        values: Mapping[str, int],
        encoder: ValueEncoder,
    ) -> dict[str, ChannelState]:
        channels: dict[str, ChannelState] = {}
        for channel, (version, ref) in stored.row.channels.items():
            payload = payload_of(self.partition, self.source_thread_id, stored, channel)
            value: ChannelValue
            if payload is None:
                value = EMPTY
            elif parent is not None and parent.sources.get(channel) == (version, ref):
                value = INHERITED
                if channel in parent.sealed_by:
                    encoder.sources[channel] = parent.sealed_by[channel]
            else:
                opened = self._opened(stored.namespace, channel, payload)
                value = encoder.value(channel, opened, values.get(channel))
            channels[channel] = ChannelState(version, value)
        return channels

    def _opened(self, namespace: str, channel: str, payload: Payload) -> Payload:
        spot = channel_spot(self.source_thread_id, namespace, channel)
        return self.serde.opened(payload, spot)

    def _metadata(self, stored: StoredCheckpoint) -> tuple[dict[str, Any], dict[str, Payload]]:
        """Return the metadata for the target: what stays readable, and all other, not sealed."""
        serde, row = self.serde, stored.row
        source = Place(self.source_thread_id, stored.namespace, stored.checkpoint_id)
        readable = {key: value for key, value in row.metadata.items() if serde.stays_readable(key)}
        payloads = {
            key: serde.dumped(value) for key, value in row.metadata.items() if key not in readable
        }
        for key, payload in row.metadata_payloads.items():
            payloads[key] = serde.opened(payload, metadata_spot(source, key))
        return readable, payloads

    def _writes(
        self, namespace: str, checkpoint_id: str, writes: Sequence[StoredWrite]
    ) -> list[tuple[bytes, Event]]:
        ordered = sorted(writes, key=lambda w: (w.task_id, w.task_path, w.index))
        source = Place(self.source_thread_id, namespace, checkpoint_id)
        place = Place(self.target_thread_id, namespace, checkpoint_id)
        events: list[tuple[bytes, Event]] = []
        for (task_id, task_path), group in groupby(ordered, key=lambda w: (w.task_id, w.task_path)):
            event_id = new_event_id()
            opened: list[Write] = []
            for w in group:
                spot = write_spot(source, task_id, w.index, w.channel)
                opened.append(Write(w.index, w.channel, self.serde.opened(w.payload, spot)))
            saved = WritesSaved(
                namespace,
                checkpoint_id,
                task_id,
                task_path,
                self.incarnation,
                sealed_writes(self.serde, place, task_id, opened, event_id),
                copy_id=self.copy_id,
            )
            events.append((event_id, saved))
        return events

    async def _add_ancestors(
        self, stored: StoredCheckpoint, values: Mapping[str, int], batch: _Batch
    ) -> str | None:
        """Add removed ancestors that give the copy the same delta history; return the nearest."""
        valueless = [name for name, (_, ref) in stored.row.channels.items() if ref is None]
        source = Place(self.source_thread_id, stored.namespace, stored.checkpoint_id)
        histories = await self.reader.history(source, valueless, ReadLevel.LINEARIZABLE)
        chain = _chain(histories)
        seeds = {
            channel: checked(self.partition, self.source_thread_id, channel, None, history.seed)
            for channel, history in histories.items()
            if history.seed is not None
        }
        if not chain and not seeds:
            return None
        # The oldest one holds the seeds: every channel's walk passes all its writes before it.
        names = [f"{stored.checkpoint_id}~{number}" for number in range(len(chain) + 1)]
        oldest = new_event_id()
        encoder = batch.encoder(oldest)
        channels: dict[str, ChannelState] = {}
        for channel, seed in seeds.items():
            opened = self._opened(stored.namespace, channel, seed)
            channels[channel] = ChannelState(1, encoder.value(channel, opened, values.get(channel)))
        events = batch.events
        events.append((oldest, self._ancestor(stored, names[-1], None, channels)))
        for number in reversed(range(len(chain))):
            younger = self._ancestor(stored, names[number], names[number + 1], {})
            events.append((new_event_id(), younger))
            events += self._writes(stored.namespace, names[number], chain[number])
        removed = tuple((stored.namespace, name) for name in names)
        gone = CheckpointsDeleted(self.incarnation, removed, copy_id=self.copy_id)
        events.append((new_event_id(), gone))
        return names[0]

    def _ancestor(
        self,
        stored: StoredCheckpoint,
        name: str,
        older: str | None,
        channels: dict[str, ChannelState],
    ) -> CheckpointSaved:
        return CheckpointSaved(
            namespace=stored.namespace,
            checkpoint_id=name,
            parent_id=older,
            parent_event=None,
            incarnation=self.incarnation,
            channels=channels,
            # Nobody reads a removed checkpoint's.
            body=Payload("null", b""),
            metadata={},
            copy_id=self.copy_id,
        )


def _chain(histories: Mapping[str, StoredHistory]) -> list[list[StoredWrite]]:
    """Return the writes of each ancestor that any history names, from the nearest one."""
    order: list[bytes] = []
    writes: dict[bytes, list[StoredWrite]] = {}
    for history in histories.values():
        at = 0
        for event_id, of_channel in history.writes:
            if event_id in writes:
                at = order.index(event_id) + 1
            else:
                order.insert(at, event_id)
                writes[event_id] = []
                at += 1
            writes[event_id] += of_channel
    return [writes[event_id] for event_id in order]
