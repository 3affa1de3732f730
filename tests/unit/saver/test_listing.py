"""What `list` selects and which metadata matches."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.codec import thread_hash
from projector.view import Selection
from saver.errors import InvalidConfigError
from saver.listing import matches, selection_of

T = thread_hash("t")


@pytest.mark.parametrize(
    ("config", "before", "selection"),
    [
        (None, None, Selection()),
        (None, {"checkpoint_id": "5"}, Selection(before="5")),
        (None, {}, Selection()),
        ({"thread_id": "t"}, None, Selection(T)),
        ({"thread_id": "t", "checkpoint_ns": ""}, None, Selection(T, "")),
        ({"thread_id": "t", "checkpoint_ns": None}, None, Selection(T)),
        (
            {"thread_id": "t", "checkpoint_ns": "a", "checkpoint_id": "1"},
            {"thread_id": "other", "checkpoint_id": "5"},
            Selection(T, "a", "1", "5"),
        ),
    ],
)
def test_a_config_selects_checkpoints(config: Any, before: Any, selection: Selection) -> None:
    """A missing namespace means all of them, the empty one the root; `before` is an id only."""
    given: Any = None if config is None else {"configurable": config}
    end: Any = None if before is None else {"configurable": before}
    assert selection_of(given, end) == selection


def test_a_listing_of_a_thread_needs_its_id() -> None:
    with pytest.raises(InvalidConfigError, match="thread_id"):
        selection_of({"configurable": {}}, None)


@pytest.mark.parametrize(
    ("metadata", "wanted", "is_match"),
    [
        ({}, None, True),
        ({"a": 1}, {}, True),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({}, {"a": None}, True),
        ({"k": True}, {"k": True}, True),
        ({"k": "true"}, {"k": True}, False),
        ({"k": {"n": [1, None]}}, {"k": {"n": [1, None]}}, True),
    ],
)
def test_metadata_matches_by_equality(metadata: Any, wanted: Any, is_match: bool) -> None:  # noqa: FBT001
    assert matches(metadata, wanted) is is_match
