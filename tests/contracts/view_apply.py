"""What `CheckpointView` promises of its writing half: progress, load, apply."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from eventstore.log import LogIdentity
from projector.layout import (
    DEAD,
    IDS,
    POISON,
    RECENT,
    RECORDS,
    ROWS,
    THREADS,
    VALUES,
    ThreadRecord,
    epoch_of,
)
from projector.projection import FOLD_VERSION
from projector.view import Changes, CheckpointView, Progress, ViewBehindError, Wanted

from .view_suite import (
    GENERATION,
    IDENTITY,
    OpenView,
    Projection,
    ViewSuite,
    catch_up,
    deleted,
    hash_of,
    saved,
    start_of,
    wrote,
)

MAP = POISON
"""A map that no thread has to be there for."""
LIVE = hash_of("t") + epoch_of(0)
"""The scope of thread "t" before any deletion."""

AWKWARD = [b"", b"\0", b"\r\n", b"\xff" * 9, bytes(range(256)), "Ä€😀".encode(), b"-1", b"nan"]


def record(epoch: bytes = epoch_of(0)) -> bytes:
    return ThreadRecord(epoch, 0, "t", 1, 5).pack()


async def apply(view: CheckpointView, changes: Changes, *, step: int = 1) -> Progress:
    """Apply changes at the present position of partition 0 and move it on."""
    before = await view.progress(0)
    assert before is not None
    reached = replace(before, next_offset=before.next_offset + step)
    assert await view.apply(0, expected=before, changes=changes, reached=reached)
    return reached


class ApplySuite(ViewSuite):
    """A view moves by whole steps, from the position that the step was computed for, or not."""

    async def test_an_unknown_partition_has_no_progress(self, view: CheckpointView) -> None:
        """A partition without a view says so, and loads as empty."""
        assert await view.progress(0) is None
        loaded = await view.load(0, Wanted([hash_of("t")], [(hash_of("t"), ROWS, b"f")]))
        assert loaded.progress is None

    async def test_setup_again_changes_nothing(
        self, projection: Projection, open_view: OpenView
    ) -> None:
        """Setup may be called at any time, by anyone."""
        await projection.feed(saved("t", "1", {"a": b"1"}))
        before = await projection.view.dump(0)
        await projection.view.setup()
        other = await open_view()
        assert await other.dump(0) == before

    async def test_a_view_begins_once(self, view: CheckpointView) -> None:
        """The first one to begin a view decides how it starts."""
        identity = LogIdentity(bytes(range(16)), 7)
        start = Progress(b"\0\r\n\xff:{}*", 3, identity, 41, b"\xff" * 16)
        assert await view.begin(2, start)
        assert not await view.begin(2, start_of())
        assert await view.progress(2) == start
        assert await view.progress(1) is None

    async def test_one_of_many_begins_the_view(self, open_view: OpenView) -> None:
        """However many begin at once, one of them does."""
        views = [await open_view() for _ in range(4)]
        starts = [start_of(b"begin-%02d" % number) for number in range(8)]
        begun = await asyncio.gather(
            *(views[n % 4].begin(0, start) for n, start in enumerate(starts))
        )
        assert sorted(begun) == [False] * 7 + [True]
        assert await views[0].progress(0) == starts[begun.index(True)]

    async def test_progress_moves_with_the_changes(self, projection: Projection) -> None:
        """What is applied and how far it reaches are one step, whoever looks."""
        last = wrote("t", "1", "task", (0, "a", b"x"))
        await projection.feed(saved("t", "1", {"a": b"1"}), last)
        reached = replace(start_of(), next_offset=2, last_event_id=last.event_id)
        assert await projection.view.progress(0) == reached

    @pytest.mark.parametrize(
        "other",
        [
            replace(start_of(), next_offset=1),
            replace(start_of(), generation=b"other-01"),
            replace(start_of(), fold_version=FOLD_VERSION + 1),
        ],
        ids=["position", "generation", "fold version"],
    )
    async def test_changes_for_another_state_are_refused(
        self, projection: Projection, other: Progress
    ) -> None:
        """A step computed from another position, generation or fold version changes nothing."""
        view = projection.view
        await apply(view, Changes(cells={(MAP, b"a"): b"1"}), step=0)
        before = await view.dump(0)
        changes = Changes(
            cells={(MAP, b"b"): b"2", (MAP, b"a"): None},
            members={(RECENT, bytes(24)): True},
            drops=[MAP],
        )
        reached = replace(other, next_offset=9)
        assert not await view.apply(0, expected=other, changes=changes, reached=reached)
        assert await view.dump(0) == before
        assert await view.progress(0) == start_of()

    async def test_changes_for_no_view_are_refused(self, view: CheckpointView) -> None:
        """Nothing is applied where no view was begun."""
        changes = Changes(cells={(THREADS, hash_of("t")): record()})
        reached = replace(start_of(), next_offset=1)
        assert not await view.apply(0, expected=start_of(), changes=changes, reached=reached)
        assert await view.progress(0) is None

    async def test_load_follows_the_live_scope(self, projection: Projection) -> None:
        """Cells of a thread come from the scope that its record names; explicit ones as named."""
        view, thread, copy = projection.view, hash_of("t"), b"c" * 16
        key = ROWS + thread
        cells = {(key + epoch_of(0), b"f"): b"old", (key + copy, b"f"): b"new", (MAP, b"x"): b"y"}
        await apply(view, Changes(cells=dict(cells)))
        wanted = Wanted([thread], [(thread, ROWS, b"f"), (thread, ROWS, b"g")], [(MAP, b"x")])
        loaded = await view.load(0, wanted)
        assert loaded.threads == {}
        assert loaded.cells == {
            (key + epoch_of(0), b"f"): b"old",
            (key + epoch_of(0), b"g"): None,
            (MAP, b"x"): b"y",
        }
        await apply(view, Changes(cells={(THREADS, thread): record(copy)}))
        loaded = await view.load(0, wanted)
        assert loaded.threads == {thread: ThreadRecord.unpack(record(copy))}
        assert loaded.cells == {
            (key + copy, b"f"): b"new",
            (key + copy, b"g"): None,
            (MAP, b"x"): b"y",
        }
        assert loaded.progress == await view.progress(0)

    async def test_any_bytes_are_kept(self, projection: Projection) -> None:
        """Fields, values and members are bytes; an empty value is a value."""
        scope = hash_of("t") + epoch_of(0)
        cells: dict[tuple[bytes, bytes], bytes | None] = {
            (VALUES + scope, name + b"%d" % n): name for n, name in enumerate(AWKWARD)
        }
        cells[THREADS, hash_of("t")] = record()
        cells[VALUES + scope, b""] = b""
        members = {(IDS + scope, name): True for name in AWKWARD}
        await apply(projection.view, Changes(cells=cells, members=members))
        dump = await projection.view.dump(0)
        assert dump[VALUES + scope] == {
            name: value for (key, name), value in cells.items() if key == VALUES + scope
        }
        assert dump[IDS + scope] == dict.fromkeys(AWKWARD, b"")
        wanted = Wanted([], [], [cell for cell in cells if cell[0] != THREADS])
        loaded = await projection.view.load(0, wanted)
        assert loaded.cells == {cell: cells[cell] for cell in wanted.cells}

    async def test_changes_remove_and_drop(self, projection: Projection) -> None:
        """A removed cell or member is gone; a drop comes before what the same step puts there."""
        view, scope = projection.view, hash_of("t") + epoch_of(0)
        first = Changes(
            cells={
                (THREADS, hash_of("t")): record(),
                (ROWS + scope, b"a"): b"1",
                (ROWS + scope, b"b"): b"2",
                (VALUES + scope, b"old"): b"3",
            },
            members={(IDS + scope, b"a"): True, (IDS + scope, b"b"): True},
        )
        await apply(view, first)
        second = Changes(
            cells={(ROWS + scope, b"a"): None, (VALUES + scope, b"new"): b"4"},
            members={(IDS + scope, b"a"): False, (IDS + scope, b"never"): False},
            drops=[VALUES + scope],
        )
        await apply(view, second)
        assert await view.dump(0) == {
            THREADS: {hash_of("t"): record()},
            ROWS + scope: {b"b": b"2"},
            VALUES + scope: {b"new": b"4"},
            IDS + scope: {b"b": b""},
        }

    async def test_applying_twice_changes_nothing_more(self, projection: Projection) -> None:
        """Changes are absolute, so a step that stopped half-way may be made again."""
        view, scope = projection.view, LIVE
        await apply(view, Changes(cells={(ROWS + scope, b"gone"): b"x", (POISON, b"p"): b"why"}))
        changes = Changes(
            cells={
                (THREADS, hash_of("t")): record(),
                (ROWS + scope, b"a"): b"1",
                (ROWS + scope, b"gone"): None,
                (POISON, b"q"): b"why not",
            },
            members={(IDS + scope, b"a"): True, (IDS + scope, b"b"): False},
            drops=[POISON],
        )
        await apply(view, changes, step=0)
        once = await view.dump(0)
        await apply(view, changes, step=0)
        await apply(view, changes)
        assert await view.dump(0) == once
        assert once[POISON] == {b"q": b"why not"}

    async def test_a_step_may_be_large(self, projection: Projection) -> None:
        """One step holds thousands of cells and members, and values of several megabytes."""
        view, scope, source = projection.view, LIVE, random.Random(1)
        fields = [b"%016d" % n for n in range(9_000)]
        cells: dict[tuple[bytes, bytes], bytes | None] = {
            (ROWS + scope, name): name * 3 for name in fields
        }
        cells |= {(VALUES + scope, b"%d" % n): source.randbytes(700_000) for n in range(5)}
        cells[THREADS, hash_of("t")] = record()
        members = {(IDS + scope, name): True for name in fields}
        await apply(view, Changes(cells=cells, members=members))
        dump = await view.dump(0)
        assert {(key, name): value for key in dump for name, value in dump[key].items()} == {
            **cells,
            **dict.fromkeys(members, b""),
        }
        wanted = Wanted([], [(hash_of("t"), ROWS, name) for name in fields], list(cells))
        assert (await view.load(0, wanted)).cells == cells
        gone = Changes(
            cells=dict.fromkeys((ROWS + scope, name) for name in fields),
            members=dict.fromkeys(members, False),
        )
        await apply(view, gone)
        assert set(await view.dump(0)) == {VALUES + scope, THREADS}

    async def test_partitions_are_apart(self, view: CheckpointView) -> None:
        """The same keys in two partitions are two things."""
        first, second = Projection(view, 0), Projection(view, 1)
        await first.begin(b"gener-00")
        await second.begin(b"gener-00")
        await first.feed(saved("t", "1", {"a": b"first"}))
        assert await view.dump(1) == {}
        assert (await view.thread(1, 0, hash_of("t"))).value is None
        await view.discard(0)
        assert await view.progress(1) == start_of(b"gener-00")

    async def test_two_projectors_at_once_fold_the_log(
        self, projection: Projection, open_view: OpenView
    ) -> None:
        """However many apply the same log at once, the view is the fold of the log."""
        items = [
            item
            for n in range(120)
            for item in (
                saved(f"t{n % 5}", f"{n:04}", {"a": b"%d" % n}),
                wrote(f"t{n % 5}", f"{n:04}", "task", (0, "a", b"%d" % n)),
                *([deleted(f"t{n % 5}")] if n % 31 == 30 else []),
            )
        ]
        await projection.feed(*items)
        expected = await projection.view.dump(0)
        await projection.view.discard(0)
        assert await projection.view.begin(0, start_of(b"gener-02"))
        views = [await open_view() for _ in range(3)]
        sizes = (7, 16, 250)
        await asyncio.gather(
            *(
                catch_up(view, 0, projection.entries, size=size)
                for view, size in zip(views, sizes, strict=True)
            )
        )
        assert await projection.view.dump(0) == expected

    async def test_a_discarded_view_is_gone_at_once(self, projection: Projection) -> None:
        """After a discard there is no view, and nobody can go on applying to the old one."""
        view = projection.view
        await projection.feed(saved("t", "1", {"a": b"1"}))
        before = await view.progress(0)
        assert before is not None
        await view.discard(0)
        assert await view.progress(0) is None
        with pytest.raises(ViewBehindError) as caught:
            await view.thread(0, 0, hash_of("t"))
        assert caught.value.applied == 0
        reached = replace(before, next_offset=before.next_offset + 1)
        assert not await view.apply(0, expected=before, changes=Changes(), reached=reached)
        assert await view.progress(0) is None
        await view.discard(0)

    async def test_a_new_generation_holds_nothing_of_the_old_one(
        self, projection: Projection
    ) -> None:
        """A view that begins again begins from nothing, whether or not the old one is swept."""
        view = projection.view
        await projection.feed(saved("t", "1", {"a": b"1"}))
        await view.discard(0)
        assert await view.begin(0, replace(start_of(b"gener-02"), next_offset=0))
        assert await view.dump(0) == {}
        loaded = await view.load(0, Wanted([hash_of("t")], []))
        assert loaded.threads == {}
        answer = await view.checkpoint(0, 0, thread=hash_of("t"), namespace="", checkpoint_id=None)
        assert answer.value == (None, None)
        old = replace(start_of(GENERATION), next_offset=1)
        assert not await view.apply(0, expected=old, changes=Changes(), reached=old)

    async def test_the_log_identity_stays_with_the_view(
        self, projection: Projection, open_view: OpenView
    ) -> None:
        """Another instance sees of which log the view is."""
        await projection.feed(saved("t", "1"))
        progress = await (await open_view()).progress(0)
        assert progress.identity == IDENTITY

    async def test_a_view_has_a_name_for_people(self, view: CheckpointView) -> None:
        """Messages can say which view they are about."""
        assert view.name

    async def test_close_is_idempotent(self, open_view: OpenView) -> None:
        """Closing again is no error."""
        view = await open_view()
        await view.close()
        await view.close()

    async def test_dead_scopes_are_no_part_of_the_dump(self, projection: Projection) -> None:
        """What is unreachable does not count, swept or not."""
        await projection.feed(saved("t", "1", {"a": b"1"}, metadata={"run_id": "r"}), deleted("t"))
        dump = await projection.view.dump(0)
        assert set(dump) == {THREADS, RECORDS + hash_of("t")}
        assert DEAD not in dump
