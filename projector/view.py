"""The port: what a view promises, in two protocols. Adapters: `RedisView` and `SqliteView`.

The writing half is three verbs over the maps and sorted sets of `layout`; it holds no rule of the
domain. The reading half answers the saver's questions; each answer is one consistent state of one
partition at a position, or an error. Implementers need not inherit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from eventstore.log import LogIdentity

from .layout import Row, StoredWrite, ThreadRecord
from .noted import Noted
from .pending import Pending

T_co = TypeVar("T_co", covariant=True)

Cell: TypeAlias = tuple[bytes, bytes]
"""(map key, field)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a partition's view has come, and which view it is. Stored together with the data."""

    generation: bytes
    """Random (8 bytes), new whenever the view starts from nothing."""
    fold_version: int
    identity: LogIdentity
    """Of the log that the view is built from."""
    next_offset: int
    """Everything below it is applied."""
    last_event_id: bytes
    """Event id of the last record that was applied (16 bytes), zeros when it had none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """State that a batch needs.

    Cells of `live` lie in the thread's live scope, as the thread's record names it: the adapter
    puts the scope behind the letter.
    """

    threads: Sequence[bytes]
    """Thread hashes whose records are wanted."""
    live: Sequence[tuple[bytes, bytes, bytes]]
    """(thread hash, letter, field)."""
    cells: Sequence[Cell] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """An answer to `Wanted`, read in one atomic step together with the progress."""

    progress: Progress | None
    """None when the partition has no view."""
    threads: dict[bytes, ThreadRecord]
    cells: dict[Cell, bytes | None]
    """Every wanted cell by its full key, None where there is nothing."""


@dataclass(slots=True)
class Changes:
    """What a batch does to the view, in absolute terms: applying it twice changes nothing more."""

    cells: dict[Cell, bytes | None] = field(default_factory=dict)
    """New value of each cell; None removes it."""
    members: dict[tuple[bytes, bytes], bool] = field(default_factory=dict)
    """(sorted set key, member) → whether it is in."""
    drops: list[bytes] = field(default_factory=list)
    """Keys to drop whole, before anything else."""


class ViewBehindError(Exception):
    """The view has not applied what the read wants. Caught by `catch_up`, never seen by users."""

    def __init__(self, applied: int) -> None:
        super().__init__(applied)
        self.applied = applied
        """Next offset of the view; 0 when the partition has none."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    """What the view answers, and the position of the state that it answered from."""

    applied: int
    """The next offset of that state: everything below it is in the answer."""
    value: T_co


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A channel's value as the view holds it, not yet checked against its digest."""

    offset: int
    """Offset of the event that stored it."""
    data: bytes | None
    """`layout.pack_value`'s bytes; None when the view lacks it (unresolved)."""


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as the view holds it."""

    thread: ThreadRecord
    namespace: str
    checkpoint_id: str
    row: Row
    parent_is_removed: bool
    """Whether the parent was there once and was removed."""
    values: dict[str, StoredValue]
    """The value of each channel that the row refers to."""
    writes: Sequence[StoredWrite]
    """In no particular order."""


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing, newest checkpoint id first."""

    checkpoints: Sequence[StoredCheckpoint]
    cursor: bytes | None
    """Pass it to get what follows; None at the end."""
    parked: Sequence[ThreadRecord] = ()
    """Parked threads that were met and left out."""


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """Part of a listing of threads, latest activity first."""

    threads: Sequence[tuple[ThreadRecord, StoredCheckpoint | None]]
    """Each with its newest checkpoint of the root namespace, without values and writes."""
    cursor: bytes | None
    parked: Sequence[ThreadRecord] = ()


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """What an ancestor walk found for one channel."""

    writes: Sequence[tuple[bytes, Sequence[StoredWrite]]]
    """Per ancestor, the nearest first: its event id and its writes for the channel, unordered."""
    seed: StoredValue | None
    """The nearest ancestor's value; None when the walk reached the root."""
    unresolved: str | None = None
    """Why the walk could not go on, when a value that it met refers to something missing."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which checkpoints a listing wants."""

    thread: bytes | None = None
    """Thread hash; None for all threads."""
    namespace: str | None = None
    """None for all namespaces."""
    checkpoint_id: str | None = None
    before: str | None = None
    """Only ids that are smaller as text (by code points)."""


@dataclass(frozen=True, slots=True)
class DeletedThread:
    """A thread that was deleted at least once; it may have gone on since."""

    thread: bytes
    """Its hash."""
    record: ThreadRecord
    noted: Sequence[Noted]
    """What the log holds of it, read after `record`."""
    is_complete: bool
    """Whether `noted` is all."""


@dataclass(frozen=True, slots=True)
class DeletedThreads:
    """Part of a walk over all threads that were deleted."""

    threads: Sequence[DeletedThread]
    cursor: bytes | None
    """Pass it to go on; None at the end."""


@dataclass(frozen=True, slots=True)
class PendingPage:
    """Part of a walk over what goes from the log unless an event names it."""

    entries: Sequence[Pending]
    cursor: bytes | None
    """Pass it to go on; None at the end."""


class ViewWriter(Protocol):
    """The writing half. Anyone may call it at any time; compare-and-set keeps the view right."""

    @property
    def name(self) -> str:
        """Return a name for people. Holds no secret."""
        ...

    async def setup(self) -> None:
        """Create what is missing and verify that the server is safe to use. Idempotent.

        Raises:
            UnsafeViewError: The server may drop keys by itself.
            ViewUnavailableError: The server does not answer.
        """
        ...

    async def progress(self, partition: int) -> Progress | None:
        """Return how far a partition's view has come, None when it has none."""
        ...

    async def begin(self, partition: int, start: Progress) -> bool:
        """Start a partition's view from nothing, as `start` says, if it has none.

        Returns False when there is one already.
        """
        ...

    async def discard(self, partition: int) -> None:
        """Forget a partition's view: its progress first and at once, the rest in small steps."""
        ...

    async def load(self, partition: int, wanted: Wanted) -> Loaded:
        """Read state and progress in one atomic step."""
        ...

    async def apply(
        self, partition: int, *, expected: Progress, changes: Changes, reached: Progress
    ) -> bool:
        """Apply changes and set the progress, in one atomic step, if it still is `expected`.

        Compares generation, fold version and next offset. Returns False, with nothing changed, when
        they differ. When the connection breaks the outcome is unknown: load again.
        """
        ...

    async def sweep(self, partition: int, *, limit: int = 200) -> bool:
        """Remove up to `limit` unreachable entries. Returns whether there is more to remove."""
        ...

    async def deleted_threads(
        self, partition: int, *, cursor: bytes | None, limit: int
    ) -> DeletedThreads:
        """Look at about `limit` threads; return those that were deleted and are noted in the log.

        Of each, about `limit` notes at most. A walk from None to the end meets every thread that
        was there all the while.
        """
        ...

    async def pending(self, partition: int, *, cursor: bytes | None, limit: int) -> PendingPage:
        """Return about `limit` entries of what no event has named yet, in no particular order.

        A walk from None to the end meets every entry that was there all the while.
        """
        ...

    async def dump(self, partition: int) -> dict[bytes, dict[bytes, bytes]]:
        """Return everything reachable in a partition: key → field → value (members: empty value).

        Reads in steps; meant for tests and digests while nothing is applied.
        """
        ...

    async def close(self) -> None:
        """Release what the view opened itself. Idempotent."""
        ...


class ViewReader(Protocol):
    """The reading half. `bound`: the smallest next offset that the answer must have applied.

    Payloads that lie in chunks are answered whole, however large they are. A `ChunkedPayload` that
    is not whole, and a value without data, lacks something that is not in the view.

    Every method raises `ViewBehindError` below the bound or without a view, `ThreadParkedError`
    for a parked thread (listings over all threads leave parked ones out and name them), and
    `ViewUnavailableError` when the server does not answer: never an empty answer for one of those.
    """

    async def thread(
        self, partition: int, bound: int, thread: bytes
    ) -> Answer[ThreadRecord | None]:
        """Return a thread's record."""
        ...

    async def checkpoint(
        self,
        partition: int,
        bound: int,
        *,
        thread: bytes,
        namespace: str,
        checkpoint_id: str | None,
    ) -> Answer[tuple[ThreadRecord | None, StoredCheckpoint | None]]:
        """Return one checkpoint, that with the greatest id when none is named, and its thread."""
        ...

    async def is_removed(
        self, partition: int, bound: int, *, thread: bytes, namespace: str, checkpoint_id: str
    ) -> Answer[bool]:
        """Tell whether a checkpoint of this id was removed in the thread's present life."""
        ...

    async def checkpoints(
        self,
        partition: int,
        bound: int,
        selection: Selection,
        *,
        cursor: bytes | None,
        limit: int,
        with_values: bool,
    ) -> Answer[Page]:
        """Return up to `limit` checkpoints, greatest id first; equal ids in a stable order.

        Without values, `values` and `writes` are empty, and a body that lies in chunks is not read.
        A page may hold fewer, so that its size is bounded.
        """
        ...

    async def history(
        self,
        partition: int,
        bound: int,
        *,
        thread: bytes,
        namespace: str,
        checkpoint_id: str | None,
        channels: Sequence[str],
    ) -> Answer[dict[str, StoredHistory]]:
        """Walk the parents of a checkpoint, removed ones too, until each channel has a value.

        A channel's walk ends at the nearest ancestor that has a value for it; that ancestor's
        writes belong to the answer. An unknown checkpoint has no ancestors.
        """
        ...

    async def threads(
        self, partition: int, bound: int, *, cursor: bytes | None, limit: int
    ) -> Answer[ThreadPage]:
        """Return up to `limit` threads that hold a checkpoint, latest activity first."""
        ...

    async def run(
        self, partition: int, bound: int, *, run_id: str
    ) -> Answer[Sequence[tuple[ThreadRecord, str, str]]]:
        """Return (thread, namespace, checkpoint id) of every visible checkpoint of a run."""
        ...

    async def exported(
        self, partition: int, bound: int, *, thread: bytes, cursor: bytes | None, limit: int
    ) -> Answer[Page]:
        """Return up to `limit` of a thread's checkpoints with values and writes, for copying.

        In the byte order of `TIMELINE`: oldest id first.
        """
        ...


class CheckpointView(ViewWriter, ViewReader, Protocol):
    """Both halves."""
