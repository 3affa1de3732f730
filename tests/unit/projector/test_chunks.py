"""The fold of chunks: where they lie, what becomes of them, and what a late manifest does."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from eventstore.codec import digest_of, record_key
from eventstore.events import (
    CHUNK_LIFETIME_MS,
    ChannelState,
    CheckpointSaved,
    ChunkedPayload,
    ChunkSaved,
    Extended,
    NewEvent,
    Write,
    WritesSaved,
)
from projector.layout import DEAD, RECORDS, THREADS, epoch_of
from projector.pending import Pending
from projector.projection import Entry
from tests.contracts.view_suite import Poison, Tombstone, deleted, entry_of, hash_of, saved, wrote
from tests.folding import COPY, DictView, copied, erased

ID = b"event-id-of-16-b"
T = hash_of("t")


def chunk(data: bytes, part: int = 1, *, incarnation: int = 0) -> NewEvent:
    return NewEvent("t", ChunkSaved(incarnation, data), ID, part)


def payload(*places: tuple[int, bytes]) -> ChunkedPayload:
    """Return a payload of the chunks that lie at these offsets."""
    data = b"".join(chunk for _, chunk in places)
    chunks = tuple([(offset, len(chunk)) for offset, chunk in places])
    return ChunkedPayload("bytes", b"", digest_of(data), chunks)


def manifest(
    large: ChunkedPayload, checkpoint_id: str = "1", *, chunked_at: int = 1_000, **fields: Any
) -> NewEvent:
    """Return a checkpoint whose channel `a` lies in chunks."""
    new = saved("t", checkpoint_id, {"a": ChannelState(1, large)}, **fields)
    assert isinstance(new.event, CheckpointSaved)
    return NewEvent("t", replace(new.event, chunked_at=chunked_at), ID)


def late(new: NewEvent, offset: int) -> Entry:
    """Return an event at an offset, stored when its first chunk is too old."""
    return entry_of(new, offset, timestamp_ms=1_001 + CHUNK_LIFETIME_MS)


def test_value_is_what_its_chunks_are() -> None:
    """The pieces of a chunked value are its chunks, in the order in which the manifest has them."""
    view = DictView()
    view.feed(chunk(b"cd", 2), chunk(b"ab", 1))
    assert view.chunks("t") == {1: b"cd", 2: b"ab"}
    view.feed(manifest(payload((2, b"ab"), (1, b"cd"))))
    assert view.values("t", "1") == {"a": b"abcd"}


def test_chunks_alone_are_no_thread() -> None:
    """Until the manifest comes nothing is there that could be seen."""
    view = DictView()
    view.feed(chunk(b"ab"))
    assert THREADS not in view.dump()
    assert view.pending() == {1}


def test_manifest_keeps_its_chunks() -> None:
    """What a manifest names waits no more, and other chunks do."""
    view = DictView()
    view.feed(chunk(b"ab"), chunk(b"cd", 2), chunk(b"ef", 3))
    view.feed(manifest(payload((1, b"ab"), (3, b"ef"))))
    assert view.pending() == {2}


def test_pending_chunk_tells_what_its_erasure_takes() -> None:
    """Thread, time and key of the record stand in the view."""
    view = DictView()
    view.feed(chunk(b"ab", 7))
    data = next(iter(view.dump()[b"h"].values()))
    expected = Pending(1, T, 0, 1_001, record_key("t", ID, 7))
    assert data == expected.pack()


def test_large_body_and_metadata_are_where_they_lie() -> None:
    """A row holds the places of what lies in chunks, never the bytes."""
    view, large = DictView(), payload((1, b"ab"))
    new = manifest(large)
    assert isinstance(new.event, CheckpointSaved)
    event = replace(new.event, body=large, metadata_payloads={"user": large})
    view.feed(chunk(b"ab"), replace(new, event=event))
    row = view.row("t", "1")
    assert (row.body, row.metadata_payloads) == (large, {"user": large})


def test_large_write_is_where_it_lies() -> None:
    """A task's writes hold places too, beside the bytes of small ones."""
    view, large = DictView(), payload((1, b"ab"))
    small = wrote("t", "1", "task", (0, "a", b"small"))
    assert isinstance(small.event, WritesSaved)
    writes = (*small.event.writes, Write(1, "b", large))
    event = replace(small.event, writes=writes, chunked_at=1_000)
    view.feed(chunk(b"ab"), NewEvent("t", event, ID), saved("t", "1"))
    assert view.writes("t", "1") == {("task", 0): b"small", ("task", 1): b""}
    assert view.pending() == set()


def test_missing_chunk_harms_its_value_alone() -> None:
    """Nothing is parked by what a manifest names in vain, and other values can be read."""
    view = DictView()
    new = manifest(payload((99, b"ab")))
    assert isinstance(new.event, CheckpointSaved)
    other = saved("t", "1", {"b": b"B"})
    assert isinstance(other.event, CheckpointSaved)
    channels = {**new.event.channels, **other.event.channels}
    view.feed(replace(new, event=replace(new.event, channels=channels)))
    assert view.values("t", "1") == {"a": b"(gone)", "b": b"B"}
    assert view.known("t").parked is None


def test_chunked_value_is_extended() -> None:
    """What grows from a chunked value refers to ranges of its chunks."""
    view = DictView()
    base = view.feed(chunk(b"abc"), chunk(b"def", 2), manifest(payload((1, b"abc"), (2, b"def"))))
    grown = Extended(None, base, "bytes", b"<", 1, 5, b">", digest_of(b"<bcde>"))
    view.feed(saved("t", "2", {"a": ChannelState(2, grown)}, parent="1"))
    assert view.values("t", "2") == {"a": b"<bcde>"}


def test_late_manifest_is_void() -> None:
    """It changes nothing, and waits for its erasure with its chunks."""
    view = DictView()
    view.feed(chunk(b"ab"))
    view.fold([late(manifest(payload((1, b"ab"))), 2)])
    assert THREADS not in view.dump()
    assert view.pending() == {1, 2}


def test_manifest_is_in_time_up_to_the_last_moment() -> None:
    """The lifetime itself is not too late."""
    view = DictView()
    view.feed(chunk(b"ab"))
    new = manifest(payload((1, b"ab")), chunked_at=1_001)
    view.fold([late(new, 2)])
    assert view.values("t", "1") == {"a": b"ab"}


def test_tombstones_leave_no_trace() -> None:
    """Chunk and void manifest are gone from the view as if they had never been."""
    view, first, new = DictView(), chunk(b"ab"), manifest(payload((1, b"ab")))
    view.feed(first)
    view.fold([late(new, 2)])
    view.next_offset = 3
    view.feed(Tombstone(first), Tombstone(new))
    assert view.dump() == {}


def test_chunk_of_a_past_life_is_void() -> None:
    """It is noted, to be erased with the rest of that life, and not kept."""
    view = DictView()
    view.feed(saved("t", "1"), deleted("t"), chunk(b"ab"))
    assert view.chunks("t") == {}
    assert view.pending() == set()
    assert len(view.dump()[RECORDS + T]) == 3


def test_deletion_ends_what_was_pending() -> None:
    """Chunks of the life before are unreachable, whether or not the thread had a record."""
    for front in ([], [saved("t", "1")]):
        view = DictView()
        view.feed(*front, chunk(b"ab"))
        view.feed(deleted("t"))
        assert view.pending() == set()
        assert view.chunks("t", view.known("t").incarnation) == {}
        assert T + epoch_of(0) in view.dead()


def test_chunk_begins_the_life_that_it_names() -> None:
    """Where the deletion is gone from the log, the first chunk behind it tells of it as well."""
    view = DictView()
    view.feed(saved("t", "1"), chunk(b"ab", incarnation=2))
    assert view.known("t").incarnation == 2
    assert view.ids("t") == []
    view.feed(manifest(payload((2, b"ab")), incarnation=2))
    assert view.values("t", "1") == {"a": b"ab"}


def test_orphan_does_not_name_an_erased_thread() -> None:
    """A chunk leaves nothing of its thread's id where the tombstone would not remove it."""
    view = DictView()
    view.feed(saved("t", "1"), deleted("t"), erased("t", 2), chunk(b"ab", incarnation=2))
    assert view.known("t").thread_id is None


def test_put_that_overtakes_a_copy_finds_its_chunks() -> None:
    """Chunks from before the copy's end are there for a manifest behind it."""
    view = DictView()
    view.feed(chunk(b"ab"), saved("t", "0", copy_id=COPY), copied("t", 1))
    view.feed(manifest(payload((1, b"ab"))))
    assert view.values("t", "1") == {"a": b"ab"}
    assert view.ids("t") == ["0", "1"]


def test_copy_has_chunks_too() -> None:
    """What is staged in chunks can be read once the copy is complete."""
    view = DictView()
    view.feed(chunk(b"ab"), manifest(payload((1, b"ab")), copy_id=COPY), copied("t", 1))
    assert view.values("t", "1") == {"a": b"ab"}


def test_deleted_copy_takes_its_chunks_along() -> None:
    """Both the copy's life and the place of the chunks are marked as dead."""
    view = DictView()
    view.feed(chunk(b"ab"), manifest(payload((1, b"ab")), copy_id=COPY), copied("t", 1))
    view.feed(deleted("t"))
    assert {T + COPY, T + epoch_of(0)} <= view.members[DEAD]


def test_parked_thread_lets_chunks_wait() -> None:
    """What comes behind an unreadable event waits, and what was in front is kept for it."""
    view = DictView()
    view.feed(saved("t", "0"), chunk(b"ab"), Poison("t"), chunk(b"cd", 2))
    assert view.waiting("t") == [3, 4]
    assert view.pending() == {2}
    view.feed(manifest(payload((2, b"ab"), (4, b"cd"))))
    assert view.waiting("t") == [3, 4, 5]
    assert view.pending() == set()


@pytest.mark.parametrize("size", [0, 3])
def test_payload_of_no_chunks_is_empty(size: int) -> None:
    """Chunks without bytes count for nothing."""
    view = DictView()
    view.feed(*[chunk(b"", 1 + n) for n in range(size)])
    view.feed(manifest(payload(*[(1 + n, b"") for n in range(size)])))
    assert view.values("t", "1") == {"a": b""}
