"""Copying a thread: the target's partition gets events of its own, visible all at once at the end.

What a copied checkpoint needs of ancestors that were removed (the history of delta channels) is
carried along as removed ancestors of the copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from eventstore.codec import digest_of
from eventstore.events import (
    EMPTY,
    INHERITED,
    ChannelState,
    CheckpointSaved,
    CheckpointsDeleted,
    Event,
    Full,
    Payload,
    ThreadCopied,
    Write,
    WritesSaved,
    new_event_id,
)
from projector.layout import StoredWrite
from projector.view import StoredCheckpoint, StoredHistory

from .errors import CopyRefusedError, InvalidConfigError
from .mapping import checked, payload_of
from .place import Place, ReadLevel
from .reading import Reader
from .writing import Writer


async def copy_thread(
    reader: Reader, writer: Writer, source_thread_id: str, target_thread_id: str, *, partition: int
) -> None:
    """Copy all that is visible of a thread. `partition` is the source's.

    Nothing happens when the source holds no checkpoint.

    Raises:
        CopyRefusedError: The target holds checkpoints.
        InvalidConfigError: Source and target are the same thread.
    """
    if source_thread_id == target_thread_id:
        raise InvalidConfigError("target_thread_id", reason="is the source itself")
    while True:
        target = await reader.thread(target_thread_id, ReadLevel.LINEARIZABLE)
        if target is not None and target.count:
            raise CopyRefusedError(source_thread_id, target_thread_id=target_thread_id)
        incarnation = 0 if target is None else target.incarnation
        copy = _Copy(new_event_id(), incarnation, partition, source_thread_id, reader)
        if await _stage(reader, writer, copy, target_thread_id):
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


async def _stage(reader: Reader, writer: Writer, copy: _Copy, target_thread_id: str) -> bool:
    """Append all of the source, not yet visible; return whether it is all of one life of it.

    The source is read page by page: a thread that was deleted in between would leave a copy that
    ends in the middle, and looks like a whole one.
    """
    epochs: set[bytes] = set()
    async for page in reader.exported(copy.source_thread_id):
        for stored in page.checkpoints:
            epochs.add(stored.thread.epoch)
            await writer.append_all(target_thread_id, await copy.events_of(stored))
        if len(epochs) > 1:
            return False
    source = await reader.thread(copy.source_thread_id, ReadLevel.LINEARIZABLE)
    return not epochs or (source is not None and epochs == {source.epoch})


@dataclass(slots=True)
class _Staged:
    """A checkpoint of the source that the target has already been given."""

    event_id: bytes
    places: Mapping[str, tuple[object, int | None]]
    """channel → (version, offset in the source of the event that stored its value)."""


@dataclass(slots=True)
class _Copy:
    """One copy under way."""

    copy_id: bytes
    incarnation: int
    partition: int
    source_thread_id: str
    reader: Reader
    count: int = 0
    staged: dict[tuple[str, str], _Staged] = field(default_factory=dict)

    async def events_of(self, stored: StoredCheckpoint) -> list[tuple[bytes, Event]]:
        """Return the events that make one checkpoint of the source one of the target."""
        self.count += 1
        events: list[tuple[bytes, Event]] = []
        parent_id = stored.row.parent_id
        if stored.parent_is_removed:
            parent_id = await self._add_ancestors(stored, events)
        event_id = new_event_id()
        channels, parent_event = self._channels(stored)
        saved = CheckpointSaved(
            namespace=stored.namespace,
            checkpoint_id=stored.checkpoint_id,
            parent_id=parent_id,
            parent_event=parent_event,
            incarnation=self.incarnation,
            channels=channels,
            body=stored.row.body,
            metadata=stored.row.metadata,
            metadata_payloads=stored.row.metadata_payloads,
            copy_id=self.copy_id,
        )
        events.append((event_id, saved))
        events += self._writes(stored.namespace, stored.checkpoint_id, stored.writes)
        self.staged[stored.namespace, stored.checkpoint_id] = _Staged(
            event_id,
            {
                channel: (version, ref if isinstance(ref, int) else None)
                for channel, (version, ref) in stored.row.channels.items()
            },
        )
        return events

    def _channels(self, stored: StoredCheckpoint) -> tuple[dict[str, ChannelState], bytes | None]:
        row = stored.row
        parent = None
        if row.parent_id is not None and not stored.parent_is_removed:
            parent = self.staged.get((stored.namespace, row.parent_id))
        channels: dict[str, ChannelState] = {}
        inherits = False
        for channel, (version, ref) in row.channels.items():
            payload = payload_of(self.partition, self.source_thread_id, stored, channel)
            if payload is None:
                channels[channel] = ChannelState(version, EMPTY)
            elif parent is not None and parent.places.get(channel) == (version, ref):
                channels[channel] = ChannelState(version, INHERITED)
                inherits = True
            else:
                channels[channel] = ChannelState(version, _full(payload))
        return channels, parent.event_id if parent is not None and inherits else None

    def _writes(
        self, namespace: str, checkpoint_id: str, writes: Sequence[StoredWrite]
    ) -> list[tuple[bytes, Event]]:
        ordered = sorted(writes, key=lambda w: (w.task_id, w.task_path, w.index))
        return [
            (
                new_event_id(),
                WritesSaved(
                    namespace,
                    checkpoint_id,
                    task_id,
                    task_path,
                    self.incarnation,
                    tuple(Write(w.index, w.channel, w.payload) for w in group),
                    copy_id=self.copy_id,
                ),
            )
            for (task_id, task_path), group in groupby(
                ordered, key=lambda w: (w.task_id, w.task_path)
            )
        ]

    async def _add_ancestors(
        self, stored: StoredCheckpoint, events: list[tuple[bytes, Event]]
    ) -> str | None:
        """Add removed ancestors that give the copy the same delta history; return the nearest."""
        valueless = [name for name, (_, ref) in stored.row.channels.items() if ref is None]
        place = Place(self.source_thread_id, stored.namespace, stored.checkpoint_id)
        histories = await self.reader.history(place, valueless, ReadLevel.LINEARIZABLE)
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
        for number in reversed(range(len(names))):
            older = names[number + 1] if number + 1 < len(names) else None
            is_oldest = older is None
            events.append(
                (
                    new_event_id(),
                    self._ancestor(stored, names[number], older, seeds if is_oldest else {}),
                )
            )
            if not is_oldest:
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
        seeds: Mapping[str, Payload],
    ) -> CheckpointSaved:
        return CheckpointSaved(
            namespace=stored.namespace,
            checkpoint_id=name,
            parent_id=older,
            parent_event=None,
            incarnation=self.incarnation,
            channels={channel: ChannelState(1, _full(seed)) for channel, seed in seeds.items()},
            body=stored.row.body,
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


def _full(payload: Payload) -> Full:
    return Full(payload, digest_of(payload.data))
