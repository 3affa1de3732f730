"""Events that can be read and not folded: whose fault it is, the event's or the view's."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from .errors import ViewCorruptedError
from .layout import (
    HIDDEN,
    REMOVED,
    ROWS,
    WRITES,
    Row,
    unpack_removed,
    unpack_writes,
)
from .view import Cell

FOLD_FAILURES: Final = (
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    struct.error,
)
"""What folding raises for content that it cannot take. Failures of the process are others: out of
memory or a lost connection stop it and blame no event."""


def blame_view(
    view: str, partition: int, cells: Mapping[Cell, bytes | None], cause: Exception
) -> None:
    """Raise if one of the cells that were loaded is not what the layout says.

    Raises:
        ViewCorruptedError: The view is to blame for `cause`; no event may be parked for it.
    """
    for (key, _), data in cells.items():
        if data is None:
            continue
        try:
            match key[:1]:
                case letter if letter in {ROWS, HIDDEN}:
                    Row.unpack(data)
                case letter if letter == REMOVED:
                    unpack_removed(data)
                case letter if letter == WRITES:
                    unpack_writes(data)
                case _:
                    pass
        except FOLD_FAILURES as error:
            raise ViewCorruptedError(
                view,
                partition=partition,
                reason=f"{key[:1].decode()!r} holds {data[:32]!r}: {error!r}",
            ) from cause
