"""What `CheckpointView` promises of the walk over deleted threads."""

from __future__ import annotations

from projector.layout import epoch_of, placed_epoch
from projector.noted import Noted
from projector.view import CheckpointView, DeletedThread

from .view_suite import Poison, Projection, Tombstone, ViewSuite, deleted, hash_of, saved, wrote


async def walked(view: CheckpointView, *, limit: int = 200) -> dict[bytes, DeletedThread]:
    """Return all that a walk meets, by the thread's hash."""
    found: dict[bytes, DeletedThread] = {}
    cursor: bytes | None = None
    while True:
        page = await view.deleted_threads(0, cursor=cursor, limit=limit)
        found.update({each.thread: each for each in page.threads})
        cursor = page.cursor
        if cursor is None:
            return found


class DeletedSuite(ViewSuite):
    """Finding what is to be erased from the log."""

    async def test_walk_meets_deleted_threads_only(self, projection: Projection) -> None:
        """A thread that was never deleted is nobody's business."""
        await projection.feed(saved("kept", "1"), saved("gone", "1"), deleted("gone"))
        assert set(await walked(projection.view)) == {hash_of("gone")}

    async def test_walk_tells_what_the_log_holds(self, projection: Projection) -> None:
        """Each record of the thread is told with its place and what it belongs to."""
        first, cut, late = saved("t", "1"), deleted("t"), wrote("t", "1", "task")
        await projection.feed(saved("other", "1"), first, cut, late)
        found = (await walked(projection.view))[hash_of("t")]
        assert found.is_complete
        assert (found.record.thread_id, found.record.incarnation) == ("t", 2)
        assert sorted(found.noted, key=lambda note: note.offset) == [
            Noted(first.event_id, 0, epoch_of(0), 1),
            Noted(cut.event_id, 0, placed_epoch(2), 2),
            Noted(late.event_id, 0, epoch_of(0), 3),
        ]

    async def test_erased_records_are_told_no_more(self, projection: Projection) -> None:
        """A thread of which nothing is left in the log is not met."""
        first, cut = saved("t", "1"), deleted("t")
        await projection.feed(first, cut, saved("u", "1"), deleted("u"), Tombstone(first))
        found = await walked(projection.view)
        assert [note.event_id for note in found[hash_of("t")].noted] == [cut.event_id]
        await projection.feed(Tombstone(cut))
        assert set(await walked(projection.view)) == {hash_of("u")}

    async def test_long_history_is_told_in_part(self, projection: Projection) -> None:
        """Of a thread with many records some are told, and that they are not all."""
        await projection.feed(Poison("t"), *[saved("t", f"{n:04}") for n in range(1_000)])
        await projection.feed(deleted("t"))
        found = (await walked(projection.view, limit=50))[hash_of("t")]
        assert not found.is_complete
        assert 0 < len(found.noted) < 1_000

    async def test_walk_meets_every_thread(self, projection: Projection) -> None:
        """However many threads there are, each deleted one is met in one of the pages."""
        for number in range(300):
            await projection.feed(saved(f"{number}", "1"), deleted(f"{number}"))
        await projection.feed(*[saved(f"kept {number}", "1") for number in range(300)])
        expected = {hash_of(f"{number}") for number in range(300)}
        assert set(await walked(projection.view, limit=20)) == expected

    async def test_missing_view_has_no_deleted_threads(self, view: CheckpointView) -> None:
        """Where there is no view there is nothing to erase yet."""
        assert await walked(view) == {}
