"""What SQLite reports, in the words of this package. No apsw exception leaves `sqlite`."""

from __future__ import annotations

import ctypes
from typing import Final

import apsw

from eventstore.errors import EventStoreError, LogUnavailableError

OLDEST_LIBRARY: Final = (3, 51, 3)
"""From 3.7.0 to 3.51.2 a write and a checkpoint at the same time can corrupt a WAL file."""


class MovedError(apsw.Error):
    """The file under an open connection is not the one at its path any more."""


_REASONS: Final[tuple[tuple[tuple[type[apsw.Error], ...], str], ...]] = (
    ((MovedError,), "the file was removed or replaced while it was open; close and open it again"),
    ((apsw.BusyError, apsw.LockedError), "another process kept it locked"),
    ((apsw.FullError,), "the disk is full"),
    ((apsw.ReadOnlyError, apsw.PermissionsError), "the file or its folder is read-only"),
    (
        (apsw.CantOpenError,),
        "it cannot be opened or created; it must be a file in a folder that exists, both writable",
    ),
    ((apsw.IOError,), "the disk or the file system failed"),
    ((apsw.NoMemError,), "out of memory"),
)

_NOTHING_STORED: Final = (
    MovedError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.ConstraintError,
    apsw.CorruptError,
    apsw.NotADBError,
)


def check_library(version: str) -> None:
    """Refuse a SQLite that can corrupt what it stores.

    Raises:
        EventStoreError: It is older than the fix.
    """
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_LIBRARY:
        oldest = ".".join(str(part) for part in OLDEST_LIBRARY)
        raise EventStoreError(
            f"SQLite {version} can corrupt a WAL file when one connection writes while another "
            f"checkpoints; {oldest} or newer is needed: upgrade apsw"
        )


def refuse_moved(connection: apsw.Connection) -> None:
    """Refuse what went to a file that nobody will open again: what it holds ends with this process.

    Raises:
        MovedError: The file was removed or replaced.
    """
    has_moved = ctypes.c_int(0)
    connection.filecontrol("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(has_moved))
    if has_moved.value:
        raise MovedError("another one, or none, is at its path")


def translated(error: apsw.Error, name: str) -> EventStoreError:
    """Return the error of ours that says what `error` means for the file `name`."""
    for kinds, reason in _REASONS:
        if isinstance(error, kinds):
            return LogUnavailableError(name, reason=f"{reason}: {error}")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return EventStoreError(
            f"{name} is damaged ({error}); restore the file, with its -wal, from a backup"
        )
    return EventStoreError(f"{name}: SQLite failed ({type(error).__name__}: {error})")


def may_be_stored(error: apsw.Error) -> bool:
    """Tell whether a failed commit may still show after a crash.

    A commit's last frame is written last, so a failed write leaves no whole commit behind. After a
    failed sync it is there, unseen by everyone until the file is recovered.
    """
    if isinstance(error, _NOTHING_STORED):
        return False
    # apsw's own description of its exceptions leaves this attribute out.
    return getattr(error, "extendedresult", None) != apsw.SQLITE_IOERR_WRITE
