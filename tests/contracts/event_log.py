"""The whole contract of the `EventLog` port; an adapter's test file only supplies the storage."""

from .log_append import AppendSuite
from .log_loss import LossSuite
from .log_read import ReadSuite
from .log_suite import LogStorage

__all__ = ["EventLogContract", "LogStorage"]


class EventLogContract(ReadSuite, AppendSuite, LossSuite):
    """Every promise of the port. A subclass supplies the fixture `storage`, a fresh one per test.

    `async def storage(self) -> AsyncIterator[LogStorage]`, or without `async`, as it likes.
    """
