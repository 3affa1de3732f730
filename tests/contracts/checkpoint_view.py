"""The whole contract of the `CheckpointView` port; an adapter's test only supplies the storage."""

from .view_apply import ApplySuite
from .view_deleted import DeletedSuite
from .view_growing import GrowingSuite
from .view_history import HistorySuite
from .view_large import LargeSuite
from .view_list import ListSuite
from .view_read import ReadSuite
from .view_suite import ViewStorage
from .view_sweep import SweepSuite

__all__ = ["CheckpointViewContract", "ViewStorage"]


class CheckpointViewContract(
    ApplySuite,
    ReadSuite,
    HistorySuite,
    ListSuite,
    SweepSuite,
    DeletedSuite,
    GrowingSuite,
    LargeSuite,
):
    """Every promise of the port. A subclass supplies the fixture `storage`, a fresh one per test.

    `async def storage(self) -> AsyncIterator[ViewStorage]`, or without `async`, as it likes.
    """
