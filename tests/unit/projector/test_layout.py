"""Keys, fields, members and rows: whatever goes in comes out, and sorts as it should."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.events import Payload, Version
from projector.layout import (
    EPOCH_BYTES,
    NO_EVENT,
    Row,
    StoredWrite,
    ThreadRecord,
    Unresolved,
    ValueRef,
    checkpoint_field,
    epoch_of,
    is_copy,
    namespace_prefix,
    newest_member,
    ordered,
    pack_removed,
    pack_writes,
    placed_epoch,
    run_member,
    run_prefix,
    split_checkpoint_field,
    split_newest_member,
    split_run_member,
    split_timeline_member,
    stored_writes,
    timeline_member,
    unordered,
    unpack_removed,
    unpack_writes,
    value_field,
    write_member,
)
from projector.noted import record_field
from projector.values import pack_value, unpack_value

ODD = [
    "",
    "1",
    "10",
    "1|2:3/4,5",
    "\0",
    "\0\0\1",
    "a\0b",
    "a\1b",
    "a",
    "\1",
    "\1\1",
    "\1\2",
    "\2",
    "é",
    "😀",
    "\uffff",
    "x" * 400,
    "é" * 400,
]
SCOPES = [bytes(32), b"\xff" * 32, b"\0\1" * 16]

texts = st.one_of(st.sampled_from(ODD), st.text(max_size=12))
"""Any text that UTF-8 can hold; the codec refuses others."""


class TestNames:
    @given(texts, texts)
    def test_a_checkpoint_field_is_read_back(self, namespace: str, checkpoint_id: str) -> None:
        """Namespace and id come back whatever they hold."""
        field = checkpoint_field(namespace, checkpoint_id)
        assert split_checkpoint_field(field) == (namespace, checkpoint_id)

    @given(texts, texts)
    def test_a_timeline_member_is_read_back(self, checkpoint_id: str, namespace: str) -> None:
        """Id and namespace come back whatever they hold."""
        member = timeline_member(checkpoint_id, namespace)
        assert split_timeline_member(member) == (checkpoint_id, namespace)

    @given(texts, st.sampled_from(SCOPES), texts)
    def test_a_newest_member_is_read_back(
        self, checkpoint_id: str, scope: bytes, namespace: str
    ) -> None:
        """Id, scope and namespace come back whatever they hold."""
        member = newest_member(checkpoint_id, scope, namespace)
        assert split_newest_member(member) == (checkpoint_id, scope, namespace)

    @given(texts, st.sampled_from(SCOPES), texts, texts)
    def test_a_run_member_is_read_back(
        self, run_id: str, scope: bytes, namespace: str, checkpoint_id: str
    ) -> None:
        """Scope, namespace and id come back, and the run is the member's front."""
        member = run_member(run_id, scope, namespace, checkpoint_id)
        assert split_run_member(member) == (scope, namespace, checkpoint_id)
        assert member.startswith(run_prefix(run_id))

    def test_different_names_are_different(self) -> None:
        """No two pairs of texts share a field or a member, however they are cut."""
        pairs = list(product(ODD, ODD))
        for name in (checkpoint_field, timeline_member):
            assert len({name(*pair) for pair in pairs}) == len(pairs)
        assert len({run_member(a, SCOPES[0], b, "") for a, b in pairs}) == len(pairs)
        members = {write_member(ns, "1", life, task) for ns, task in pairs for life in (0, 1)}
        assert len(members) == 2 * len(pairs)
        assert len({record_field(NO_EVENT, part) for part in (0, 1, 65_535)}) == 3
        assert value_field(1, "a") != value_field(0, "\1a")

    def test_no_run_is_another_ones_front(self) -> None:
        """A run's entries are exactly those that begin with its prefix."""
        members = {run: run_member(run, SCOPES[0], "n", "1") for run in ODD}
        for run in ODD:
            found = [name for name, m in members.items() if m.startswith(run_prefix(run))]
            assert found == [run]


class TestOrder:
    @given(texts)
    def test_ordered_bytes_are_read_back(self, text: str) -> None:
        """A text comes back from bytes that hold no NUL."""
        data = ordered(text)
        assert b"\0" not in data
        assert unordered(data) == text

    @given(texts, texts)
    def test_ordered_bytes_sort_as_the_texts(self, one: str, other: str) -> None:
        """Also with an end mark, whatever follows it."""
        assert (ordered(one) < ordered(other)) == (one < other)
        marked = [ordered(text) + b"\0" + tail for text, tail in ((one, b"\xff"), (other, b"\0"))]
        if one != other:
            assert (marked[0] < marked[1]) == (one < other)

    @pytest.mark.parametrize("namespace", ["", "n", "é\0"])
    def test_ids_sort_as_texts(self, namespace: str) -> None:
        """In every index the members of one place stand in the order of the ids' code points."""
        ids = sorted(ODD)
        prefix = namespace_prefix(namespace)
        for members in (
            [prefix + checkpoint_id.encode() for checkpoint_id in ids],
            [timeline_member(checkpoint_id, namespace) for checkpoint_id in ids],
            [newest_member(checkpoint_id, SCOPES[1], namespace) for checkpoint_id in ids],
        ):
            assert all(one < other for one, other in pairwise(members))

    def test_ids_sort_before_scopes_and_namespaces(self) -> None:
        """Checkpoints of all threads are in the order of their ids first."""
        for one, other in pairwise(sorted(ODD)):
            for low, high in product(SCOPES, SCOPES):
                assert newest_member(one, low, "z") < newest_member(other, high, "")
            assert timeline_member(one, "z") < timeline_member(other, "")

    def test_ids_are_plain_in_their_members(self) -> None:
        """An ordinary id stands there as it is."""
        assert timeline_member("1ef", "n") == b"1ef\0n\0\0\0\1"


class TestEpochs:
    def test_epochs_are_told_apart(self) -> None:
        """The epoch of an incarnation, of a place and of a copy are never alike."""
        offsets = [0, 1, 255, 1 << 40, (1 << 63) - 1]
        epochs = [*map(epoch_of, offsets), *map(placed_epoch, offsets)]
        assert len(set(epochs)) == len(epochs)
        assert {len(epoch) for epoch in epochs} == {EPOCH_BYTES}
        assert not any(map(is_copy, epochs))
        assert is_copy(b"0123456789abcdef")

    def test_epochs_sort_as_their_offsets(self) -> None:
        """A later incarnation's epoch is greater."""
        epochs = [epoch_of(offset) for offset in (0, 1, 255, 256, 1 << 40)]
        assert epochs == sorted(epochs)


class TestThreadRecords:
    @pytest.mark.parametrize("thread_id", [None, *ODD])
    @pytest.mark.parametrize(
        ("parked", "last"), [(None, 0), ((7, "bad \0 é"), 7), ((1 << 40, ""), (1 << 40) + 1)]
    )
    def test_a_record_is_read_back(
        self, thread_id: str | None, parked: tuple[int, str] | None, last: int
    ) -> None:
        """All fields come back, and a script finds epoch and parking in front."""
        record = ThreadRecord(b"e" * 16, 1 << 50, thread_id, 3, 1_700_000_000_000, parked, last)
        data = record.pack()
        assert ThreadRecord.unpack(data) == record
        assert data[:16] == b"e" * 16
        assert data[16] == (parked is not None)


class TestRows:
    def row(self, **changes: Any) -> Row:
        fields: dict[str, Any] = {
            "event_id": bytes(range(16)),
            "offset": 1 << 40,
            "life": 3,
            "parent_id": "p",
            "channels": {},
            "timestamp_ms": 1_700_000_000_000,
            "body": Payload("msgpack", b"\0body"),
            "metadata": {"source": "loop", "step": -1, "x": [1, {"y": None}]},
            "metadata_payloads": {"writes": Payload("json", b"{}")},
        }
        return Row(**(fields | changes))

    @pytest.mark.parametrize("parent_id", [None, *ODD])
    def test_a_parent_is_read_back(self, parent_id: str | None) -> None:
        """No parent is another one than a parent with an empty id."""
        row = self.row(parent_id=parent_id)
        assert Row.unpack(row.pack()) == row

    @pytest.mark.parametrize("version", [0, 1 << 62, -1, 1.5, "", "00001.0.5", "é\0"])
    @pytest.mark.parametrize("ref", [None, 0, 1 << 40, Unresolved(0, ""), Unresolved(9, "why \0")])
    def test_a_channel_is_read_back(self, version: Version, ref: ValueRef) -> None:
        """Version and reference keep their types, whatever stands beside them."""
        row = self.row(channels={"a": (version, ref), "b": (1, None), "c": (2, 7)})
        found = Row.unpack(row.pack())
        assert found == row
        assert type(found.channels["a"][0]) is type(version)

    def test_odd_channel_names_are_read_back(self) -> None:
        """Names of any text, in the order of the event."""
        channels: dict[str, tuple[Version, ValueRef]] = {
            name: (number, number) for number, name in enumerate(ODD)
        }
        found = Row.unpack(self.row(channels=channels).pack())
        assert list(found.channels.items()) == list(channels.items())

    def test_metadata_is_read_back(self) -> None:
        """Plain values keep their types; keys may be any text."""
        metadata = {key: [key, b"\0\xff", 1 << 63, -1, 1.5, True, None] for key in ODD}
        payloads = {key: Payload("", key.encode()) for key in ODD}
        row = self.row(metadata=metadata, metadata_payloads=payloads)
        assert Row.unpack(row.pack()) == row

    def test_a_script_finds_the_references(self) -> None:
        """Event id, place, life, parent and channels stand in front, as the layout says."""
        row = self.row(parent_id="p", channels={"ab": (1, 5)})
        assert row.pack().startswith(
            bytes(range(16))
            + (1 << 40).to_bytes(8)
            + b"\0\0\0\3"
            + b"\1\0\0\0\1p"
            + b"\0\1"
            + b"\0\2ab\1"
            + (5).to_bytes(8)
        )


class TestValues:
    @pytest.mark.parametrize("kind", ODD)
    @pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 70_000])
    def test_a_value_is_read_back(self, kind: str, data: bytes) -> None:
        """Type, bytes and digest come back."""
        payload = Payload(kind, data)
        assert unpack_value(pack_value(payload, b"d" * 16)) == (payload, b"d" * 16)

    @pytest.mark.parametrize("life", [0, 1, (1 << 32) - 1])
    def test_a_removal_is_read_back(self, life: int) -> None:
        """Life and event id come back."""
        assert unpack_removed(pack_removed(life, b"e" * 16)) == (life, b"e" * 16)

    @given(texts, texts, texts, st.integers(0, 1 << 31))
    def test_writes_are_read_back(
        self, namespace: str, checkpoint_id: str, task_id: str, life: int
    ) -> None:
        """The member names the task, the entry holds its writes in their order."""
        writes = [(0, "~p", "a", "msgpack", b"\0"), (-3, "", "é", "", b""), (7, "~", "", "x", b"x")]
        data = pack_writes(writes)
        assert unpack_writes(data) == writes
        member = write_member(namespace, checkpoint_id, life, task_id)
        assert stored_writes(member, data) == [
            StoredWrite(path, task_id, index, channel, Payload(kind, payload))
            for index, path, channel, kind, payload in writes
        ]
