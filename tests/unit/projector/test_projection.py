"""The fold of a thread's lives: deletion, erasure, copies, and threads that wait."""

from __future__ import annotations

import pytest

from eventstore.events import (
    INHERITED,
    CheckpointsDeleted,
    LogNudged,
    NewEvent,
)
from projector.layout import epoch_of, placed_epoch
from tests.contracts.view_suite import (
    Item,
    Poison,
    Tombstone,
    deleted,
    removed,
    saved,
    wrote,
)
from tests.folding import COPY, DictView, copied, erased


@pytest.fixture
def view() -> DictView:
    return DictView()


class TestDeletion:
    def test_a_deleted_thread_holds_nothing(self, view: DictView) -> None:
        """One record tells all: the epoch changes, what the old one held is dead."""
        view.feed(saved("t", "1"), wrote("t", "1", "x", (0, "a", b"w")), saved("u", "1"))
        old = view.scope("t")
        at = view.feed(deleted("t"))
        record = view.known("t")
        assert (record.incarnation, record.count, record.activity_ms) == (at, 0, 0)
        assert record.epoch == epoch_of(at)
        assert view.rows("t") == {}
        assert view.dead() == {old}
        assert view.ids("u") == ["1"]

    def test_a_thread_that_never_was_can_be_deleted(self, view: DictView) -> None:
        """A deletion is never rejected."""
        at = view.feed(deleted("t"))
        assert view.known("t").incarnation == at

    @pytest.mark.parametrize(
        "late",
        [
            saved("t", "2", {"a": b"late"}),
            wrote("t", "1", "x", (0, "a", b"late")),
            removed("t", "1"),
            saved("t", "2", copy_id=COPY),
        ],
        ids=["put", "writes", "removal", "staged"],
    )
    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_appends_of_an_older_incarnation_are_void(
        self, view: DictView, late: NewEvent, *, is_one_batch: bool
    ) -> None:
        """They change nothing that shows, and are remembered as records of the past."""
        start: list[Item] = [saved("t", "0"), deleted("t")]
        view.feed(*start)
        new = saved("t", "1", {"a": b"new"}, incarnation=2)
        if is_one_batch:
            view.feed(late, new, late)
        else:
            for item in (late, new, late):
                view.feed(item)
        assert view.ids("t") == ["1"]
        assert view.values("t", "1") == {"a": b"new"}
        assert view.writes("t", "1") == {}
        staged: bytes | None = getattr(late.event, "copy_id", None)
        assert view.log_records("t")[late.event_id] == (staged or epoch_of(0))

    def test_writes_of_an_older_life_do_not_show(self, view: DictView) -> None:
        """The same ids in a new incarnation begin empty, in one batch with the deletion too."""
        view.feed(
            saved("t", "1", {"a": b"old"}),
            wrote("t", "1", "x", (0, "a", b"old")),
            deleted("t"),
            saved("t", "1", {"a": INHERITED}, incarnation=3),
            wrote("t", "1", "y", (0, "a", b"new"), incarnation=3),
        )
        assert view.writes("t", "1") == {("y", 0): b"new"}
        assert view.values("t", "1") == {"a": b"(unresolved)"}

    def test_each_deletion_begins_an_incarnation(self, view: DictView) -> None:
        """Two deletions in a row are two incarnations; the first one's appends are void."""
        view.feed(saved("t", "1"), deleted("t"), deleted("t"))
        view.feed(saved("t", "1", incarnation=2), saved("t", "2", incarnation=3))
        assert view.ids("t") == ["2"]
        assert len(view.dead()) == 2

    def test_a_deletion_that_is_gone_is_noticed(self, view: DictView) -> None:
        """An append of a later incarnation ends the ones before it, as the deletion did."""
        view.feed(saved("t", "1", {"a": b"old"}))
        old = view.scope("t")
        view.feed(
            saved("t", "2", {"a": b"new"}, incarnation=7),
            saved("t", "3"),
            saved("u", "1"),
        )
        assert view.ids("t") == ["2"]
        assert view.known("t").incarnation == 7
        assert view.dead() == {old}

    def test_no_deletion_goes_back(self, view: DictView) -> None:
        """One that stands in front of the present incarnation is the past."""
        view.feed(saved("t", "1", incarnation=7), deleted("t"))
        assert view.known("t").incarnation == 7
        assert view.ids("t") == ["1"]

    def test_records_are_filed_by_what_they_say(self, view: DictView) -> None:
        """What is noted of a record does not depend on the records in front of it."""
        put, cut, late, staged = (
            saved("t", "1"),
            deleted("t"),
            wrote("t", "1", "x"),
            saved("t", "2", copy_id=COPY),
        )
        view.feed(put, cut, late, staged)
        assert view.log_records("t") == {
            put.event_id: epoch_of(0),
            cut.event_id: placed_epoch(2),
            late.event_id: epoch_of(0),
            staged.event_id: COPY,
        }


class TestErasure:
    def test_a_marker_takes_the_name_away(self, view: DictView) -> None:
        """Once a deleted thread is erased, its record keeps no more than the incarnation."""
        put, cut = saved("t", "1"), deleted("t")
        view.feed(put, cut)
        view.feed(Tombstone(put), erased("t", 2), Tombstone(cut))
        record = view.known("t")
        assert (record.thread_id, record.incarnation) == (None, 2)
        assert view.log_records("t") == {}

    def test_a_marker_stands_for_its_deletion(self, view: DictView) -> None:
        """Where the deletion is gone the marker voids what is left of the older incarnation."""
        view.feed(saved("t", "1"), erased("t", 5), saved("t", "2"), saved("t", "3", incarnation=5))
        assert view.ids("t") == ["3"]
        assert view.known("t").thread_id == "t"

    def test_a_marker_of_the_past_changes_nothing(self, view: DictView) -> None:
        """A thread that lives on, or was deleted again, keeps its name."""
        view.feed(deleted("t"), saved("t", "1", incarnation=1), erased("t", 1))
        assert view.known("t").thread_id == "t"
        cut = view.feed(deleted("t"))
        view.feed(erased("t", 1))
        assert (view.known("t").thread_id, view.known("t").incarnation) == ("t", cut)

    def test_an_erased_thread_can_live_again(self, view: DictView) -> None:
        """The next append of its incarnation brings the name back; a void one does not."""
        view.feed(deleted("t"), erased("t", 1), saved("t", "0"))
        assert view.known("t").thread_id is None
        view.feed(saved("t", "1", incarnation=1))
        assert view.known("t").thread_id == "t"
        assert view.ids("t") == ["1"]

    def test_a_tombstone_forgets_a_record_only(self, view: DictView) -> None:
        """Nothing that shows depends on a tombstone, or on there being none."""
        event = saved("t", "1", {"a": b"A"})
        view.feed(event, Tombstone(event), Tombstone(saved("u", "1")))
        assert view.log_records("t") == {}
        assert view.values("t", "1") == {"a": b"A"}
        assert view.record("u") is None

    def test_a_tombstone_without_a_name_changes_nothing(self, view: DictView) -> None:
        """A key that is not ours belongs to no thread."""
        view.feed(Tombstone(NewEvent(None, LogNudged())))
        assert view.dump() == {}


class TestCopies:
    def test_a_copy_shows_all_at_once(self, view: DictView) -> None:
        """Staged events show nowhere until the copy is complete; then they are the thread."""
        first = saved("t", "1", {"a": b"A"}, copy_id=COPY)
        staged: list[Item] = [
            first,
            saved(
                "t",
                "2",
                {"a": INHERITED},
                parent="1",
                parent_event=first,
                copy_id=COPY,
                metadata={"run_id": "r"},
            ),
            wrote("t", "2", "x", (0, "a", b"w"), copy_id=COPY),
        ]
        view.feed(*staged)
        assert view.rows("t") == {}
        assert view.known("t").count == 0
        before = view.scope("t")
        at = view.feed(copied("t", 2))
        assert view.ids("t") == ["1", "2"]
        assert view.values("t", "2") == {"a": b"A"}
        assert view.writes("t", "2") == {("x", 0): b"w"}
        record = view.known("t")
        assert (record.count, record.activity_ms, record.epoch) == (2, 1_000 + at, COPY)
        assert view.dead() == {before}

    def test_a_copied_thread_lives_on(self, view: DictView) -> None:
        """Later events continue what was copied, in one batch with the copy's end too."""
        first = saved("t", "1", {"a": b"A"}, copy_id=COPY)
        items: list[Item] = [
            first,
            copied("t", 1),
            saved("t", "2", {"a": INHERITED}, parent="1", parent_event=first),
            wrote("t", "1", "x", (0, "a", b"w")),
            removed("t", "1"),
        ]
        view.feed(*items)
        assert view.ids("t") == ["2"]
        assert view.values("t", "2") == {"a": b"A"}

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_a_put_that_won_the_race_voids_the_copy(
        self, view: DictView, *, is_one_batch: bool
    ) -> None:
        """A target that holds a checkpoint keeps it; the copy's scope is dead."""
        items = [saved("t", "1", copy_id=COPY), saved("t", "own"), copied("t", 1)]
        for batch in [items] if is_one_batch else [[item] for item in items]:
            view.feed(*batch)
        assert view.ids("t") == ["own"]
        assert view.dead() == {view.scope("t", COPY)}

    def test_writes_alone_do_not_void_a_copy(self, view: DictView) -> None:
        """A target without a checkpoint is free."""
        view.feed(wrote("t", "1", "x", (0, "a", b"orphan")), saved("t", "1", copy_id=COPY))
        view.feed(copied("t", 1))
        assert view.ids("t") == ["1"]
        assert view.writes("t", "1") == {}

    def test_a_deletion_voids_a_copy_under_way(self, view: DictView) -> None:
        """A copy of an older incarnation never shows."""
        view.feed(saved("t", "1", copy_id=COPY), deleted("t"), copied("t", 1))
        assert view.rows("t") == {}
        assert view.scope("t", COPY) in view.dead()

    def test_a_copy_into_a_deleted_thread_shows(self, view: DictView) -> None:
        """It belongs to the incarnation that it names."""
        at = view.feed(saved("t", "0"), deleted("t"))
        view.feed(saved("t", "1", incarnation=at, copy_id=COPY), copied("t", 1, incarnation=at))
        assert view.ids("t") == ["1"]
        again = view.feed(deleted("t"))
        assert view.known("t").epoch == epoch_of(again)

    def test_staged_removals_stay_in_the_copy(self, view: DictView) -> None:
        """A removal that was copied removes nothing of the target."""
        view.feed(saved("t", "1"))
        view.feed(NewEvent("t", CheckpointsDeleted(0, (("", "1"),), COPY)))
        assert view.ids("t") == ["1"]

    def test_an_abandoned_copy_dies_when_it_is_erased(self, view: DictView) -> None:
        """The tombstone of a staged record marks its scope; one of a copy that shows does not."""
        staged = saved("t", "1", copy_id=COPY)
        view.feed(staged)
        view.feed(Tombstone(staged))
        assert view.dead() == {view.scope("t", COPY)}
        other = DictView()
        other.feed(staged, copied("t", 1), Tombstone(staged))
        assert other.ids("t") == ["1"]
        assert other.scope("t") not in other.dead()


class TestParking:
    def test_later_events_wait_behind_an_unreadable_record(self, view: DictView) -> None:
        """The thread stops in front of it, whatever comes, and tells the first one's reason."""
        view.feed(saved("t", "1"), Poison("t", "bad", b"p" * 16), saved("t", "2"))
        view.feed(Poison("t", "worse"), wrote("t", "1", "x", (0, "a", b"w")), removed("t", "1"))
        view.feed(copied("t", 1))
        assert view.known("t").parked == (2, "bad")
        assert view.known("t").parked_last == 4
        assert view.waiting("t") == [2, 3, 4, 5, 6, 7]
        assert view.ids("t") == ["1"]
        assert view.writes("t", "1") == {}

    def test_other_threads_go_on(self, view: DictView) -> None:
        """One bad event harms one thread."""
        view.feed(Poison("t"), saved("u", "1"), saved("t", "1"))
        assert view.ids("u") == ["1"]
        assert view.known("t").thread_id == "t"
        assert view.known("t").count == 0

    def test_unreadable_records_of_no_thread_hold_nothing_up(self, view: DictView) -> None:
        """They are reported at their partition."""
        view.feed(saved("t", "1"), Poison(None, "no name"), saved("t", "2"))
        assert view.poison() == {2: "no name"}
        assert view.ids("t") == ["1", "2"]

    def test_what_waits_is_a_record_of_its_thread(self, view: DictView) -> None:
        """It can be erased from the log like any other; a record without a key of ours cannot."""
        late = saved("t", "1")
        view.feed(Poison("t", event_id=b"p" * 16), Poison("t"), late)
        assert view.log_records("t") == {b"p" * 16: placed_epoch(1), late.event_id: epoch_of(0)}

    def test_what_is_erased_waits_no_more(self, view: DictView) -> None:
        """A void event may be erased while its thread is parked."""
        late = saved("t", "1")
        view.feed(deleted("t"), Poison("t"), late)
        assert view.waiting("t") == [2, 3]
        view.feed(Tombstone(late))
        assert view.waiting("t") == [2]

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_a_deletion_clears_a_parked_thread(self, view: DictView, *, is_one_batch: bool) -> None:
        """What waited is gone, and the thread goes on in its new incarnation."""
        items: list[Item] = [Poison("t"), saved("t", "1"), deleted("t")]
        for batch in [items] if is_one_batch else [[item] for item in items]:
            view.feed(*batch)
        assert view.known("t").parked is None
        assert view.waiting("t") == []
        view.feed(saved("t", "2", incarnation=3))
        assert view.ids("t") == ["2"]

    def test_a_thread_can_be_parked_again(self, view: DictView) -> None:
        """In one batch with the deletion that cleared it, only what came behind it waits."""
        view.feed(Poison("t", "old"), saved("t", "1"), deleted("t"), Poison("t", "new"))
        assert view.known("t").parked == (4, "new")
        assert view.waiting("t") == [4]

    def test_a_deletion_that_is_gone_clears_what_it_cleared(self, view: DictView) -> None:
        """An append of the new incarnation is applied, not held up by the old one's record."""
        view.feed(Poison("t"), saved("t", "1"), saved("t", "2", incarnation=7))
        assert view.known("t").parked is None
        assert view.waiting("t") == []
        assert view.ids("t") == ["2"]

    @pytest.mark.parametrize("proof", ["marker", "append"])
    def test_a_deletion_that_is_gone_clears_no_more(self, view: DictView, proof: str) -> None:
        """What cannot be read behind it still parks the thread, by its name."""
        view.next_offset = 7
        late = wrote("t", "1", "x", (0, "a", b"w"))
        item = erased("t", 5) if proof == "marker" else saved("t", "1", incarnation=5)
        at = view.feed(Poison("t", "bad"), late, item)
        record = view.known("t")
        assert (record.thread_id, record.incarnation, record.parked) == ("t", 5, (7, "bad"))
        assert view.waiting("t") == ([7, 8] if proof == "marker" else [7, 8, at])
        assert view.rows("t") == {}

    def test_records_on_both_sides_of_it_keep_the_thread_parked(self, view: DictView) -> None:
        """Rather parked than told to be whole."""
        view.feed(Poison("t"), saved("t", "1"), saved("t", "2"), Poison("t"), erased("t", 3))
        parked = view.known("t").parked
        assert parked is not None
        assert parked[0] == 4

    def test_a_marker_keeps_the_name_of_a_parked_thread(self, view: DictView) -> None:
        """Errors name it, and so does the record that it waits behind."""
        view.feed(deleted("t"), Poison("t"), erased("t", 1))
        assert view.known("t").thread_id == "t"
        view.feed(deleted("t"), erased("t", 4), Poison("t"))
        assert view.known("t").thread_id == "t"
