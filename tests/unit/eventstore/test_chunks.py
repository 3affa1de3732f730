"""Payloads that lie in chunks: which version says so, and when a manifest comes too late."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from msgspec.structs import replace

from eventstore import codec
from eventstore.errors import CorruptEventError
from eventstore.events import (
    CHUNK_LIFETIME_MS,
    MAX_CHUNKS,
    ChannelState,
    CheckpointSaved,
    ChunkedPayload,
    NewEvent,
    Payload,
    ThreadDeleted,
    Write,
    WritesSaved,
    chunked_payloads,
    is_void,
)
from tests.format_examples import golden

PLAIN = Payload("bytes", b"small")
CHUNKED = ChunkedPayload("bytes", b"", bytes(16), ((3, 10), (4, 5)))


def checkpoint(**fields: Any) -> CheckpointSaved:
    event = CheckpointSaved("", "1", None, None, 0, {}, PLAIN, {}, chunked_at=7)
    return replace(event, **fields)


MANIFESTS = [
    checkpoint(body=CHUNKED),
    checkpoint(metadata_payloads={"user": CHUNKED}),
    checkpoint(channels={"a": ChannelState(1, CHUNKED)}),
    WritesSaved("", "1", "task", "", 0, (Write(0, "a", CHUNKED),), chunked_at=7),
]


@pytest.mark.parametrize("event", MANIFESTS)
def test_manifest_is_for_readers_that_know_chunks(event: CheckpointSaved | WritesSaved) -> None:
    """An older reader stops in front of an event that it would misread, and at no other one."""
    encoded = codec.encode(NewEvent("t", event))
    assert dict(encoded.headers)["ce_eventversion"] == b"2"
    assert chunked_payloads(event) == [CHUNKED]


@pytest.mark.parametrize(
    "event", [checkpoint(chunked_at=None), WritesSaved("", "1", "task", "", 0, ())]
)
def test_event_without_chunks_is_for_every_reader(event: CheckpointSaved | WritesSaved) -> None:
    """What an older reader understands is written as it knows it."""
    encoded = codec.encode(NewEvent("t", event))
    assert dict(encoded.headers)["ce_eventversion"] == b"1"
    assert chunked_payloads(event) == []


@pytest.mark.parametrize("event", MANIFESTS)
def test_manifest_without_a_time_is_refused(event: CheckpointSaved | WritesSaved) -> None:
    """Nobody could tell later whether it came in time."""
    with pytest.raises(ValueError, match="chunked_at"):
        codec.encode(NewEvent("t", replace(event, chunked_at=None)))


@pytest.mark.parametrize("name", ["checkpoint.saved.v2", "writes.saved.v2"])
def test_record_of_a_manifest_without_a_time_is_corrupt(name: str) -> None:
    """A record that hides when its chunks were stored is no event."""
    record = golden(name)
    assert record.value is not None
    fields = msgpack.unpackb(record.value)
    del fields["chunked_at"]
    with pytest.raises(CorruptEventError, match="chunked_at"):
        codec.decode(replace(record, value=msgpack.packb(fields)))


@pytest.mark.parametrize(
    "chunked",
    [
        ["msgpack", None],
        ["msgpack", None, b"short", []],
        [None, None, bytes(16), []],
        ["msgpack", None, bytes(16), 1],
        ["msgpack", None, bytes(16), [[1]]],
        ["msgpack", None, bytes(16), [[1, -1]]],
        ["msgpack", None, bytes(16), [[1, 1]] * (MAX_CHUNKS + 1)],
    ],
)
def test_bad_list_of_chunks_is_corrupt(chunked: list[Any]) -> None:
    """Where chunks lie is checked in every place where a payload may stand."""
    kind, _, *rest = chunked
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("checkpoint.saved.v2", {"body": chunked}),
        ("checkpoint.saved.v2", {"metadata_payloads": {"user": chunked}}),
        ("checkpoint.saved.v2", {"channels": {"a": [1, 5, kind, *rest]}}),
        ("writes.saved.v2", {"writes": [[0, "a", *chunked]]}),
    ]
    for name, changed in wrong:
        record = golden(name)
        assert record.value is not None
        fields = {**msgpack.unpackb(record.value), **changed}
        with pytest.raises(CorruptEventError):
            codec.decode(replace(record, value=msgpack.packb(fields)))


def test_payload_has_the_size_of_its_chunks() -> None:
    """How large a payload is can be told without its chunks."""
    assert CHUNKED.size == 15


@pytest.mark.parametrize("event", MANIFESTS)
def test_manifest_that_comes_too_late_is_void(event: CheckpointSaved | WritesSaved) -> None:
    """The log's own times decide, to the millisecond."""
    assert not is_void(event, 7 + CHUNK_LIFETIME_MS)
    assert is_void(event, 7 + CHUNK_LIFETIME_MS + 1)
    assert not is_void(event, 0)


@pytest.mark.parametrize("event", [checkpoint(chunked_at=None), ThreadDeleted()])
def test_event_without_chunks_is_never_late(event: CheckpointSaved | ThreadDeleted) -> None:
    """Age voids nothing by itself."""
    assert not is_void(event, 1 << 60)
