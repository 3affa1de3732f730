"""The fold, event by event: what shows afterwards, and what never does."""

from __future__ import annotations

import pytest

from eventstore.codec import thread_hash
from eventstore.events import (
    EMPTY,
    INHERITED,
    ChannelState,
    CheckpointsDeleted,
    Extended,
    LogNudged,
    LogStarted,
    NewEvent,
    Referenced,
    ThreadCopied,
    ThreadErased,
)
from projector.layout import NO_EVENT, ThreadRecord, Unresolved, epoch_of, placed_epoch
from projector.projection import State, fold, independent, wanted_by
from tests.contracts.view_suite import (
    Item,
    Poison,
    Tombstone,
    deleted,
    entry_of,
    removed,
    saved,
    wrote,
)
from tests.folding import DictView

COPY = b"copy-id-of-16-b."


@pytest.fixture
def view() -> DictView:
    return DictView()


def erased(thread: str, incarnation: int) -> NewEvent:
    """Return the marker of an erased thread."""
    return NewEvent(None, ThreadErased(thread_hash(thread), incarnation))


def copied(thread: str, checkpoints: int, *, incarnation: int = 0) -> NewEvent:
    """Return the event that completes a copy."""
    return NewEvent(thread, ThreadCopied(COPY, "source", incarnation, checkpoints))


class TestCheckpoints:
    def test_a_saved_checkpoint_shows(self, view: DictView) -> None:
        """The row says what the event said, with the event's place."""
        event = saved("t", "1", {"a": b"A", "b": EMPTY}, parent="0", metadata={"source": "loop"})
        offset = view.feed(event)
        row = view.row("t", "1")
        assert (row.event_id, row.offset, row.life, row.parent_id) == (
            event.event_id,
            offset,
            0,
            "0",
        )
        assert (row.timestamp_ms, row.metadata) == (1_000 + offset, {"source": "loop"})
        assert row.channels == {"a": (1, offset), "b": (1, None)}
        assert view.values("t", "1") == {"a": b"A", "b": None}

    def test_the_thread_counts_what_is_visible(self, view: DictView) -> None:
        """An id put again counts once, a removed one no more."""
        view.feed(saved("t", "1"), saved("t", "2"), saved("t", "1"), saved("t", "1", namespace="n"))
        assert view.known("t").count == 3
        view.feed(removed("t", "1", "never"))
        assert view.known("t").count == 2

    def test_activity_is_the_last_change_of_what_shows(self, view: DictView) -> None:
        """Puts and removals are activity; the log's clock tells when, and never goes back."""
        put = view.feed(saved("t", "1"))
        assert view.known("t").activity_ms == 1_000 + put
        view.feed(wrote("t", "1", "task", (0, "a", b"w")))
        assert view.known("t").activity_ms == 1_000 + put
        cut = view.feed(removed("t", "1"))
        assert view.known("t").activity_ms == 1_000 + cut
        view.fold([entry_of(saved("t", "2"), view.next_offset, timestamp_ms=5)])
        view.check()
        assert view.known("t").activity_ms == 1_000 + cut

    def test_an_id_put_again_ends_at_its_last_content(self, view: DictView) -> None:
        """1, 2, 1 ends at 1; what was replaced stays readable by event id."""
        puts = [saved("t", "1", {"a": data}) for data in (b"one", b"two", b"one")]
        view.feed(*puts)
        assert view.values("t", "1") == {"a": b"one"}
        assert view.row("t", "1").event_id == puts[2].event_id
        assert view.hidden("t") == {puts[0].event_id, puts[1].event_id}

    def test_an_id_put_again_moves_to_its_new_run(self, view: DictView) -> None:
        """The index of runs follows the last put, also when the run is the same, or none."""
        scope = view.scope("t")
        for run_id, shows in (("r", "r"), ("r", "r"), ("s", "s"), (None, None), (7, None)):
            view.feed(saved("t", "1", metadata={"run_id": run_id}))
            for name in ("r", "s"):
                expected = {(scope, "", "1")} if name == shows else set[tuple[bytes, str, str]]()
                assert view.run(name) == expected

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_namespaces_and_threads_are_apart(self, view: DictView, *, is_one_batch: bool) -> None:
        """The same id in another namespace or thread is another checkpoint."""
        items = [
            saved("t", "1", {"a": b"t"}),
            saved("t", "1", {"a": b"n"}, namespace="n"),
            saved("u", "1", {"a": b"u"}),
        ]
        for batch in [items] if is_one_batch else [[item] for item in items]:
            view.feed(*batch)
        assert view.values("t", "1") == {"a": b"t"}
        assert view.values("u", "1") == {"a": b"u"}
        assert set(view.rows("t")) == {("", "1"), ("n", "1")}

    def test_housekeeping_events_change_nothing(self, view: DictView) -> None:
        """Identity records and nudges belong to no thread."""
        view.feed(NewEvent(None, LogStarted(b"l" * 16, 1)), NewEvent(None, LogNudged()))
        assert view.dump() == {}


class TestValues:
    def test_inherited_values_are_the_parents(self, view: DictView) -> None:
        """An inherited channel has what the parent has, through any number of parents."""
        first = saved("t", "1", {"a": b"A", "b": EMPTY})
        inherits = {"a": INHERITED, "b": INHERITED}
        second = saved("t", "2", inherits, parent="1", parent_event=first)
        third = saved("t", "3", inherits, parent="2", parent_event=second)
        view.feed(first, second)
        view.feed(third)
        assert view.values("t", "3") == {"a": b"A", "b": None}

    @pytest.mark.parametrize("version", [2, "1", 1.5])
    def test_only_the_same_version_is_inherited(self, view: DictView, version: object) -> None:
        """A parent with another version of the channel has nothing to inherit."""
        first = saved("t", "1", {"a": b"A"})
        state = ChannelState(version, INHERITED)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        view.feed(first, saved("t", "2", {"a": state}, parent="1", parent_event=first))
        assert view.values("t", "2") == {"a": b"(unresolved)"}

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_children_of_a_replaced_parent_keep_their_values(
        self, view: DictView, *, is_one_batch: bool
    ) -> None:
        """A child names its parent by event, so putting the parent's id again changes no child."""
        first, again = saved("t", "1", {"a": b"old"}), saved("t", "1", {"a": b"new"})
        of_first = saved("t", "2", {"a": INHERITED}, parent="1", parent_event=first)
        of_again = saved("t", "3", {"a": INHERITED}, parent="1", parent_event=again)
        items = [first, again, of_first, of_again]
        for batch in [items] if is_one_batch else [[item] for item in items]:
            view.feed(*batch)
        assert view.values("t", "2") == {"a": b"old"}
        assert view.values("t", "3") == {"a": b"new"}

    def test_children_of_a_removed_parent_keep_their_values(self, view: DictView) -> None:
        """What a removed checkpoint stored is still inherited from it."""
        first = saved("t", "1", {"a": b"A"})
        view.feed(first, removed("t", "1"))
        view.feed(saved("t", "2", {"a": INHERITED}, parent="1", parent_event=first))
        assert view.values("t", "2") == {"a": b"A"}

    def test_an_unknown_parent_gives_an_unresolved_value(self, view: DictView) -> None:
        """The value is unresolved and says where from; the checkpoint shows, nothing is parked."""
        unknown = saved("t", "0", {"a": b"A"})
        view.feed(
            saved("t", "1", {"a": INHERITED, "b": b"B"}, parent="0", parent_event=unknown),
            saved("t", "2", {"a": INHERITED}, parent="1"),
        )
        assert view.values("t", "1") == {"a": b"(unresolved)", "b": b"B"}
        assert view.values("t", "2") == {"a": b"(unresolved)"}
        _, ref = view.row("t", "1").channels["a"]
        assert isinstance(ref, Unresolved)
        assert unknown.event_id.hex() in ref.missing
        assert view.known("t").parked is None

    def test_what_is_unresolved_is_inherited_as_such(self, view: DictView) -> None:
        """A child inherits its parent's unresolved value, with the place that it is missing."""
        first = saved("t", "1", {"a": INHERITED})
        view.feed(first, saved("t", "2", {"a": INHERITED}, parent="1", parent_event=first))
        assert view.row("t", "2").channels["a"] == view.row("t", "1").channels["a"]

    def test_a_referenced_value_is_where_it_was_stored(self, view: DictView) -> None:
        """A reference needs no parent, and one to nothing is found out when it is read."""
        first = saved("t", "1", {"a": b"A"})
        at = view.feed(first)
        view.feed(
            saved("t", "2", {"a": Referenced(first.event_id, at), "b": Referenced(b"?" * 16, 99)})
        )
        assert view.values("t", "2") == {"a": b"A", "b": b"(gone)"}

    def test_an_extended_value_is_unresolved(self, view: DictView) -> None:
        """Nothing appends one yet: it is accepted, and told to be missing."""
        extended = Extended(b"e" * 16, 7, "bytes", b"", 0, 1, b"", b"d" * 16)
        view.feed(saved("t", "1", {"a": extended}))
        _, ref = view.row("t", "1").channels["a"]
        assert isinstance(ref, Unresolved)
        assert ref.offset == 7


class TestWrites:
    def test_the_first_regular_write_wins(self, view: DictView) -> None:
        """A task's regular write of an index is never replaced, within a batch or later."""
        view.feed(
            saved("t", "1"),
            wrote("t", "1", "x", (0, "a", b"first")),
            wrote("t", "1", "x", (0, "a", b"second"), (1, "a", b"one")),
        )
        view.feed(wrote("t", "1", "x", (1, "a", b"late"), (2, "a", b"two")))
        assert view.writes("t", "1") == {("x", 0): b"first", ("x", 1): b"one", ("x", 2): b"two"}

    def test_the_last_special_write_wins(self, view: DictView) -> None:
        """Errors, interrupts and resumes replace what the task had."""
        view.feed(saved("t", "1"), wrote("t", "1", "x", (-1, "e", b"1"), (-4, "r", b"r")))
        view.feed(wrote("t", "1", "x", (-1, "e", b"2")))
        assert view.writes("t", "1") == {("x", -1): b"2", ("x", -4): b"r"}

    def test_tasks_and_checkpoints_are_apart(self, view: DictView) -> None:
        """Writes belong to one task on one checkpoint of one namespace."""
        view.feed(
            saved("t", "1"),
            saved("t", "10"),
            wrote("t", "1", "x", (0, "a", b"x")),
            wrote("t", "1", "y", (0, "a", b"y")),
            wrote("t", "10", "x", (0, "a", b"10")),
            wrote("t", "1", "x", (0, "a", b"n"), namespace="n"),
        )
        assert view.writes("t", "1") == {("x", 0): b"x", ("y", 0): b"y"}
        assert view.writes("t", "10") == {("x", 0): b"10"}

    def test_writes_may_come_before_their_checkpoint(self, view: DictView) -> None:
        """They show once it is there, and again when it is put again."""
        view.feed(wrote("t", "1", "x", (0, "a", b"early")))
        assert view.rows("t") == {}
        for _ in range(2):
            view.feed(saved("t", "1"))
            assert view.writes("t", "1") == {("x", 0): b"early"}

    def test_no_writes_are_no_entry(self, view: DictView) -> None:
        """A task that wrote nothing leaves nothing but its record."""
        event = wrote("t", "1", "x")
        view.feed(saved("t", "1"), event)
        assert view.writes("t", "1") == {}
        assert event.event_id in view.log_records("t")


class TestRemoval:
    def test_removed_checkpoints_show_nowhere(self, view: DictView) -> None:
        """Ids of any namespace go at once; their rows stay readable by event id."""
        first, second = saved("t", "1"), saved("t", "1", namespace="n")
        view.feed(first, second, saved("t", "2"))
        view.feed(NewEvent("t", CheckpointsDeleted(0, (("", "1"), ("n", "1"), ("n", "never")))))
        assert set(view.rows("t")) == {("", "2")}
        assert view.hidden("t") == {first.event_id, second.event_id}
        assert view.removals("t", "1") == (1, first.event_id)

    def test_an_id_that_never_was_is_passed_over(self, view: DictView) -> None:
        """Removing it names no event as removed."""
        view.feed(removed("t", "1"))
        assert view.removals("t", "1") == (1, NO_EVENT)
        assert view.known("t").count == 0

    def test_writes_on_a_removed_checkpoint_never_show_again(self, view: DictView) -> None:
        """Each removal begins a new life of the id, for writes on it too, whenever they come."""
        view.feed(saved("t", "1"), wrote("t", "1", "x", (0, "a", b"life 0")))
        for life in (1, 2):
            view.feed(removed("t", "1"))
            view.feed(wrote("t", "1", "x", (0, "a", b"life %d" % life)))
            view.feed(wrote("t", "1", "x", (0, "a", b"late")), saved("t", "1"))
            assert view.row("t", "1").life == life
            assert view.writes("t", "1") == {("x", 0): b"life %d" % life}

    def test_an_id_named_twice_is_removed_once(self, view: DictView) -> None:
        """The thread's count falls by what was there."""
        event = saved("t", "1")
        view.feed(event, saved("t", "2"), removed("t", "1", "1"))
        assert view.known("t").count == 1
        assert view.removals("t", "1") == (2, event.event_id)

    def test_a_removed_id_can_be_put_again(self, view: DictView) -> None:
        """The new checkpoint is another one; the last removal is still known."""
        old, new = saved("t", "1", {"a": b"old"}), saved("t", "1", {"a": b"new"})
        view.feed(old, removed("t", "1"), new)
        assert view.values("t", "1") == {"a": b"new"}
        assert view.removals("t", "1") == (1, old.event_id)
        assert view.known("t").count == 1


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


class TestBatches:
    def test_a_thread_waits_behind_what_moves_its_state(self) -> None:
        """After a copy or a removal the thread's later entries need another load; others do not."""
        entries = [
            entry_of(item, offset)
            for offset, item in enumerate(
                [
                    saved("t", "1"),
                    removed("t", "1"),
                    saved("u", "1"),
                    Poison(None),
                    NewEvent(None, LogNudged()),
                    saved("t", "2"),
                    copied("u", 0),
                    erased("u", 3),
                ]
            )
        ]
        assert independent(entries) == 5
        assert independent(entries[2:]) == 5
        assert independent(entries[5:7]) == 2
        assert independent([]) == 0

    def test_each_thread_is_asked_for_once(self) -> None:
        """A batch asks for what it needs without repeating itself."""
        first = saved("t", "1")
        entries = [
            entry_of(item, offset)
            for offset, item in enumerate([first, saved("t", "1"), Tombstone(first), deleted("t")])
        ]
        wanted = wanted_by(entries)
        assert wanted.threads == [thread_hash("t")]
        assert len(wanted.live) == len(set(wanted.live)) == 2

    def test_state_that_was_not_asked_for_is_an_error(self) -> None:
        """The fold never takes "not loaded" for "not there"."""
        entry = entry_of(saved("t", "2"), 2)
        known = ThreadRecord(epoch_of(0), 0, "t", 1, 1_000)
        with pytest.raises(KeyError):
            fold([entry], State({thread_hash("t"): known}, {}))
