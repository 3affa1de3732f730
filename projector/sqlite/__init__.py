"""The view in SQLite: the port in the file that also holds the embedded default's log."""

from .view import SqliteView

__all__ = ["SqliteView"]
