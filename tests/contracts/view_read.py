"""What `CheckpointView` promises of single checkpoints and of their history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from eventstore.events import EMPTY, INHERITED, ChannelState, Extended, Referenced
from projector.errors import ThreadParkedError
from projector.view import CheckpointView, Selection, StoredCheckpoint, ViewBehindError

from .view_suite import (
    Poison,
    Projection,
    ViewSuite,
    data_of,
    deleted,
    empty,
    hash_of,
    removed,
    saved,
    start_of,
    writes_of,
    wrote,
)

T = hash_of("t")

Question = Callable[[CheckpointView, int], Awaitable[Any]]

OF_ONE_THREAD: dict[str, Question] = {
    "thread": lambda view, bound: view.thread(0, bound, T),
    "checkpoint": lambda view, bound: view.checkpoint(
        0, bound, thread=T, namespace="", checkpoint_id=None
    ),
    "checkpoint by id": lambda view, bound: view.checkpoint(
        0, bound, thread=T, namespace="", checkpoint_id="1"
    ),
    "is_removed": lambda view, bound: view.is_removed(
        0, bound, thread=T, namespace="", checkpoint_id="1"
    ),
    "checkpoints of a thread": lambda view, bound: view.checkpoints(
        0, bound, Selection(T), cursor=None, limit=9, with_values=False
    ),
    "checkpoints of a namespace": lambda view, bound: view.checkpoints(
        0, bound, Selection(T, ""), cursor=None, limit=9, with_values=True
    ),
    "history": lambda view, bound: view.history(
        0, bound, thread=T, namespace="", checkpoint_id=None, channels=["a"]
    ),
    "exported": lambda view, bound: view.exported(0, bound, thread=T, cursor=None, limit=9),
    "run": lambda view, bound: view.run(0, bound, run_id="r"),
}
QUESTIONS: dict[str, Question] = {
    **OF_ONE_THREAD,
    "checkpoints of all": lambda view, bound: view.checkpoints(
        0, bound, Selection(), cursor=None, limit=9, with_values=False
    ),
    "checkpoints that cannot be": lambda view, bound: view.checkpoints(
        0, bound, Selection(T, "", "2", before="1"), cursor=None, limit=9, with_values=False
    ),
    "threads": lambda view, bound: view.threads(0, bound, cursor=None, limit=9),
}


async def get(
    view: CheckpointView, checkpoint_id: str | None = None, *, namespace: str = ""
) -> StoredCheckpoint | None:
    answer = await view.checkpoint(0, 0, thread=T, namespace=namespace, checkpoint_id=checkpoint_id)
    return answer.value[1]


async def seen(view: CheckpointView, checkpoint_id: str | None = None) -> dict[str, bytes | None]:
    """Return the values of a checkpoint that is there."""
    found = await get(view, checkpoint_id)
    assert found is not None
    return {name: data_of(value) for name, value in found.values.items()}


class ReadSuite(ViewSuite):
    """An answer is the state at a position that covers the bound, or an error."""

    @pytest.mark.parametrize("question", QUESTIONS)
    async def test_no_answer_comes_from_below_the_bound(
        self, projection: Projection, question: str
    ) -> None:
        """A view that lags says how far it is; at the bound it answers, and tells its position."""
        ask = QUESTIONS[question]
        await projection.feed(saved("t", "1", {"a": b"1"}), wrote("t", "1", "task"))
        with pytest.raises(ViewBehindError) as caught:
            await ask(projection.view, 3)
        assert caught.value.applied == 2
        for bound in (0, 2):
            assert (await ask(projection.view, bound)).applied == 2

    @pytest.mark.parametrize("question", QUESTIONS)
    async def test_no_view_gives_no_answer(self, view: CheckpointView, question: str) -> None:
        """Without a view nothing is "not found", even when no position is asked for."""
        with pytest.raises(ViewBehindError) as caught:
            await QUESTIONS[question](view, 0)
        assert caught.value.applied == 0

    @pytest.mark.parametrize("question", OF_ONE_THREAD)
    async def test_a_parked_thread_gives_no_answer(
        self, projection: Projection, question: str
    ) -> None:
        """Every question about a parked thread names the place that it waits at."""
        await projection.feed(
            saved("t", "1", {"a": b"1"}, metadata={"run_id": "r"}),
            saved("u", "1"),
            Poison("t", "no such thing"),
            saved("t", "2", {"a": b"2"}),
        )
        with pytest.raises(ThreadParkedError) as caught:
            await OF_ONE_THREAD[question](projection.view, 4)
        error = caught.value
        assert (error.thread_id, error.partition, error.offset) == ("t", 0, 2)
        assert error.reason == "no such thing"

    async def test_a_deletion_clears_a_parked_thread(self, projection: Projection) -> None:
        """A deleted thread answers again, as one that holds nothing."""
        await projection.feed(saved("t", "1", {"a": b"1"}), Poison("t"), deleted("t"))
        assert await get(projection.view) is None
        answer = await projection.view.thread(0, 0, T)
        assert answer.value is not None
        assert answer.value.incarnation == 2

    async def test_another_fold_is_no_view(self, view: CheckpointView) -> None:
        """What another fold version built is not read."""
        start = start_of()
        other = type(start)(start.generation, 77, start.identity, 5, start.last_event_id)
        assert await view.begin(0, other)
        with pytest.raises(ViewBehindError) as caught:
            await view.thread(0, 5, T)
        assert caught.value.applied == 0

    async def test_a_thread_record_is_read(self, projection: Projection) -> None:
        """The record counts what is visible; an unknown thread has none."""
        await projection.feed(saved("t", "1"), saved("t", "2"), saved("t", "1"))
        record = (await projection.view.thread(0, 0, T)).value
        assert record is not None
        assert (record.thread_id, record.count, record.activity_ms) == ("t", 2, 1_002)
        assert (await projection.view.thread(0, 0, hash_of("u"))).value is None

    async def test_the_greatest_id_is_the_latest(self, projection: Projection) -> None:
        """Latest means the greatest id as text within the namespace, in whatever order it came."""
        for checkpoint_id in ("2", "10", "é", "z", "\uffff", "😀", "Z"):
            await projection.feed(saved("t", checkpoint_id))
        await projection.feed(saved("t", "zz", namespace="sub"), saved("u", "zzz"))
        await projection.feed(saved("t", "~", namespace="sub"), saved("t", "~~~", namespace="su"))
        found = await get(projection.view)
        assert found is not None
        assert (found.checkpoint_id, found.namespace) == ("😀", "")
        found = await get(projection.view, namespace="sub")
        assert found is not None
        assert (found.checkpoint_id, found.thread.thread_id) == ("~", "t")
        assert await get(projection.view, namespace="s") is None

    async def test_a_checkpoint_is_found_by_its_id(self, projection: Projection) -> None:
        """Namespace and id name a checkpoint exactly; anything else is not found."""
        await projection.feed(saved("t", "1", {"a": b"one"}, namespace="n"), saved("t", "2"))
        found = await get(projection.view, "1", namespace="n")
        assert found is not None
        assert found.row.body.data == b"body of 1"
        assert data_of(found.values["a"]) == b"one"
        for checkpoint_id, namespace in (("1", ""), ("", "n"), ("1\0", "n"), ("2", "n")):
            assert await get(projection.view, checkpoint_id, namespace=namespace) is None
        unknown = await projection.view.checkpoint(
            0, 0, thread=hash_of("u"), namespace="", checkpoint_id=None
        )
        assert unknown.value == (None, None)
        known = await projection.view.checkpoint(0, 0, thread=T, namespace="", checkpoint_id="?")
        record, checkpoint = known.value
        assert record is not None
        assert checkpoint is None

    async def test_values_come_from_where_they_were_stored(self, projection: Projection) -> None:
        """Inherited and referenced values are those of the event that stored them."""
        first = saved("t", "1", {"a": b"A", "b": b"B", "c": empty()})
        second = saved(
            "t",
            "2",
            {"a": INHERITED, "b": b"B2", "c": INHERITED, "d": Referenced(first.event_id, 0)},
            parent="1",
            parent_event=first,
        )
        await projection.feed(first, second)
        found = await get(projection.view, "2")
        assert found is not None
        assert {name: value.offset for name, value in found.values.items()} == {
            "a": 0,
            "b": 1,
            "d": 0,
        }
        assert await seen(projection.view, "2") == {"a": b"A", "b": b"B2", "d": None}
        assert found.row.channels["c"] == (1, None)

    async def test_what_is_missing_is_told(self, projection: Projection) -> None:
        """A reference to nothing makes one channel unresolved, not the checkpoint unreadable."""
        extended = Extended(b"e" * 16, 7, "bytes", b"", 0, 1, b"", b"d" * 16)
        await projection.feed(
            saved("t", "1", {"a": INHERITED, "b": extended, "c": Referenced(b"e" * 16, 99)})
        )
        found = await get(projection.view)
        assert found is not None
        assert found.values.keys() == {"c"}
        assert (found.values["c"].offset, found.values["c"].data) == (99, None)

    async def test_a_checkpoint_may_have_many_channels(self, projection: Projection) -> None:
        """Thousands of channels, and names of any text, come back."""
        channels = {f"channel {n} é\0": b"%d" % n for n in range(9_000)}
        await projection.feed(saved("t", "1", channels))
        assert await seen(projection.view) == channels

    async def test_a_large_value_is_read_back(self, projection: Projection) -> None:
        """Size alone is no obstacle."""
        data = bytes(range(256)) * 20_000
        await projection.feed(saved("t", "1", {"a": data, "b": b""}))
        assert await seen(projection.view) == {"a": data, "b": b""}

    async def test_a_checkpoint_put_again_replaces_itself(self, projection: Projection) -> None:
        """The last put of an id counts, its old content can come back, and its writes stay."""
        await projection.feed(saved("t", "1", {"a": b"1"}), wrote("t", "1", "x", (0, "a", b"w")))
        await projection.feed(saved("t", "1", {"a": b"2"}))
        assert await seen(projection.view) == {"a": b"2"}
        await projection.feed(saved("t", "1", {"a": b"1"}))
        assert await seen(projection.view) == {"a": b"1"}
        found = await get(projection.view)
        assert found is not None
        assert writes_of(found) == [("x", 0, "a", b"w")]

    async def test_writes_of_all_tasks_come_back(self, projection: Projection) -> None:
        """Each task's writes show with the checkpoint, before or after it, and with no other."""
        await projection.feed(
            wrote("t", "1", "y", (0, "a", b"y0"), (-1, "e", b"y-1")),
            saved("t", "1"),
            wrote("t", "1", "x", (0, "a", b"x0"), (1, "b", b"x1")),
            wrote("t", "1", "x", (0, "a", b"again")),
            wrote("t", "1", "y", (-1, "e", b"again")),
            wrote("t", "10", "z", (0, "a", b"z")),
            wrote("t", "1", "z", (0, "a", b"z"), namespace="1"),
            wrote("u", "1", "z", (0, "a", b"z")),
            wrote("t", "1", "", (0, "a", b"no task")),
        )
        found = await get(projection.view)
        assert found is not None
        assert writes_of(found) == [
            ("", 0, "a", b"no task"),
            ("x", 0, "a", b"x0"),
            ("x", 1, "b", b"x1"),
            ("y", -1, "e", b"again"),
            ("y", 0, "a", b"y0"),
        ]
        assert {w.task_path for w in found.writes} == {"~x", "~y", "~"}

    async def test_many_tasks_write_on_one_checkpoint(self, projection: Projection) -> None:
        """Thousands of tasks come back."""
        items = [wrote("t", "1", f"{n:05}", (0, "a", b"%d" % n)) for n in range(9_000)]
        await projection.feed(saved("t", "1"), *items)
        found = await get(projection.view)
        assert found is not None
        assert len(writes_of(found)) == 9_000

    async def test_a_removed_checkpoint_is_gone_with_its_writes(
        self, projection: Projection
    ) -> None:
        """A checkpoint put under a removed id starts without the writes of the removed one."""
        view = projection.view
        await projection.feed(
            saved("t", "1"),
            saved("t", "2", {"a": b"1"}, parent="1"),
            wrote("t", "2", "x", (0, "a", b"old")),
            removed("t", "2", "never"),
        )
        assert await get(view, "2") is None
        found = await get(view)
        assert found is not None
        assert found.checkpoint_id == "1"
        await projection.feed(saved("t", "2", {"a": b"2"}), wrote("t", "2", "y", (0, "a", b"new")))
        found = await get(view)
        assert found is not None
        assert writes_of(found) == [("y", 0, "a", b"new")]
        assert await seen(view) == {"a": b"2"}

    async def test_a_removed_parent_is_told(self, projection: Projection) -> None:
        """A parent that was removed is told from one that is there, or never was."""
        view = projection.view
        await projection.feed(
            saved("t", "1"), saved("t", "2", parent="1"), saved("t", "3", parent="0")
        )
        for checkpoint_id in ("1", "2", "3"):
            found = await get(view, checkpoint_id)
            assert found is not None
            assert not found.parent_is_removed
        await projection.feed(removed("t", "1"))
        found = await get(view, "2")
        assert found is not None
        assert found.parent_is_removed
        assert (await view.is_removed(0, 0, thread=T, namespace="", checkpoint_id="1")).value
        assert not (await view.is_removed(0, 0, thread=T, namespace="n", checkpoint_id="1")).value
        assert not (await view.is_removed(0, 0, thread=T, namespace="", checkpoint_id="2")).value
        await projection.feed(saved("t", "1"))
        found = await get(view, "2")
        assert found is not None
        assert not found.parent_is_removed

    async def test_a_deleted_thread_holds_nothing(self, projection: Projection) -> None:
        """A thread's new life shows nothing of the old one, and late appends of it are void."""
        view = projection.view
        await projection.feed(
            saved("t", "1", {"a": b"old"}),
            wrote("t", "1", "x", (0, "a", b"old")),
            removed("t", "0"),
        )
        await projection.feed(deleted("t"), saved("t", "2", {"a": b"late"}))
        assert await get(view) is None
        assert not (await view.is_removed(0, 0, thread=T, namespace="", checkpoint_id="0")).value
        await projection.feed(saved("t", "1", {"a": b"new"}, incarnation=3))
        found = await get(view)
        assert found is not None
        assert found.thread.incarnation == 3
        assert writes_of(found) == []
        assert await seen(view) == {"a": b"new"}

    async def test_versions_and_metadata_are_kept(self, projection: Projection) -> None:
        """The row says what the event said."""
        channels = {
            "a": ChannelState("00001.0.5", EMPTY),
            "b": ChannelState(2.5, EMPTY),
            "c": ChannelState(1 << 62, EMPTY),
        }
        metadata = {"source": "loop", "step": -1, "parents": {"": "0"}, "n": None, "b": b"\0\xff"}
        await projection.feed(saved("t", "1", channels, metadata=metadata, parent="p"))
        found = await get(projection.view)
        assert found is not None
        assert found.row.metadata == metadata
        assert found.row.parent_id == "p"
        versions = {name: version for name, (version, _) in found.row.channels.items()}
        assert versions == {"a": "00001.0.5", "b": 2.5, "c": 1 << 62}
