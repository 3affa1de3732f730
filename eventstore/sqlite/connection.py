"""A SQLite connection with the one OS thread that uses it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

import apsw

from eventstore.errors import LogClosedError

from .faults import refuse_moved, translated
from .statement import execute

T = TypeVar("T")

_LONGEST_PAUSE: Final = 0.01
"""Seconds between two tries for the file's lock. SQLite's own waits grow to ten times as much."""


class BusyWait:
    """SQLite's busy handler: tries again until a deadline that each job sets anew."""

    def __init__(self) -> None:
        self.deadline = 0.0
        """On `time.monotonic`'s clock. Used by the connection's OS thread only."""
        self._never = threading.Event()

    def __call__(self, tries: int) -> bool:
        """Pause; return whether to try again."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return False
        self._never.wait(min(0.0005 * (tries + 1), _LONGEST_PAUSE, left))
        return True


@contextlib.contextmanager
def writing(connection: apsw.Connection) -> Generator[None]:
    """Hold the file's write lock from the first statement on; commit, or roll back and raise.

    IMMEDIATE, because a transaction that begins as a reader fails at once, whatever the timeout,
    when it wants to write and another one has written meanwhile.
    """
    execute(connection, "BEGIN IMMEDIATE")
    try:
        yield
        execute(connection, "COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after some errors; a failed ROLLBACK hides the cause.
        if connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                execute(connection, "ROLLBACK")
        raise


class SqliteConnection:
    """One connection and the OS thread that alone uses it.

    Jobs run one after another in the order in which they were handed in. What apsw raises in a job
    reaches its caller as an `EventStoreError`; other exceptions pass through.

    apsw gives up Python's global lock at every step of a statement, and a busy event loop returns
    it up to 5 ms later. So a job steps as rarely as it can: one statement for many rows in, one
    aggregated row for many rows out.
    """

    def __init__(
        self, name: str, connect: Callable[[BusyWait], apsw.Connection], *, timeout: float
    ) -> None:
        self._name = name
        self._connect = connect
        self._timeout = timeout
        self._busy = BusyWait()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="langgraph-sqlite")
        self._connection: apsw.Connection | None = None
        """Set and used by the OS thread only."""
        self._is_closed = False

    async def open(self) -> None:
        """Connect. Nothing is left behind when that fails."""
        try:
            await self.run(lambda _: None)
        except BaseException:
            await self.close()
            raise

    def submit(
        self, job: Callable[[apsw.Connection], T], *, timeout: float | None = None
    ) -> Future[T]:
        """Hand in a job from any OS thread.

        `timeout` is how long the job may wait for the file's lock, counted from this call: so a
        queue of jobs on a locked file fails after that time, and not one after the other.

        Raises:
            LogClosedError: The connection is closed.
        """
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        try:
            return self._thread.submit(self._do, job, deadline)
        except RuntimeError as error:
            raise LogClosedError(self._name) from error

    async def run(self, job: Callable[[apsw.Connection], T], *, timeout: float | None = None) -> T:
        """Hand in a job and return its result. Cancelled, it is dropped or runs to its end."""
        return await asyncio.wrap_future(self.submit(job, timeout=timeout))

    async def close(self) -> None:
        """Finish the jobs handed in, disconnect, end the OS thread. Idempotent."""
        if not self._is_closed:
            done = self._thread.submit(self._disconnect)
            self._is_closed = True
            try:
                await asyncio.shield(asyncio.wrap_future(done))
            finally:
                # The OS thread has nothing left to do; without a wait it may outlive this call.
                self._thread.shutdown(wait=done.done())

    def _do(self, job: Callable[[apsw.Connection], T], deadline: float) -> T:
        self._busy.deadline = deadline
        try:
            if self._connection is None:
                self._connection = self._connect(self._busy)
            result = job(self._connection)
            # Afterwards, so that nothing is acknowledged that went to a file without a name.
            refuse_moved(self._connection)
        except apsw.Error as error:
            raise translated(error, self._name) from error
        else:
            return result

    def _disconnect(self) -> None:
        if self._connection is not None:
            # Closing folds the WAL into the file when this is its last connection; if that fails,
            # the next one to open the file does it.
            with contextlib.suppress(apsw.Error):
                self._connection.close()
            self._connection = None
