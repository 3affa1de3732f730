"""Which thread, namespace and checkpoint a config names."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from saver.errors import InvalidConfigError
from saver.place import (
    MAX_THREAD_ID_BYTES,
    Place,
    ReadLevel,
    checkpoint_place_of,
    place_of,
    read_level_of,
    text_of,
    thread_id_of,
)


def config(**configurable: Any) -> Any:
    return {"configurable": configurable}


@pytest.mark.parametrize(
    ("configurable", "place"),
    [
        ({"thread_id": "t"}, Place("t", "", None)),
        ({"thread_id": "t", "checkpoint_ns": None}, Place("t", "", None)),
        ({"thread_id": "t", "checkpoint_id": None}, Place("t", "", None)),
        ({"thread_id": "t", "checkpoint_id": ""}, Place("t", "", None)),
        ({"thread_id": "", "checkpoint_ns": "a|b", "checkpoint_id": "1"}, Place("", "a|b", "1")),
        ({"thread_id": 7}, Place("7", "", None)),
        ({"thread_id": uuid.UUID(int=1)}, Place(str(uuid.UUID(int=1)), "", None)),
    ],
)
def test_a_config_names_a_place(configurable: dict[str, Any], place: Place) -> None:
    assert place_of(config(**configurable)) == place


def test_a_place_gives_back_its_config() -> None:
    place = Place("t", "ns", "1")
    assert place_of(place.config()) == place
    assert set(place.config().get("configurable", {})) == {
        *("thread_id", "checkpoint_ns", "checkpoint_id")
    }


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({}, "configurable"),
        (config(), "thread_id"),
        (config(thread_id=None), "thread_id"),
        (config(thread_id=True), "thread_id"),
        (config(thread_id=b"t"), "thread_id"),
        (config(thread_id="x" * (MAX_THREAD_ID_BYTES + 1)), "thread_id"),
        (config(thread_id="é" * MAX_THREAD_ID_BYTES), "thread_id"),
        (config(thread_id="\ud800"), "thread_id"),
        (config(thread_id="t", checkpoint_ns=1), "checkpoint_ns"),
        (config(thread_id="t", checkpoint_id=1), "checkpoint_id"),
        (config(thread_id="t", checkpoint_id="a\0b"), "checkpoint_id"),
    ],
)
def test_a_wrong_config_is_refused_by_its_key(wrong: Any, key: str) -> None:
    with pytest.raises(InvalidConfigError) as raised:
        place_of(wrong)
    assert raised.value.key == key
    assert isinstance(raised.value, ValueError)


def test_writes_need_a_checkpoint() -> None:
    with pytest.raises(InvalidConfigError, match="checkpoint_id"):
        checkpoint_place_of(config(thread_id="t"))


def test_a_limit_counts_bytes() -> None:
    """The longest id that fits is taken, whatever its characters take."""
    assert thread_id_of("x" * MAX_THREAD_ID_BYTES)
    assert thread_id_of("é" * (MAX_THREAD_ID_BYTES // 2))


def test_a_subclass_of_text_becomes_plain_text() -> None:
    class Name(str):
        __slots__ = ()

    assert type(text_of("k", Name("é"), 10)) is str


@pytest.mark.parametrize("level", list(ReadLevel))
def test_a_read_level_is_named_in_the_config(level: ReadLevel) -> None:
    asked = config(thread_id="t", __read_level=level.value)
    assert read_level_of(asked, ReadLevel.EVENTUAL) is level
    assert read_level_of(config(thread_id="t"), level) is level
    assert read_level_of(None, level) is level


def test_an_unknown_read_level_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"sometimes.*linearizable, session, eventual"):
        read_level_of(config(__read_level="sometimes"), ReadLevel.EVENTUAL)
