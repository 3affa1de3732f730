"""The next version of a channel is greater, and of the type that is given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from saver.versions import next_version


def test_the_first_version_is_one() -> None:
    assert next_version(None) == 1


@given(
    st.integers(-(2**62), 2**62)
    | st.floats(-1e9, 1e9)
    | st.text(max_size=40)
    | st.from_regex(r"[0-9]{1,34}(\.[0-9]{1,16})?", fullmatch=True)
)
def test_the_next_version_is_greater_and_of_one_type(current: Any) -> None:
    following = next_version(current)
    assert type(following) is type(current)
    assert following > current


def test_versions_of_langgraphs_savers_keep_their_width() -> None:
    """A thread begun on another saver goes on with texts that still sort."""
    version: Any = None
    memory = InMemorySaver()
    for number in range(1, 12):
        version = memory.get_next_version(version, None)
        following = next_version(version)
        assert following == f"{number + 1:032}"
        assert following > version


@pytest.mark.parametrize("current", [True, b"1", (1,), object()])
def test_what_is_no_version_is_refused(current: Any) -> None:
    with pytest.raises(TypeError, match="channel version"):
        next_version(current)
