"""The log in one SQLite file, and what a view needs to share that file.

`SqliteDatabase` owns the file; `SqliteEventLog` and the view are handed the same one.
"""

from .connection import SqliteConnection, writing
from .database import SqliteDatabase
from .log import SqliteEventLog

__all__ = ["SqliteConnection", "SqliteDatabase", "SqliteEventLog", "writing"]
