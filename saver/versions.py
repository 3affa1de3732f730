"""Channel versions: the next one, of the type that is given."""

from __future__ import annotations

from typing import Any


def next_version(current: Any) -> Any:
    """Return a version greater than `current` and of its type; 1 when there is none.

    Texts begin with a zero-padded number in LangGraph's savers; its width is kept.

    Raises:
        TypeError: `current` is no int, float or str.
    """
    if current is None:
        return 1
    if isinstance(current, int | float) and not isinstance(current, bool):
        return current + 1
    if not isinstance(current, str):
        raise TypeError(f"a channel version is an int, float or str, not {type(current).__name__}")
    number = current.split(".", 1)[0]
    if number.isascii() and number.isdecimal():
        following = f"{int(number) + 1:0{len(number)}}"
        if following > current:
            return following
    return current + "0"
