"""What `CheckpointView` promises of the walk along a checkpoint's ancestors."""

from __future__ import annotations

from collections.abc import Sequence

from eventstore.events import INHERITED, Referenced
from projector.view import CheckpointView, StoredHistory, StoredValue

from .view_suite import (
    Projection,
    ViewSuite,
    data_of,
    deleted,
    empty,
    hash_of,
    removed,
    saved,
    wrote,
)

T = hash_of("t")

Steps = list[tuple[bytes, list[tuple[str, int, bytes]]]]


async def walk(
    view: CheckpointView,
    channels: Sequence[str],
    checkpoint_id: str | None = None,
    *,
    namespace: str = "",
) -> dict[str, StoredHistory]:
    answer = await view.history(
        0, 0, thread=T, namespace=namespace, checkpoint_id=checkpoint_id, channels=channels
    )
    assert answer.value.keys() == set(channels)
    return answer.value


def steps_of(history: StoredHistory) -> Steps:
    """Return (event id, sorted (task id, index, data)) of each ancestor that wrote."""
    return [
        (event_id, sorted((w.task_id, w.index, w.payload.data) for w in writes))
        for event_id, writes in history.writes
    ]


class HistorySuite(ViewSuite):
    """A channel's history is what its ancestors wrote, back to the nearest one with a value."""

    async def test_a_walk_ends_at_the_nearest_value(self, projection: Projection) -> None:
        """Each channel's walk ends by itself; ancestors that wrote nothing for it are left out."""
        items = [
            saved("t", "0", {"a": b"A0", "b": b"B0", "c": empty()}),
            wrote("t", "0", "x", (0, "a", b"a0"), (1, "b", b"b0"), (2, "c", b"c0")),
            saved("t", "1", {"a": b"A1", "b": empty(2), "c": empty()}, parent="0"),
            wrote("t", "1", "x", (0, "a", b"a1"), (1, "other", b"o1")),
            saved("t", "2", {"a": empty(3), "b": empty(2), "c": empty()}, parent="1"),
            wrote("t", "2", "y", (0, "a", b"y2"), (1, "a", b"y2+"), (2, "c", b"c2")),
            wrote("t", "2", "x", (0, "a", b"x2")),
            saved("t", "3", {"a": b"A3", "b": b"B3"}, parent="2"),
            wrote("t", "3", "x", (0, "a", b"own")),
        ]
        await projection.feed(*items)
        e0, e1, e2 = (items[n].event_id for n in (0, 2, 4))
        for checkpoint_id in (None, "3"):
            found = await walk(projection.view, ["a", "b", "c", "?"], checkpoint_id)
            assert steps_of(found["a"]) == [
                (e2, [("x", 0, b"x2"), ("y", 0, b"y2"), ("y", 1, b"y2+")]),
                (e1, [("x", 0, b"a1")]),
            ]
            assert steps_of(found["b"]) == [(e0, [("x", 1, b"b0")])]
            assert steps_of(found["c"]) == [(e2, [("y", 2, b"c2")]), (e0, [("x", 2, b"c0")])]
            assert steps_of(found["?"]) == []
            seeds = {name: data_of(history.seed) for name, history in found.items()}
            assert seeds == {"a": b"A1", "b": b"B0", "c": None, "?": None}
            assert all(history.unresolved is None for history in found.values())

    async def test_an_unknown_checkpoint_has_no_ancestors(self, projection: Projection) -> None:
        """Nothing is walked from a checkpoint, a namespace or a thread that is not there."""
        view = projection.view
        for _ in range(2):
            for found in (await walk(view, ["a"], "?"), await walk(view, ["a"], namespace="n")):
                assert (list(found["a"].writes), found["a"].seed) == ([], None)
            await projection.feed(saved("t", "1", {"a": b"1"}), wrote("t", "1", "x", (0, "a", b"")))
        found = await walk(view, ["a"])
        assert (list(found["a"].writes), found["a"].seed) == ([], None)
        assert await walk(view, []) == {}

    async def test_removed_ancestors_are_walked(self, projection: Projection) -> None:
        """What was removed still carries history, with the writes of its own life."""
        old = saved("t", "1", {"a": b"A1"}, parent="0")
        middle = saved("t", "2", parent="1")
        await projection.feed(
            old,
            wrote("t", "1", "x", (0, "a", b"w1")),
            middle,
            wrote("t", "2", "x", (0, "a", b"w2")),
            saved("t", "3", parent="2"),
            removed("t", "1", "2"),
        )
        found = (await walk(projection.view, ["a"]))["a"]
        assert steps_of(found) == [
            (middle.event_id, [("x", 0, b"w2")]),
            (old.event_id, [("x", 0, b"w1")]),
        ]
        assert data_of(found.seed) == b"A1"
        again = saved("t", "2", parent="1")
        await projection.feed(again, wrote("t", "2", "y", (0, "a", b"again")))
        found = (await walk(projection.view, ["a"]))["a"]
        assert steps_of(found) == [
            (again.event_id, [("y", 0, b"again")]),
            (old.event_id, [("x", 0, b"w1")]),
        ]

    async def test_a_walk_ends_where_the_chain_ends(self, projection: Projection) -> None:
        """A parent that never was, or was removed without ever being there, is the root."""
        await projection.feed(
            saved("t", "1", parent="never"),
            saved("t", "2", parent="1"),
            saved("t", "5", parent="4"),
            removed("t", "4"),
        )
        for checkpoint_id in ("2", "5"):
            found = (await walk(projection.view, ["a"], checkpoint_id))["a"]
            assert (list(found.writes), found.seed, found.unresolved) == ([], None, None)

    async def test_ancestors_that_go_round_end(self, projection: Projection) -> None:
        """A chain of parents that meets itself is walked once."""
        first = saved("t", "1", parent="2")
        second = saved("t", "2", parent="1")
        await projection.feed(
            first, second, saved("t", "3", parent="3"), wrote("t", "1", "x", (0, "a", b"w1"))
        )
        found = (await walk(projection.view, ["a"], "2"))["a"]
        assert steps_of(found)[0] == (first.event_id, [("x", 0, b"w1")])
        assert len(steps_of(found)) == 1
        assert (await walk(projection.view, ["a"], "3"))["a"].seed is None

    async def test_what_cannot_be_followed_is_told(self, projection: Projection) -> None:
        """A walk that meets an unresolved value says why; a value that is gone has no data."""
        await projection.feed(
            saved("t", "1", {"a": b"A1"}),
            saved("t", "2", {"a": INHERITED, "b": Referenced(b"e" * 16, 99)}, parent="1"),
            wrote("t", "2", "x", (0, "a", b"w2")),
            saved("t", "3", parent="2"),
        )
        found = await walk(projection.view, ["a", "b"])
        assert found["a"].unresolved is not None
        assert "inherited" in found["a"].unresolved
        assert found["a"].seed is None
        assert len(found["a"].writes) == 1
        assert found["b"].seed == StoredValue(99, None)
        assert found["b"].unresolved is None

    async def test_a_walk_stays_in_its_life_and_namespace(self, projection: Projection) -> None:
        """No history crosses a deletion or a namespace."""
        await projection.feed(
            saved("t", "1", {"a": b"old"}, namespace="n"), saved("t", "1", {"a": b"old"})
        )
        await projection.feed(
            deleted("t"),
            saved("t", "2", parent="1", incarnation=2),
            saved("t", "1", {"a": b"sub"}, namespace="n", incarnation=2),
        )
        assert (await walk(projection.view, ["a"], "2"))["a"].seed is None

    async def test_a_long_walk_is_complete(self, projection: Projection) -> None:
        """Thousands of ancestors and megabytes of writes are walked to the end, in order."""
        length = 5_000
        chain = [saved("t", "00000", {"a": b"seed"})]
        chain += [saved("t", f"{n:05}", parent=f"{n - 1:05}") for n in range(1, length)]
        data = b"x" * 400
        writes = [wrote("t", f"{n:05}", "x", (0, "a", b"%d" % n + data)) for n in range(length)]
        await projection.feed(*chain, *writes)
        found = (await walk(projection.view, ["a"]))["a"]
        assert data_of(found.seed) == b"seed"
        assert steps_of(found) == [
            (chain[n].event_id, [("x", 0, b"%d" % n + data)]) for n in reversed(range(length - 1))
        ]
