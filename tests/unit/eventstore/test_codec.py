"""Events become bytes and come back, today's and yesterday's; what is no event raises."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

import msgpack
import pytest
import zstandard
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventstore import codec
from eventstore.body import BODIES
from eventstore.errors import CorruptEventError, UnknownEventVersionError
from eventstore.events import (
    ChannelState,
    CheckpointSaved,
    Full,
    LogNudged,
    NewEvent,
    Payload,
    ThreadDeleted,
    Write,
    WritesSaved,
    new_event_id,
)
from eventstore.log import LogRecord
from tests.event_strategies import new_events
from tests.format_examples import COMPRESSED, EXAMPLES, FOLDER, LARGE, TIME, golden, render

DELETED = NewEvent("thread", ThreadDeleted(), bytes(16))


def record_of(
    new: NewEvent = DELETED,
    *,
    key: bytes | None = None,
    value: bytes | None = None,
    headers: Mapping[str, bytes | None] | None = None,
) -> LogRecord:
    """Return an event's record with some of it replaced; a header that is None is left out."""
    encoded = codec.encode(new)
    named = {**dict(encoded.headers), **(headers or {})}
    return LogRecord(
        2,
        7,
        1_000,
        encoded.key if key is None else key,
        encoded.value if value is None else value,
        tuple([(name, content) for name, content in named.items() if content is not None]),
    )


def packed(fields: object) -> bytes:
    data: bytes = msgpack.packb(fields)
    return data


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_record_is_read_as_it_was_meant(name: str) -> None:
    """The pinned bytes of each event type decode to the same event in every release."""
    new = EXAMPLES[name]
    recorded = codec.decode(golden(name))
    assert (recorded.event, recorded.event_id, recorded.part) == (new.event, new.event_id, new.part)
    assert recorded.thread_id == new.thread_id
    assert (recorded.partition, recorded.offset) == (3, 42)
    assert recorded.timestamp_ms == 1_767_323_045_678


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_record_is_written_byte_for_byte(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key, headers and body of each event type are written as they are pinned."""
    monkeypatch.setattr(codec, "_now", lambda: TIME)
    monkeypatch.setattr(codec, "COMPRESS_FROM_BYTES", 1 << 30)
    assert render(codec.encode(EXAMPLES[name])) == (FOLDER / f"{name}.json").read_text()


def test_compressed_golden_record_is_read() -> None:
    """The body is one zstd frame that tells its size, and the record says so."""
    record = golden(COMPRESSED)
    assert dict(record.headers)["content-encoding"] == b"zstd"
    recorded = codec.decode(record)
    assert (recorded.event, recorded.part) == (LARGE.event, 2)


def test_every_event_type_has_a_golden_record() -> None:
    """No type and no version is without pinned bytes, and no pinned file is left out."""
    versions = {
        f"{body.type_name}.v{n}" for body in BODIES.values() for n in range(1, body.version + 1)
    }
    assert versions == set(EXAMPLES)
    assert {path.stem for path in FOLDER.iterdir()} == {*EXAMPLES, COMPRESSED}


@given(new_events())
def test_any_event_comes_back_equal(new: NewEvent) -> None:
    """Whatever an event holds, decoding its record gives it back."""
    recorded = codec.decode(record_of(new))
    assert recorded.event == new.event
    assert (recorded.event_id, recorded.part) == (new.event_id, new.part)
    assert recorded.thread_id == new.thread_id


@given(new_events())
def test_size_is_an_upper_bound(new: NewEvent) -> None:
    """No record takes more room in the log than was counted."""
    encoded = codec.encode(new)
    builder: Any = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=0, batch_size=1 << 30,
    )  # fmt: skip
    empty: int = builder.size()
    assert builder.append(0, 0, encoded.key, encoded.value, encoded.headers) is not None
    assert builder.size() - empty <= encoded.size


@pytest.mark.parametrize("name", EXAMPLES)
def test_unknown_fields_are_kept(name: str) -> None:
    """Fields of a later release survive being read and written by this one."""
    record = golden(name)
    assert record.value is not None
    fields = {**msgpack.unpackb(record.value), "later": [1, {"more": b"\0"}]}
    event = codec.decode(replace(record, value=packed(fields))).event
    assert event.unknown == {"later": [1, {"more": b"\0"}]}
    written = codec.encode(replace(EXAMPLES[name], event=event))
    again = record_of(value=written.value, headers=dict(written.headers))
    assert codec.decode(replace(again, key=written.key)).event == event


def test_longer_lists_of_a_later_release_are_accepted() -> None:
    """More elements behind the known ones of a write or a channel do no harm."""
    record = golden("writes.saved.v1")
    assert record.value is not None
    fields = msgpack.unpackb(record.value)
    for write in fields["writes"]:
        write.append("later")
    event = codec.decode(replace(record, value=packed(fields))).event
    assert event == EXAMPLES["writes.saved.v1"].event


def raise_version(monkeypatch: pytest.MonkeyPatch, *, to: int) -> None:
    """Let `thread.deleted` be of a later version for one test."""
    by_name: dict[str, Any] = vars(codec)["_BY_NAME"]
    body = dataclasses.replace(BODIES[ThreadDeleted], version=to)
    monkeypatch.setitem(by_name, "thread.deleted", body)


def test_old_version_climbs_one_step_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of version 1 passes through each upcaster in turn before it is loaded."""
    raise_version(monkeypatch, to=3)

    def from_1(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "steps": ["1 to 2"]}

    def from_2(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "steps": [*fields["steps"], "2 to 3"]}

    steps = {("thread.deleted", 1): from_1, ("thread.deleted", 2): from_2}
    monkeypatch.setattr(codec, "UPCASTERS", steps)
    assert codec.decode(record_of()).event.unknown == {"steps": ["1 to 2", "2 to 3"]}
    newest = record_of(headers={"ce_eventversion": b"3"})
    assert codec.decode(newest).event.unknown == {}


def test_version_without_a_way_up_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing upcaster is an error, not an event with holes."""
    raise_version(monkeypatch, to=2)
    with pytest.raises(CorruptEventError):
        codec.decode(record_of())


@pytest.mark.parametrize(
    ("headers", "type_name", "version"),
    [
        ({"ce_eventversion": b"2"}, "thread.deleted", 2),
        ({"ce_type": b"thread.dreamt"}, "thread.dreamt", 1),
    ],
)
def test_event_of_the_future_is_told_apart_from_a_corrupt_one(
    headers: dict[str, bytes], type_name: str, version: int
) -> None:
    """A newer type or version asks for an upgrade."""
    with pytest.raises(UnknownEventVersionError) as unknown:
        codec.decode(record_of(headers=headers))
    assert (unknown.value.type_name, unknown.value.version) == (type_name, version)
    assert (unknown.value.partition, unknown.value.offset) == (2, 7)


SQUEEZED = zstandard.ZstdCompressor().compress(packed({}))


@pytest.mark.parametrize(
    "record",
    [
        record_of(key=b""),
        record_of(key=b"no slashes"),
        record_of(key=b"thread/00/0"),
        record_of(key=b"thread/" + b"00" * 16 + b"/-1"),
        record_of(key=b"\xff/" + b"00" * 16 + b"/0"),
        replace(record_of(), value=None),
        record_of(headers={"ce_type": None}),
        record_of(headers={"ce_type": b"\xff"}),
        record_of(headers={"ce_eventversion": b"one"}),
        record_of(value=b""),
        record_of(value=b"\xc1"),
        record_of(value=packed([])),
        record_of(value=packed({}) + b"\x00"),
        record_of(value=b"\x91" * 100_000),
        record_of(value=packed({"a": 1}), headers={"content-encoding": b"zstd"}),
        record_of(value=SQUEEZED[:-1], headers={"content-encoding": b"zstd"}),
        record_of(value=SQUEEZED, headers={"content-encoding": b"br"}),
        record_of(NewEvent("thread", WritesSaved("", "c", "t", "", 0, ())), value=packed({})),
    ],
)
def test_what_is_no_event_is_corrupt(record: LogRecord) -> None:
    """Bytes that are no event of ours raise with their place, and nothing else."""
    with pytest.raises(CorruptEventError) as corrupt:
        codec.decode(record)
    assert (corrupt.value.partition, corrupt.value.offset) == (2, 7)


def test_body_that_claims_to_be_huge_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small frame that would grow beyond the limit is refused by the size that it tells."""
    monkeypatch.setattr(codec, "MAX_BODY_BYTES", 1_000)
    bomb = zstandard.ZstdCompressor().compress(bytes(2_000))
    with pytest.raises(CorruptEventError, match="2000"):
        codec.decode(record_of(value=bomb, headers={"content-encoding": b"zstd"}))


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("checkpoint.saved.v1", {"ns": 1}),
        ("checkpoint.saved.v1", {"parent_event": b"short"}),
        ("checkpoint.saved.v1", {"incarnation": -1}),
        ("checkpoint.saved.v1", {"channels": {"c": [1]}}),
        ("checkpoint.saved.v1", {"channels": {"c": [1, 9]}}),
        ("checkpoint.saved.v1", {"channels": {"c": [None, 3]}}),
        ("checkpoint.saved.v1", {"channels": {"c": [1, 2, "msgpack", "text", b"0" * 16]}}),
        ("checkpoint.saved.v1", {"channels": {"c": [1, 4, b"0" * 16, 1, "t", b"", 0, 1]}}),
        ("checkpoint.saved.v1", {"body": ["msgpack"]}),
        ("checkpoint.saved.v1", {"metadata": 1}),
        ("writes.saved.v1", {"writes": [["0", "c", "t", b""]]}),
        ("writes.saved.v1", {"copy": "text"}),
        ("checkpoints.deleted.v1", {"checkpoints": [["only a namespace"]]}),
        ("thread.copied.v1", {"copy": None}),
        ("thread.erased.v1", {"thread": "text"}),
        ("log.started.v1", {"partitions": "8"}),
    ],
)
def test_field_of_the_wrong_kind_is_corrupt(name: str, changed: dict[str, Any]) -> None:
    """A body whose fields are not what the format says is not half accepted."""
    record = golden(name)
    assert record.value is not None
    fields = {**msgpack.unpackb(record.value), **changed}
    with pytest.raises(CorruptEventError):
        codec.decode(replace(record, value=packed(fields)))


@pytest.mark.parametrize(
    ("size", "is_compressed"), [(10, False), (1_000, True)], ids=["small", "large"]
)
def test_bodies_are_compressed_when_it_pays(size: int, *, is_compressed: bool) -> None:
    """Repetition is squeezed from a certain size on; the record says whether it was."""
    write = Write(0, "channel", Payload("bytes", b"a" * size))
    encoded = codec.encode(NewEvent("thread", WritesSaved("", "c", "t", "", 0, (write,))))
    assert ("content-encoding", b"zstd") in encoded.headers or not is_compressed
    assert (len(encoded.value) < size) == is_compressed


def test_body_that_compression_does_not_shrink_stays_as_it_is() -> None:
    """Random bytes are not stored in a frame that makes them longer."""
    noise = b"".join(new_event_id() for _ in range(100))
    write = Write(0, "channel", Payload("bytes", noise))
    encoded = codec.encode(NewEvent("thread", WritesSaved("", "c", "t", "", 0, (write,))))
    assert noise in encoded.value
    assert "content-encoding" not in dict(encoded.headers)


def test_os_threads_encode_and_decode_at_once() -> None:
    """Several savers in one process, each on an OS thread, do not disturb each other."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        data = bytes([number]) * 4_000
        new = NewEvent(
            f"thread {number}",
            WritesSaved("", "c", "t", "", 0, (Write(0, "channel", Payload("bytes", data)),)),
        )
        try:
            for _ in range(1_000):
                assert codec.decode(record_of(new)).event == new.event
        except BaseException as error:  # noqa: BLE001 - carried to the test's own OS thread
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


@pytest.mark.parametrize(
    "new",
    [
        NewEvent("\ud800", ThreadDeleted()),
        NewEvent("thread", ThreadDeleted({"field": 1 << 64})),
        NewEvent("thread", ThreadDeleted({"field": object()})),
        NewEvent("thread", ThreadDeleted({"field": "\ud800"})),
        NewEvent(
            "thread",
            CheckpointSaved(
                "",
                "c",
                None,
                None,
                0,
                {"c": ChannelState(1 << 64, Full(Payload("t", b""), bytes(16)))},
                Payload("t", b""),
                {},
            ),
        ),
    ],
    ids=["thread id", "integer", "object", "text", "version"],
)
def test_what_cannot_be_encoded_is_refused(new: NewEvent) -> None:
    """An event that no reader could read is not written."""
    with pytest.raises((ValueError, TypeError)):
        codec.encode(new)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 10_000))
def test_key_comes_apart_as_it_was_made(thread_id: str, part: int) -> None:
    """A thread id may hold slashes, or be empty: the key still names it."""
    event_id = new_event_id()
    key = codec.record_key(thread_id, event_id, part)
    assert codec.split_record_key(key) == (thread_id, event_id, part)
    assert codec.encode(NewEvent(thread_id, ThreadDeleted(), event_id, part)).key == key


@pytest.mark.parametrize(
    ("record", "thread_id"),
    [
        (record_of(), "thread"),
        (record_of(value=b"garbage"), "thread"),
        (record_of(key=b"garbage"), "thread"),
        (replace(record_of(), key=None), "thread"),
        (record_of(key=b"garbage", headers={"ce_subject": b"\xff"}), None),
        (record_of(key=b"garbage", headers={"ce_subject": None}), None),
    ],
)
def test_unreadable_record_still_names_its_thread(record: LogRecord, thread_id: str | None) -> None:
    """By its key, or else by its subject, so that one bad event harms one thread."""
    assert codec.thread_of(record) == thread_id


def test_names_and_digests_are_what_the_format_says() -> None:
    """Other readers compute the same."""
    assert codec.thread_hash("thread").hex() == "39200d1e8a8dbbb6d7bcea51e02b99f0"
    assert codec.digest_of(b"value").hex() == "b9593f9e1096b5482cd35ed7e15d1f18"
    assert codec.encode(NewEvent(None, LogNudged())).key.startswith(b"housekeeping/")


def test_decoded_size_tells_what_decoding_costs() -> None:
    """A compressed body counts with its full size, anything else with what it takes."""
    assert codec.decoded_size(golden(COMPRESSED)) > 1_500
    assert codec.decoded_size(record_of()) == 1
    assert codec.decoded_size(record_of(value=b"\x28\xb5\x2f\xfd")) == 4
    assert codec.decoded_size(replace(record_of(), value=None)) == 0
