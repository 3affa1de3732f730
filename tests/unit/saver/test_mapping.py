"""LangGraph's arguments become events: what is stored full, inherited or empty, what is plain."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from eventstore.codec import digest_of
from eventstore.events import EMPTY, INHERITED, CheckpointSaved, Full
from saver.bases import Bases
from saver.encoding import Encoder
from saver.errors import InvalidConfigError
from saver.lineage import Known
from saver.mapping import draft_of, writes_event, writes_of
from saver.place import Place
from saver.serde import Serde

SERDE = Serde(JsonPlusSerializer())
PARENT = Known(7, b"p" * 16, {"x": 1, "y": 1, "gone": 1}, {}, is_confirmed=True)


def draft(
    values: dict[str, Any],
    versions: dict[str, Any],
    new: dict[str, Any],
    *,
    parent: Known | None = None,
    metadata: Any = None,
    **others: Any,
) -> Any:
    checkpoint: Any = {"id": "2", "channel_values": values, "channel_versions": versions, **others}
    place = Place("t", "ns", None if parent is None else "1")
    told: Any = metadata or {}
    return draft_of(SERDE, checkpoint, told, place=place, new_versions=new, parent=parent)


def event(made: Any, parent: Known | None) -> CheckpointSaved:
    return Encoder(made, b"e" * 16, parent, Bases()).event(7)


def full(value: Any) -> Full:
    payload = SERDE.dumped(value)
    found = event(draft({"x": value}, {"x": 1}, {"x": 1}), None).channels["x"].value
    assert isinstance(found, Full)
    assert found.payload == payload
    assert found.digest == digest_of(payload.data)
    return found


def test_a_changed_channel_is_stored_full() -> None:
    full([1, 2])


def test_a_new_version_without_a_value_is_empty() -> None:
    """As delta channels and emptied ephemeral ones have it."""
    saved = event(draft({}, {"x": 2}, {"x": 2}, parent=PARENT), PARENT)
    assert saved.channels["x"].value == EMPTY
    assert saved.parent_event is None


def test_an_unchanged_channel_is_inherited_from_a_known_parent() -> None:
    """Also where no value is given; the event names the parent's event."""
    made = draft({"x": 2, "y": 9}, {"x": 2, "y": 1, "gone": 1}, {"x": 2}, parent=PARENT)
    saved = event(made, PARENT)
    assert saved.channels["y"].value == INHERITED
    assert saved.channels["gone"].value == INHERITED
    assert saved.channels["x"].value == full(2)
    assert (saved.parent_id, saved.parent_event, saved.incarnation) == ("1", b"p" * 16, 7)


@pytest.mark.parametrize("version", [2, 1.0, "1"])
def test_another_version_is_never_inherited(version: Any) -> None:
    """A channel that is not at the parent's very version is stored as it is given."""
    made = draft({"x": "given"}, {"x": version}, {}, parent=PARENT)
    assert event(made, PARENT).channels["x"].value == full("given")


def test_without_a_known_parent_every_given_value_is_stored() -> None:
    """And a channel without a value is empty."""
    made = draft({"x": "given"}, {"x": 1, "y": 1}, {})
    saved = event(made, None)
    assert saved.channels["x"].value == full("given")
    assert saved.channels["y"].value == EMPTY
    assert not made.is_self_contained


def test_an_unconfirmed_parent_stands_for_nothing() -> None:
    """Where the parent is not acknowledged yet, values are serialized and serve in its stead."""
    under_way = Known(7, b"p" * 16, {"x": 1}, {}, is_confirmed=False)
    made = draft({"x": "given"}, {"x": 1}, {}, parent=under_way)
    assert made.is_self_contained
    assert event(made, None).channels["x"].value == full("given")


def test_plain_metadata_stands_in_the_event() -> None:
    """Other values are payloads; what is nearly plain is not taken for plain."""
    plain: dict[str, Any] = {
        "a": [1, {"b": None}],
        "t": True,
        "f": 1.5,
        "y": b"x",
        "e": {},
        "big": 2**64 - 1,
    }
    others = {"u": uuid.UUID(int=1), "t2": (1,), "k": {1: "int key"}, "n": [[(1,)]]}
    saved = event(draft({}, {}, {}, metadata={**plain, **others}), None)
    assert saved.metadata == plain
    assert set(saved.metadata_payloads) == set(others)


def test_the_rest_of_a_checkpoint_is_its_body() -> None:
    """Whatever keys a LangGraph adds are kept, apart from what the event holds itself."""
    saved = event(draft({"x": 1}, {"x": 1}, {"x": 1}, v=4, ts="now", new_key=[1]), None)
    body = SERDE.restored(saved.body)
    assert body == {"v": 4, "ts": "now", "new_key": [1]}


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ({"x": True}, "bool"),
        ({"x": None}, "NoneType"),
        ({"x": 2**64}, "64 bits"),
        ({1: 1}, "expected text"),
        ({"\ud800": 1}, "UTF-8"),
    ],
)
def test_what_cannot_be_stored_is_named(versions: Any, told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        draft({}, versions, {})


@pytest.mark.parametrize("key", [1, "\ud800"])
def test_metadata_keys_are_texts(key: Any) -> None:
    with pytest.raises(InvalidConfigError, match="metadata"):
        draft({}, {}, {}, metadata={key: 1})


@pytest.mark.parametrize("text", ["\ud800", "é\udc00"])
def test_metadata_without_a_form_in_utf8_is_the_serializers(text: str) -> None:
    """LangGraph's saves a lone surrogate, as a question mark; an event's plain part cannot."""
    saved = event(draft({}, {}, {}, metadata={"a": text, "b": [{"c": text}], "é": "é"}), None)
    assert saved.metadata == {"é": "é"}
    assert set(saved.metadata_payloads) == {"a", "b"}
    with pytest.raises(TypeError, match="surrogates"):
        draft({}, {}, {}, metadata={"a": {text: 1}})


def test_writes_have_langgraphs_indices() -> None:
    """Special writes have their own negative ones, others their place in the call."""
    channels = ["a", *WRITES_IDX_MAP, "b"]
    parts = writes_of(SERDE, [(channel, 1) for channel in channels], "task", "path")
    saved = writes_event(Place("t", "ns", "1"), parts, event_id=b"e" * 16, incarnation=3)
    assert [write.index for write in saved.writes] == [
        0,
        *WRITES_IDX_MAP.values(),
        len(channels) - 1,
    ]
    assert (saved.namespace, saved.checkpoint_id, saved.task_id) == ("ns", "1", "task")
    assert (saved.task_path, saved.incarnation) == ("path", 3)
