"""The fold of checkpoints, values, writes and removals: what shows, and what never does."""

from __future__ import annotations

import pytest

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
)
from projector.layout import NO_EVENT, Unresolved
from tests.contracts.view_suite import (
    entry_of,
    removed,
    saved,
    wrote,
)
from tests.folding import DictView


@pytest.fixture
def view() -> DictView:
    return DictView()


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
        view.feed(NewEvent("t", LogNudged()))
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

    def test_a_parent_may_be_named_by_its_event_alone(self, view: DictView) -> None:
        """It is found once it was replaced; where it shows it is found by its id."""
        first = saved("t", "1", {"a": b"A"})
        view.feed(first, saved("t", "1", {"a": b"B"}))
        view.feed(saved("t", "2", {"a": INHERITED}, parent_event=first))
        assert view.values("t", "2") == {"a": b"A"}

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
