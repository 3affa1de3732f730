"""Running SQL in three ways, which is all that the log and the view need of apsw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import apsw


def execute(
    connection: apsw.Connection,
    sql: str,
    values: Sequence[object] = (),
    *,
    can_cache: bool = True,
) -> None:
    """Run one or more statements for their effect, to the last one."""
    # apsw stops at the first row that a statement gives, as some pragmas do, until it is fetched.
    connection.execute(sql, cast("Any", values), can_cache=can_cache).fetchall()


def row(connection: apsw.Connection, sql: str, values: Sequence[object] = ()) -> Any:
    """Return a query's only row as a tuple, a single column as it is, None when there is no row."""
    return connection.execute(sql, cast("Any", values)).get


def rows(connection: apsw.Connection, sql: str, values: Sequence[object] = ()) -> list[Any]:
    """Return all rows of a query. Each is a step of its own: meant for few."""
    return cast("list[Any]", connection.execute(sql, cast("Any", values)).fetchall())
