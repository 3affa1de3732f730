"""One SQLite file, opened safely: the embedded default keeps log and view in it."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import apsw

from eventstore.errors import EventStoreError, LogClosedError, LogIdentityError, LogUnavailableError

from .connection import BusyWait, SqliteConnection, writing
from .faults import check_library
from .statement import execute, row

MEMORY: Final = ":memory:"

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that a job waits for the file's lock."""

APPLICATION_ID: Final = 0x4C474B31
"""Marks a file as ours in its header (`LGK1`)."""

LAYOUT_VERSION: Final = 1
"""`user_version` of the file. A view has a version of its own in its own tables."""

_PRAGMAS: Final = """
    PRAGMA synchronous = FULL;
    PRAGMA mmap_size = 0;
    PRAGMA secure_delete = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA journal_size_limit = 67108864;
"""


class SqliteDatabase:
    """A file, or `:memory:`, that the log and the view of one process share.

    Whoever creates it closes it, after the log and the view. All that this process writes goes
    through one connection, so its writers queue up fairly instead of polling for the file's lock;
    other processes are met by `BEGIN IMMEDIATE` with a deadline. Readers have a connection each.
    `:memory:` is one connection for everything, and lives until `close`. Used from one event loop.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = DEFAULT_TIMEOUT) -> None:
        check_library(apsw.sqlite_lib_version())
        self._name = os.fspath(path)
        if not self._name:
            raise ValueError("the path of the database is empty")
        self._is_memory = self._name == MEMORY
        # Connections are opened later, when the working directory may be another one.
        self._path = MEMORY if self._is_memory else os.path.abspath(self._name)  # noqa: PTH100
        self._timeout = timeout
        self._opening = asyncio.Lock()
        self._writer: SqliteConnection | None = None
        self._readers: list[SqliteConnection] = []
        self._listeners: set[Callable[[], None]] = set()
        self._is_closed = False

    @property
    def name(self) -> str:
        """Return the path as it was given."""
        return self._name

    @property
    def is_memory(self) -> bool:
        """Tell whether it is in this process's memory only."""
        return self._is_memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def writer(self) -> SqliteConnection:
        """Return the connection that this process writes through, opened at the first call.

        Raises:
            LogIdentityError: The file is not one of ours; it was not touched.
            LogUnavailableError: It cannot be opened, or stays locked.
        """
        async with self._opening:
            self._refuse_closed()
            if self._writer is None:
                writer = self._connection(functools.partial(_connect, is_reader=False))
                await writer.open()
                self._writer = writer
            return self._writer

    async def reader(self) -> SqliteConnection:
        """Return a connection for reading; for `:memory:` it is the writer's.

        Open until `close`, or `release`.
        """
        writer = await self.writer()
        if self._is_memory:
            return writer
        reader = self._connection(functools.partial(_connect, is_reader=True))
        await reader.open()
        self._readers.append(reader)
        return reader

    async def release(self, reader: SqliteConnection) -> None:
        """Close a connection that `reader` returned."""
        if reader in self._readers:
            self._readers.remove(reader)
            await reader.close()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener` called, on the writer's OS thread, whenever `announce` is."""
        self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call `listener` no more."""
        self._listeners.discard(listener)

    def announce(self, *, but: Callable[[], None]) -> None:
        """Tell all listeners but one that records were committed. On any OS thread."""
        for listener in tuple(self._listeners):
            if listener is not but:
                listener()

    async def close(self) -> None:
        """Finish what was handed in and close all connections. Idempotent."""
        async with self._opening:
            self._is_closed = True
            writer, self._writer = self._writer, None
            readers, self._readers = self._readers, []
            for connection in [*readers, *([writer] if writer is not None else [])]:
                await connection.close()

    def _connection(
        self, connect: Callable[[str, str, BusyWait], apsw.Connection]
    ) -> SqliteConnection:
        return SqliteConnection(
            self._name, functools.partial(connect, self._path, self._name), timeout=self._timeout
        )

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise LogClosedError(self._name)


def _connect(path: str, name: str, busy: BusyWait, *, is_reader: bool) -> apsw.Connection:
    """Open the file and make it ours if it is empty. Runs on the connection's OS thread."""
    # Without SQLITE_OPEN_URI: a path that begins with `file:` is a path.
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(path, flags=flags)
    try:
        connection.set_busy_handler(busy)
        # Before anything is written: another program's database keeps its journal mode.
        is_empty = _is_empty_or_ours(connection, name)
        _refuse_read_only(connection, name)
        _use_wal(connection, name, busy)
        execute(connection, _PRAGMAS)
        if is_empty:
            _claim(connection, name)
        if is_reader:
            execute(connection, "PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_empty_or_ours(connection: apsw.Connection, name: str) -> bool:
    """Return True for an empty file, False for one of ours.

    Raises:
        LogIdentityError: It is neither.
    """
    try:
        application, version, objects, sample = row(
            connection,
            "SELECT (SELECT application_id FROM pragma_application_id), "
            "(SELECT user_version FROM pragma_user_version), "
            "(SELECT count(*) FROM sqlite_schema), "
            "(SELECT group_concat(name, ', ') FROM (SELECT name FROM sqlite_schema LIMIT 3))",
        )
    except apsw.NotADBError as error:
        raise _foreign(name, "a file that is no SQLite database") from error
    if application == APPLICATION_ID:
        if version > LAYOUT_VERSION:
            raise _foreign(name, f"layout version {version} of a newer release: upgrade")
        return False
    if application == 0 and objects == 0:
        return True
    raise _foreign(name, f"another program's database (with {sample or 'a mark of its own'})")


def _refuse_read_only(connection: apsw.Connection, name: str) -> None:
    # SQLite opens what it may not write without a word.
    if connection.readonly("main"):
        raise LogUnavailableError(name, reason="the file or its folder is read-only")


def _use_wal(connection: apsw.Connection, name: str, busy: BusyWait) -> None:
    """Switch to WAL. SQLite asks no busy handler when two connections switch at once: we do."""
    tries = 0
    while True:
        try:
            mode = row(connection, "PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if not busy(tries):
                raise
            tries += 1
        else:
            break
    if mode != "wal" and connection.filename:
        raise EventStoreError(
            f"{name}: the file system does not support SQLite's WAL mode (journal mode stays "
            f"{mode!r}); use a local disk"
        )


def _claim(connection: apsw.Connection, name: str) -> None:
    with writing(connection):
        # Another process may have been quicker.
        if _is_empty_or_ours(connection, name):
            execute(
                connection,
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT_VERSION}",
            )


def _foreign(name: str, found: str) -> LogIdentityError:
    return LogIdentityError(0, expected=f"{name} to be empty or a log of ours", found=found)
