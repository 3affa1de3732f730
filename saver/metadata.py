"""Metadata: which values an event holds as they are, and which are payloads. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import msgpack
from langgraph.checkpoint.base import CheckpointMetadata

from eventstore.events import Payload

from .errors import InvalidConfigError
from .serde import Serde

MAX_PLAIN_BYTES: Final = 64 * 1024
"""Longer metadata is left to the serializer too: as a payload it may lie in chunks of its own."""

MAX_PLAIN_DEPTH: Final = 32
"""Metadata nested deeper than this is left to the serializer."""

_NOT_PLAIN: Final = object()
_SCALARS: Final = frozenset({bool, float, bytes, type(None)})


def split_metadata(
    serde: Serde, metadata: CheckpointMetadata
) -> tuple[dict[str, Any], dict[str, Payload]]:
    """Return the values that stay readable, and all others as payloads that are not sealed yet.

    Raises:
        InvalidConfigError: A key cannot be stored.
        Exception: The serializer's own error, unchanged.
    """
    plain: dict[str, Any] = {}
    payloads: dict[str, Payload] = {}
    for key, value in cast("dict[object, Any]", metadata).items():
        if not isinstance(key, str):
            raise InvalidConfigError(
                "metadata", reason=f"expected text keys, got {type(key).__name__}"
            )
        if not _is_encodable(key):
            raise InvalidConfigError("metadata", reason=f"{key!r} is not encodable as UTF-8")
        copied = _plain_copy(value) if serde.stays_readable(key) else _NOT_PLAIN
        if copied is _NOT_PLAIN or _is_long(copied):
            payloads[key] = serde.dumped(value)
        else:
            plain[key] = copied
    return plain, payloads


def _is_long(value: object) -> bool:
    if isinstance(value, str | bytes):
        return len(value) > MAX_PLAIN_BYTES
    return (
        bool(value)
        and isinstance(value, list | dict)
        and (len(msgpack.packb(value)) > MAX_PLAIN_BYTES)
    )


def _plain_copy(value: object, depth: int = 0) -> object:
    """Return a copy of what msgpack gives back exactly as it is, or `_NOT_PLAIN`."""
    kind = type(value)
    if kind is str:
        return value if _is_encodable(cast("str", value)) else _NOT_PLAIN
    if kind in _SCALARS:
        return value
    if kind is int:
        return value if -(1 << 63) <= cast("int", value) < 1 << 64 else _NOT_PLAIN
    if depth >= MAX_PLAIN_DEPTH:
        return _NOT_PLAIN
    items: Iterable[object]
    copied: object
    if kind is list:
        items = copied = [_plain_copy(item, depth + 1) for item in cast("list[Any]", value)]
    elif kind is dict and all(map(_is_plain_key, cast("dict[Any, Any]", value))):
        pairs = cast("dict[str, Any]", value).items()
        copied = {key: _plain_copy(item, depth + 1) for key, item in pairs}
        items = copied.values()
    else:
        return _NOT_PLAIN
    return _NOT_PLAIN if _NOT_PLAIN in items else copied


def _is_plain_key(key: object) -> bool:
    return type(key) is str and _is_encodable(key)


def _is_encodable(text: str) -> bool:
    """Tell whether a text has a form in UTF-8; one with a lone surrogate has none."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
