"""What `CheckpointView` promises of its whole: it is the log's fold, and sweeping is unseen."""

from __future__ import annotations

import asyncio
import random

from msgspec.structs import replace

from eventstore.events import (
    ChannelState,
    CheckpointSaved,
    CheckpointsDeleted,
    ChunkedPayload,
    ChunkSaved,
    NewEvent,
    ThreadCopied,
    ThreadErased,
)
from projector.chunks import is_live_chunk_scope
from projector.layout import (
    CHUNKS,
    DEAD,
    HASH_BYTES,
    NEWEST,
    PENDING,
    POISON,
    RECENT,
    RECORDS,
    RUNS,
    SCOPE_LETTERS,
    THREADS,
    WAITING,
    ThreadRecord,
    split_newest_member,
    split_run_member,
)
from projector.pending import unpack_pending
from projector.projection import Entry, State, fold, independent, wanted_after, wanted_by
from projector.view import Changes, Selection, Wanted

from .view_suite import (
    Item,
    OpenView,
    Poison,
    Projection,
    Tombstone,
    ViewSuite,
    deleted,
    entry_of,
    hash_of,
    keys,
    listed,
    saved,
    start_of,
    sweep_all,
    wrote,
)


class ModelView:
    """The view as two dictionaries; what every adapter must be equal to."""

    def __init__(self) -> None:
        self.cells: dict[bytes, dict[bytes, bytes]] = {}
        self.members: dict[bytes, set[bytes]] = {}

    def fold(self, entries: list[Entry]) -> None:
        """Fold entries one at a time."""
        for entry in entries:
            assert independent([entry]) == 1
            state = State(self._threads(), {})
            state.add(self._load(wanted_by([entry])))
            more = wanted_after([entry], state)
            if more is not None:
                state.add(self._load(more))
            self._apply(fold([entry], state))

    def _threads(self) -> dict[bytes, ThreadRecord]:
        found = self.cells.get(THREADS, {})
        return {thread: ThreadRecord.unpack(data) for thread, data in found.items()}

    def _load(self, wanted: Wanted) -> dict[tuple[bytes, bytes], bytes | None]:
        cells = [(letter + self._scope(thread), name) for thread, letter, name in wanted.live]
        cells += wanted.cells
        return {(key, name): self.cells.get(key, {}).get(name) for key, name in cells}

    def _scope(self, thread: bytes) -> bytes:
        return thread + self.cells.get(THREADS, {}).get(thread, bytes(16))[:16]

    def _apply(self, changes: Changes) -> None:
        for key in changes.drops:
            self.cells.pop(key, None)
        for (key, name), value in changes.cells.items():
            cell = self.cells.setdefault(key, {})
            if value is None:
                cell.pop(name, None)
            else:
                cell[name] = value
        for (key, member), is_in in changes.members.items():
            members = self.members.setdefault(key, set())
            if is_in:
                members.add(member)
            else:
                members.discard(member)

    def dump(self) -> dict[bytes, dict[bytes, bytes]]:
        """Return what is reachable."""
        live = {self._scope(thread) for thread in self.cells.get(THREADS, {})}
        found = {
            key: dict(cell)
            for key, cell in self.cells.items()
            if key in {THREADS, POISON} or key[:1] in {RECORDS, WAITING} or key[1:] in live
        }
        records = self._threads()
        for key, cell in self.cells.items():
            if key[:1] == CHUNKS and is_live_chunk_scope(key[1:], records.get(key[1:17])):
                found[key] = dict(cell)
        pending = {n: unpack_pending(n, d) for n, d in self.cells.get(PENDING, {}).items()}
        found[PENDING] = {
            n: entry.pack()
            for n, entry in pending.items()
            if not entry.is_past(records.get(entry.thread))
        }
        for key, members in self.members.items():
            if key == NEWEST:
                kept = {m for m in members if split_newest_member(m)[1] in live}
            elif key == RUNS:
                kept = {m for m in members if split_run_member(m)[0] in live}
            else:
                kept = {m for m in members if key == RECENT or key[1:] in live}
            found[key] = dict.fromkeys(kept, b"")
        return {key: cell for key, cell in found.items() if cell}


def history(seed: int, length: int) -> list[Item]:
    """Return a random history of a few threads, with everything that can be in a log."""
    source = random.Random(seed)
    threads = ["t", "u", "v"]
    items: list[Item] = []
    lives: dict[str, int] = dict.fromkeys(threads, 0)
    copies: dict[str, int] = dict.fromkeys(threads, 0)
    puts: list[NewEvent] = []
    chunks: dict[str, tuple[int, NewEvent]] = {}
    for offset in range(length):
        thread, checkpoint_id = source.choice(threads), str(source.randrange(6))
        namespace = source.choice(["", "n"])
        life = lives[thread] if source.random() < 0.9 else max(0, lives[thread] - 3)
        copy = b"copy-id-%08d" % copies[thread]
        copy_id = source.choice([None] * 9 + [copy])
        roll = source.random()
        item: Item
        if roll < 0.4:
            item = saved(
                thread,
                checkpoint_id,
                {"a": b"%d" % offset},
                namespace=namespace,
                parent=str(source.randrange(6)),
                incarnation=life,
                metadata={"run_id": source.choice(["r", "s", 1])},
                copy_id=copy_id,
            )
            puts.append(item)
        elif roll < 0.8:
            index = source.choice([0, 1, -1])
            item = wrote(
                thread,
                checkpoint_id,
                source.choice("xy"),
                (index, "a", b"%d" % offset),
                namespace=namespace,
                incarnation=life,
                copy_id=copy_id,
            )
        elif roll < 0.88:
            names = ((namespace, checkpoint_id), (namespace, str(source.randrange(6))))
            item = NewEvent(thread, CheckpointsDeleted(life, names))
        elif roll < 0.91:
            item = deleted(thread)
            lives[thread] = offset
        elif roll < 0.935:
            item = _large(chunks, offset, saved(thread, checkpoint_id, incarnation=life))
            puts.append(item)
        elif roll < 0.94:
            item = Poison(source.choice([thread, None]))
        elif roll < 0.95 and puts:
            item = Tombstone(source.choice(puts))
        elif roll < 0.97:
            item = NewEvent(None, ThreadErased(hash_of(thread), lives[thread]))
        else:
            item = NewEvent(thread, ThreadCopied(copy, "s", life, 2))
            copies[thread] += 1
        items.append(item)
    return items


def _large(chunks: dict[str, tuple[int, NewEvent]], offset: int, new: NewEvent) -> NewEvent:
    """Return the checkpoint that the thread's last chunk is for, a chunk when there is none."""
    event, thread = new.event, new.thread_id or ""
    assert isinstance(event, CheckpointSaved)
    if thread not in chunks:
        chunk = NewEvent(thread, ChunkSaved(event.incarnation, b"%d" % offset), part=1)
        chunks[thread] = offset, chunk
        return chunk
    at, chunk = chunks.pop(thread)
    channels = {
        "a": ChannelState(1, ChunkedPayload("bytes", b"", bytes(16), ((at, len(b"%d" % at)),)))
    }
    return NewEvent(
        thread, replace(event, channels=channels, chunked_at=1_000 + at), chunk.event_id
    )


class SweepSuite(ViewSuite):
    """The view is a function of the log; what it cannot reach goes away without a trace."""

    async def test_the_view_is_the_fold_of_the_log(self, projection: Projection) -> None:
        """Whatever the log holds, and however it is cut into batches, the view is its fold."""
        for seed in range(8):
            model = ModelView()
            items = history(seed, 250)
            await projection.view.discard(0)
            await projection.begin(b"again-%02d" % seed)
            for start in range(0, len(items), 50):
                batch = items[start : start + 50]
                model.fold([entry_of(item, start + n) for n, item in enumerate(batch)])
                await projection.feed(*batch)
                assert await projection.view.dump(0) == model.dump(), (seed, start)
                await projection.view.sweep(0, limit=3)

    async def test_sweeping_changes_nothing_that_is_seen(self, projection: Projection) -> None:
        """Reachable state is the same before, during and after a sweep, which comes to an end."""
        view = projection.view
        for thread in ("t", "u"):
            await projection.feed(
                *(
                    saved(thread, f"{n:03}", {"a": b"x"}, metadata={"run_id": "r"})
                    for n in range(70)
                ),
                *(wrote(thread, f"{n:03}", "task", (0, "a", b"x")) for n in range(70)),
            )
        await projection.feed(deleted("t"), saved("t", "1", incarnation=projection.next_offset))
        before = await view.dump(0)
        names = keys((await listed(view, Selection()))[0])
        while await view.sweep(0, limit=10):
            assert await view.dump(0) == before
        assert await view.dump(0) == before
        assert keys((await listed(view, Selection()))[0]) == names
        assert not await view.sweep(0)

    async def test_sweeping_goes_in_small_steps(self, projection: Projection) -> None:
        """A long history goes away a limited number of entries at a time."""
        await projection.feed(
            *(saved("t", f"{n:03}", metadata={"run_id": "r"}) for n in range(100)), deleted("t")
        )
        assert await sweep_all(projection.view, limit=10) >= 10

    async def test_there_is_nothing_to_sweep_at_first(self, projection: Projection) -> None:
        """A view in which nothing died says so, and one that is not there too."""
        await projection.feed(saved("t", "1"))
        assert not await projection.view.sweep(0)
        assert not await projection.view.sweep(3)

    async def test_a_live_scope_is_never_swept(self, projection: Projection) -> None:
        """Even a scope that is listed as dead is left alone while its thread lives in it."""
        await projection.feed(saved("t", "1", {"a": b"1"}, metadata={"run_id": "r"}))
        before = await projection.view.dump(0)
        progress = await projection.view.progress(0)
        assert progress is not None
        for scope in (hash_of("t") + bytes(16), hash_of("never seen") + bytes(16)):
            changes = Changes(members={(DEAD, scope): True})
            assert await projection.view.apply(
                0, expected=progress, changes=changes, reached=progress
            )
        await sweep_all(projection.view)
        assert await projection.view.dump(0) == before

    async def test_a_discarded_generation_is_swept(self, projection: Projection) -> None:
        """An old generation goes away beside a new one, and without one."""
        view = projection.view
        await projection.feed(*(saved("t", f"{n}", {"a": b"1"}) for n in range(300)))
        await view.discard(0)
        await projection.begin(b"gener-02")
        await projection.feed(saved("t", "1", {"a": b"2"}))
        before = await view.dump(0)
        await sweep_all(view, limit=10)
        assert await view.dump(0) == before
        await view.discard(0)
        await sweep_all(view)
        assert await view.progress(0) is None

    async def test_sweepers_do_not_disturb_projectors(
        self, projection: Projection, open_view: OpenView
    ) -> None:
        """Several sweepers beside a projector leave the same view."""
        model, sweeper = ModelView(), await open_view()
        is_over = asyncio.Event()

        async def sweep() -> None:
            while not is_over.is_set():
                await sweeper.sweep(0, limit=2)
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            sweepers = [tasks.create_task(sweep()) for _ in range(2)]
            for seed in range(3):
                items = history(seed, 120)
                model = ModelView()
                await projection.view.discard(0)
                assert await projection.view.begin(0, start_of(b"again-%02d" % seed))
                projection.next_offset = 0
                model.fold([entry_of(item, n) for n, item in enumerate(items)])
                for item in range(0, 120, 8):
                    await projection.feed(*items[item : item + 8])
                assert await projection.view.dump(0) == model.dump()
            is_over.set()
        assert all(task.done() for task in sweepers)

    async def test_a_dump_has_no_prefix_of_its_adapter(self, projection: Projection) -> None:
        """Keys of a dump are the layout's keys, so that dumps of two adapters compare."""
        await projection.feed(
            saved("t", "1", {"a": b"1"}, metadata={"run_id": "r"}),
            wrote("t", "1", "x", (0, "a", b"")),
            Poison(None),
            Poison("u"),
        )
        dump = await projection.view.dump(0)
        whole = {THREADS, POISON, RECENT, NEWEST, RUNS}
        letters = {*SCOPE_LETTERS, RECORDS, WAITING}
        assert whole <= dump.keys()
        for key in dump.keys() - whole:
            assert key[:1] in letters
            assert len(key) in {1 + HASH_BYTES, 1 + 2 * HASH_BYTES}
