"""Uploads: payloads whose chunks stand in a random log, and the manifests that name them."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from eventstore.codec import digest_of
from eventstore.events import (
    CHUNK_LIFETIME_MS,
    ChannelState,
    CheckpointSaved,
    ChunkedPayload,
    Event,
    WritesSaved,
)


def time_of(offset: int) -> int:
    """Return when a record is stored that tells no other time."""
    return 1_000 + offset


@dataclass
class Upload:
    """Chunks without a manifest as yet."""

    event_id: bytes
    incarnation: int
    copy_id: bytes | None
    chunks: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """By offset."""
    is_late: bool = False
    """Whether its manifest comes too late."""

    def payload(self) -> ChunkedPayload:
        data = b"".join(self.chunks.values())
        places = tuple([(offset, len(chunk)) for offset, chunk in self.chunks.items()])
        return ChunkedPayload("bytes", b"", digest_of(data), places)

    @property
    def stored_at(self) -> int | None:
        """Return when the log stores what comes next, None for the usual time."""
        return time_of(next(iter(self.chunks))) + CHUNK_LIFETIME_MS + 1 if self.is_late else None

    def manifest(self, event: Event, channel: str) -> Event:
        """Return an event with some of its payloads in chunks, that of a channel among them."""
        payload = self.payload()
        first = next(iter(self.chunks))
        chunked_at = time_of(first)
        if isinstance(event, WritesSaved):
            writes = [replace(write, payload=payload) for write in event.writes]
            return replace(event, writes=tuple(writes), chunked_at=chunked_at)
        assert isinstance(event, CheckpointSaved)
        channels = {**event.channels, channel: ChannelState(first, payload)}
        body = payload if first % 2 else event.body
        metadata = {"user": payload} if first % 3 == 0 else {}
        return replace(
            event, channels=channels, body=body, metadata_payloads=metadata, chunked_at=chunked_at
        )
