"""What became of a record: its verdict, and the search for it when no answer came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from eventstore.errors import (
    AppendOutcomeUnknownError,
    EventStoreError,
    EventTooLargeError,
    LogUnavailableError,
)
from eventstore.log import Appended, LogRecord

from .producer import Outgoing
from .reader import Reader

_SIZE_REFUSALS: Final[tuple[type[Exception], ...]] = (
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)

_REFUSALS: Final[tuple[type[Exception], ...]] = (
    *_SIZE_REFUSALS,
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
)
"""Answers by which the broker says that it has not stored the batch, and would not."""


class Pending:
    """One record between its append and its verdict."""

    __slots__ = ("after", "deadline", "is_looked_up", "partition", "record", "refusal", "verdict")

    def __init__(
        self, partition: int, record: Outgoing, deadline: float, verdict: asyncio.Future[Appended]
    ) -> None:
        self.partition = partition
        self.record = record
        self.deadline = deadline
        self.verdict = verdict
        """The caller's. Cancelled by the caller at will: it decides nothing but who listens."""
        self.after: int | None = None
        """None until a producer has it, and nothing takes it back any more. Then it stands in the
        log at this offset or behind, if it does."""
        self.is_looked_up = False
        """It is being searched for, at most once."""
        self.refusal: BaseException | None = None
        """The broker's answer, if that says that the record was not stored."""

    @property
    def name(self) -> tuple[bytes, bool]:
        """What tells it from every other record: its key, and whether it is a tombstone."""
        return self.record.key, self.record.value is None

    @property
    def event_id(self) -> str:
        """The event's id, for people."""
        return self.record.key.decode(errors="replace").rsplit("/", 2)[-2]

    def accept(self, place: Appended) -> None:
        """Tell the caller where it is."""
        if not self.verdict.done():
            self.verdict.set_result(place)

    def reject(self, error: EventStoreError, cause: BaseException | None) -> None:
        """Tell the caller that it failed."""
        if not self.verdict.done():
            error.__cause__ = cause
            self.verdict.set_exception(error)
            # Read here as well: a caller that went away is no reason for asyncio to complain.
            self.verdict.exception()


class Outcomes:
    """Searches the log for records without an answer: one scan per partition for all at once."""

    def __init__(
        self,
        reader: Reader,
        *,
        timeout: float,
        record_limit: Callable[[], Awaitable[int]],
        on_verdict: Callable[[Pending], None],
    ) -> None:
        self._reader = reader
        self._timeout = timeout
        self._record_limit = record_limit
        self._on_verdict = on_verdict
        # Partition → records that the next scan looks for, and the task that scans.
        self._wanted: dict[int, list[Pending]] = {}
        self._scans: dict[int, asyncio.Task[None]] = {}

    def look_up(self, pending: Pending) -> None:
        """Give a record its verdict by what the log holds."""
        if pending.is_looked_up:
            return
        pending.is_looked_up = True
        partition = pending.partition
        self._wanted.setdefault(partition, []).append(pending)
        if partition not in self._scans:
            self._scans[partition] = asyncio.create_task(
                self._scan(partition), name=f"kafka log: outcomes in partition {partition}"
            )

    async def close(self) -> None:
        """Stop searching."""
        scans = list(self._scans.values())
        for scan in scans:
            scan.cancel()
        await asyncio.gather(*scans, return_exceptions=True)

    async def _scan(self, partition: int) -> None:
        try:
            # Who comes while a scan is under way may stand behind its end: the next scan's.
            while wanted := self._wanted.pop(partition, None):
                open_ones = [pending for pending in wanted if not pending.verdict.done()]
                if open_ones:
                    await self._decide(partition, open_ones)
                for pending in wanted:
                    self._on_verdict(pending)
        finally:
            del self._scans[partition]

    async def _decide(self, partition: int, wanted: list[Pending]) -> None:
        places: dict[tuple[bytes, bool], LogRecord] = {}
        failure: BaseException | None = None
        try:
            async with asyncio.timeout(self._timeout):
                places = await self._reader.find(
                    partition,
                    min(pending.after or 0 for pending in wanted),
                    {pending.name for pending in wanted},
                )
        except (EventStoreError, TimeoutError) as error:
            failure = error
        for pending in wanted:
            place = places.get(pending.name)
            if place is not None:
                pending.accept(Appended(partition, place.offset, place.timestamp_ms))
            elif pending.refusal is not None:
                pending.reject(await self._refused(pending, pending.refusal), pending.refusal)
            else:
                pending.reject(self._unknown(pending), failure)

    async def _refused(self, pending: Pending, refusal: BaseException) -> EventStoreError:
        what = f"event {pending.event_id}"
        if isinstance(refusal, _SIZE_REFUSALS):
            try:
                limit = await self._record_limit()
            except EventStoreError:
                limit = 0
            if pending.record.size > limit:
                return EventTooLargeError(what, size=pending.record.size, limit=limit)
        return LogUnavailableError(what, reason=f"refused: {refusal!r}")

    def _unknown(self, pending: Pending) -> AppendOutcomeUnknownError:
        called = pending.deadline - self._timeout
        waited = asyncio.get_running_loop().time() - called
        return AppendOutcomeUnknownError(
            pending.event_id, partition=pending.partition, waited=round(waited, 3)
        )


def refusal_in(error: BaseException) -> BaseException | None:
    """Return the error if it says that the broker did not store the batch, and will not."""
    return error if isinstance(error, _REFUSALS) else None
