"""What `CheckpointView` promises of listings, threads, runs and exports."""

from __future__ import annotations

import random
from itertools import product

import pytest

from eventstore.events import NewEvent, ThreadCopied
from projector.layout import ThreadRecord
from projector.view import CheckpointView, Selection, StoredCheckpoint, ThreadPage

from .view_suite import (
    Poison,
    Projection,
    ViewSuite,
    data_of,
    deleted,
    hash_of,
    keys,
    listed,
    removed,
    saved,
    writes_of,
    wrote,
)

T = hash_of("t")
Name = tuple[str, str, str]


def visible() -> list[Name]:
    """Return (thread, namespace, checkpoint id) of a mixed lot, ids equal in several places."""
    source = random.Random(3)
    ids = ["1", "10", "2", "é", "😀", "\uffff", "a", "ab", "abc", "a\0", "a\1", "a\1b", "a\2"]
    names = [
        (thread, namespace, checkpoint_id)
        for thread, namespace in product(("t", "u", "v"), ("", "n", "n|m:1"))
        for checkpoint_id in source.sample(ids, 9)
    ]
    source.shuffle(names)
    return names


def expected(names: list[Name], selection: Selection) -> set[Name]:
    wanted = selection
    return {
        (thread, namespace, checkpoint_id)
        for thread, namespace, checkpoint_id in names
        if wanted.thread in {None, hash_of(thread)}
        and wanted.namespace in {None, namespace}
        and wanted.checkpoint_id in {None, checkpoint_id}
        and (wanted.before is None or checkpoint_id < wanted.before)
    }


SELECTIONS = [
    Selection(thread, namespace, checkpoint_id, before)
    for thread, namespace, checkpoint_id, before in product(
        (None, T),
        (None, "", "n", "x"),
        (None, "ab", "a\1", "?"),
        (None, "ab", "b", "a\1", "😀", ""),
    )
]


async def all_threads(view: CheckpointView, limit: int) -> ThreadPage:
    """Return all pages of the threads as one."""
    cursor: bytes | None = None
    threads: list[tuple[ThreadRecord, StoredCheckpoint | None]] = []
    parked: list[ThreadRecord] = []
    while True:
        page = (await view.threads(0, 0, cursor=cursor, limit=limit)).value
        assert len(page.threads) <= limit
        threads += page.threads
        parked += page.parked
        cursor = page.cursor
        if cursor is None:
            return ThreadPage(threads, None, parked)


class ListSuite(ViewSuite):
    """A listing gives every visible checkpoint that is selected, once, greatest id first."""

    @pytest.mark.parametrize("limit", [1, 2, 100])
    async def test_a_listing_gives_what_is_selected(
        self, projection: Projection, limit: int
    ) -> None:
        """Whatever is selected, all pages together give exactly that, newest id first."""
        names = visible()
        await projection.feed(
            *(saved(thread, cid, {"a": b"1"}, namespace=ns) for thread, ns, cid in names)
        )
        for selection in SELECTIONS:
            found, parked = await listed(projection.view, selection, limit=limit)
            assert len(found) == len(set(keys(found)))
            assert set(keys(found)) == expected(names, selection), selection
            ids = [checkpoint.checkpoint_id for checkpoint in found]
            assert ids == sorted(ids, reverse=True), selection
            assert not parked
            assert all(not c.values and not c.writes for c in found)

    async def test_the_order_of_equal_ids_is_stable(self, projection: Projection) -> None:
        """However a listing is cut into pages, it is the same list."""
        await projection.feed(*(saved(t, cid, namespace=ns) for t, ns, cid in visible()))
        for selection in (Selection(), Selection(T)):
            whole = keys((await listed(projection.view, selection))[0])
            for limit in (1, 3, 7):
                assert keys((await listed(projection.view, selection, limit=limit))[0]) == whole

    @pytest.mark.parametrize("selection", [Selection(), Selection(T), Selection(T, "")])
    async def test_a_listing_with_values_is_complete(
        self, projection: Projection, selection: Selection
    ) -> None:
        """With values, each checkpoint comes with its values, its writes and its parent's fate."""
        await projection.feed(
            saved("t", "0"),
            saved("t", "1", {"a": b"A1", "b": b"B1"}, parent="0"),
            saved("t", "2", {"a": b"A2"}, parent="1"),
            wrote("t", "2", "x", (0, "a", b"w2")),
            wrote("t", "1", "y", (0, "a", b"w1")),
            removed("t", "0"),
        )
        found, _ = await listed(projection.view, selection, with_values=True)
        assert [c.checkpoint_id for c in found] == ["2", "1"]
        assert [{name: data_of(v) for name, v in c.values.items()} for c in found] == [
            {"a": b"A2"},
            {"a": b"A1", "b": b"B1"},
        ]
        assert [writes_of(c) for c in found] == [[("x", 0, "a", b"w2")], [("y", 0, "a", b"w1")]]
        assert [c.parent_is_removed for c in found] == [False, True]
        assert [c.thread.count for c in found] == [2, 2]

    async def test_large_checkpoints_are_listed(self, projection: Projection) -> None:
        """A page ends early rather than grow without bound, and the next one goes on."""
        ids = [f"{n:02}" for n in range(12)]
        await projection.feed(*(saved("t", n, {"a": n.encode() * 150_000}) for n in ids))
        found, _ = await listed(projection.view, Selection(T, ""), with_values=True)
        assert [c.checkpoint_id for c in found] == ids[::-1]
        assert [data_of(c.values["a"]) for c in found] == [n.encode() * 150_000 for n in ids[::-1]]

    async def test_what_is_not_live_is_not_listed(self, projection: Projection) -> None:
        """Deleted, removed, replaced and staged checkpoints show in no listing."""
        copy = b"c" * 16
        await projection.feed(
            *(saved("gone", f"{n:04}", metadata={"run_id": "r"}) for n in range(600)),
            saved("t", "1", metadata={"run_id": "r"}),
            saved("t", "2", metadata={"run_id": "r"}),
            saved("t", "3", metadata={"run_id": "r"}),
            saved("t", "3", metadata={"run_id": "other"}),
            removed("t", "1"),
            deleted("gone"),
            saved("copy", "9", metadata={"run_id": "r"}, copy_id=copy),
        )
        view = projection.view
        found, _ = await listed(view, Selection(), limit=5)
        assert keys(found) == [("t", "", "3"), ("t", "", "2")]
        run = (await view.run(0, 0, run_id="r")).value
        assert [(r.thread_id, ns, cid) for r, ns, cid in run] == [("t", "", "2")]
        assert [r.thread_id for r, _ in (await all_threads(view, 9)).threads] == ["t"]
        await projection.feed(NewEvent("copy", ThreadCopied(copy, "source", 0, 1)))
        found, _ = await listed(view, Selection())
        assert keys(found) == [("copy", "", "9"), ("t", "", "3"), ("t", "", "2")]
        run = (await view.run(0, 0, run_id="r")).value
        assert sorted((r.thread_id, ns, cid) for r, ns, cid in run) == [
            ("copy", "", "9"),
            ("t", "", "2"),
        ]

    async def test_parked_threads_are_named(self, projection: Projection) -> None:
        """A listing over all threads gives the others and names those that it left out."""
        for thread in ("t", "u", "v"):
            await projection.feed(saved(thread, "1"), saved(thread, "2"))
        await projection.feed(Poison("u"))
        view = projection.view
        for limit in (1, 100):
            found, parked = await listed(view, Selection(), limit=limit)
            assert sorted(keys(found)) == [
                ("t", "", "1"),
                ("t", "", "2"),
                ("v", "", "1"),
                ("v", "", "2"),
            ]
            assert {record.thread_id for record in parked} == {"u"}
            threads = await all_threads(view, limit)
            assert [record.thread_id for record, _ in threads.threads] == ["v", "t"]
            assert {record.thread_id for record in threads.parked} == {"u"}

    async def test_threads_come_by_their_activity(self, projection: Projection) -> None:
        """Threads that hold a checkpoint come latest first, with their newest root checkpoint."""
        for n in range(25):
            await projection.feed(saved(f"t{n:02}", "1", {"a": b"1"}))
        await projection.feed(
            saved("t03", "2", parent="1"),
            saved("t03", "3", namespace="n"),
            saved("t05", "0"),
            saved("only sub", "1", namespace="n"),
            saved("emptied", "1"),
            removed("emptied", "1"),
            saved("t07", "2"),
            deleted("t07"),
        )
        order = [f"t{n:02}" for n in reversed(range(25)) if n not in {3, 5, 7}]
        for limit in (1, 4, 100):
            page = await all_threads(projection.view, limit)
            names = [record.thread_id for record, _ in page.threads]
            assert names == ["only sub", "t05", "t03", *order]
            newest = {record.thread_id: cp for record, cp in page.threads}
            assert newest["only sub"] is None
            found = newest["t03"]
            assert found is not None
            assert (found.checkpoint_id, found.row.parent_id) == ("2", "1")
            assert not found.values
            found = newest["t05"]
            assert found is not None
            assert found.checkpoint_id == "1"

    async def test_a_run_is_found_in_all_threads(self, projection: Projection) -> None:
        """All visible checkpoints of exactly this run, whatever the number."""
        await projection.feed(
            *(
                saved(f"t{n % 3}", f"{n:04}", namespace="n", metadata={"run_id": "r"})
                for n in range(700)
            )
        )
        await projection.feed(
            saved("t0", "x", metadata={"run_id": "r2"}),
            saved("t0", "y", metadata={"run_id": 5}),
            saved("t0", "z"),
        )
        found = (await projection.view.run(0, 0, run_id="r")).value
        assert sorted((r.thread_id, ns, cid) for r, ns, cid in found) == sorted(
            (f"t{n % 3}", "n", f"{n:04}") for n in range(700)
        )
        assert not (await projection.view.run(0, 0, run_id="")).value

    @pytest.mark.parametrize("limit", [1, 100])
    async def test_an_export_is_the_whole_thread(self, projection: Projection, limit: int) -> None:
        """All visible checkpoints of one thread, oldest id first, with values and writes."""
        names = [(ns, cid) for thread, ns, cid in visible() if thread == "t"]
        for namespace, checkpoint_id in names:
            await projection.feed(
                saved("t", checkpoint_id, {"a": checkpoint_id.encode()}, namespace=namespace),
                wrote("t", checkpoint_id, "x", (0, "a", b"w"), namespace=namespace),
                saved("u", checkpoint_id),
            )
        found: list[tuple[str, str]] = []
        cursor: bytes | None = None
        while True:
            page = (
                await projection.view.exported(0, 0, thread=T, cursor=cursor, limit=limit)
            ).value
            assert len(page.checkpoints) <= limit
            for checkpoint in page.checkpoints:
                found.append((checkpoint.checkpoint_id, checkpoint.namespace))
                assert data_of(checkpoint.values["a"]) == checkpoint.checkpoint_id.encode()
                assert writes_of(checkpoint) == [("x", 0, "a", b"w")]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == sorted((cid, ns) for ns, cid in names)

    async def test_an_unknown_thread_lists_as_empty(self, projection: Projection) -> None:
        """A thread that the log does not know holds nothing."""
        nobody = hash_of("nobody")
        found, _ = await listed(projection.view, Selection(nobody), with_values=True)
        assert found == []
        page = (await projection.view.exported(0, 0, thread=nobody, cursor=None, limit=5)).value
        assert not page.checkpoints
        assert page.cursor is None
        assert not (await all_threads(projection.view, 5)).threads
