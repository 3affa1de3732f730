"""What the view's contract leaves to SQLite: locks, damage, bounded work, shared connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.errors import LogUnavailableError
from eventstore.sqlite import SqliteDatabase
from eventstore.sqlite.statement import execute, row
from projector.errors import ViewCorruptedError, ViewUnavailableError
from projector.layout import IDS, NEWEST, ROWS, WRITES, ThreadRecord
from projector.sqlite import SqliteView, listing
from projector.sqlite.tables import SIZES, chunks, prefixed
from projector.view import Changes, Selection, Wanted
from tests.contracts.view_suite import (
    Projection,
    deleted,
    hash_of,
    keys,
    listed,
    saved,
    start_of,
    wrote,
)

T = hash_of("t")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    async with SqliteDatabase(tmp_path / "view.sqlite", timeout=0.05) as database:
        yield database


@pytest.fixture
async def view(database: SqliteDatabase) -> AsyncIterator[SqliteView]:
    view = SqliteView(database)
    await view.setup()
    yield view
    await view.close()


@pytest.fixture
async def projection(view: SqliteView) -> Projection:
    projection = Projection(view)
    await projection.begin()
    return projection


async def damage(database: SqliteDatabase, sql: str, *values: object) -> None:
    """Change the file behind the view's back."""

    def job(connection: apsw.Connection) -> int:
        execute(connection, sql, values)
        return connection.changes()

    assert await (await database.writer()).run(job)


class TestSharing:
    async def test_a_locked_file_is_unavailable(
        self, database: SqliteDatabase, projection: Projection
    ) -> None:
        """A writer that waits too long says so, and changes nothing; readers do not wait."""
        view = projection.view
        await projection.feed(saved("t", "1"))
        before = await view.dump(0)
        progress = await view.progress(0)
        assert progress is not None
        other = apsw.Connection(database.name)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ViewUnavailableError) as caught:
            await view.apply(0, expected=progress, changes=Changes(), reached=progress)
        assert isinstance(caught.value.__cause__, LogUnavailableError)
        assert caught.value.view == view.name
        assert (await view.thread(0, 1, T)).value is not None
        other.execute("ROLLBACK")
        other.close()
        assert await view.dump(0) == before

    async def test_a_file_that_cannot_be_opened_is_unavailable(self, tmp_path: Path) -> None:
        """Reading it is no empty answer."""
        async with SqliteDatabase(tmp_path / "missing" / "view.sqlite") as database:
            view = SqliteView(database)
            with pytest.raises(ViewUnavailableError):
                await view.progress(0)
            with pytest.raises(ViewUnavailableError):
                await view.setup()

    async def test_the_log_keeps_its_full_sync(
        self, database: SqliteDatabase, projection: Projection
    ) -> None:
        """The view's own commits wait for no disk; the log's, on the same connection, still do."""
        writer = await database.writer()

        def synchronous(connection: apsw.Connection) -> Any:
            return row(connection, "PRAGMA synchronous")

        assert await writer.run(synchronous) == 2
        await projection.feed(saved("t", "1"), deleted("t"))
        await projection.view.sweep(0)
        assert await writer.run(synchronous) == 2
        progress = await projection.view.progress(0)
        assert progress is not None
        lost: Any = {(b"k", b"f"): object()}
        with pytest.raises(TypeError):
            await projection.view.apply(
                0, expected=progress, changes=Changes(cells=lost), reached=progress
            )
        assert await writer.run(synchronous) == 2
        assert await projection.view.progress(0) == progress

    async def test_closing_leaves_the_database_open(
        self, database: SqliteDatabase, projection: Projection
    ) -> None:
        """Whoever opened the file closes it."""
        await projection.feed(saved("t", "1"))
        await projection.view.close()
        other = SqliteView(database)
        assert (await other.thread(0, 1, T)).value is not None
        await other.close()

    async def test_the_file_outlives_its_views(self, tmp_path: Path) -> None:
        """A view that is opened again goes on where it was."""
        async with SqliteDatabase(tmp_path / "view.sqlite") as database:
            view = SqliteView(database)
            await view.setup()
            projection = Projection(view)
            await projection.begin()
            await projection.feed(saved("t", "1", {"a": b"A"}))
            before, progress = await view.dump(0), await view.progress(0)
        async with SqliteDatabase(tmp_path / "view.sqlite") as database:
            view = SqliteView(database)
            await view.setup()
            assert not await view.begin(0, start_of(b"another1"))
            assert (await view.dump(0), await view.progress(0)) == (before, progress)


class TestDamage:
    @pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 200])
    async def test_unreadable_bytes_are_told(
        self, database: SqliteDatabase, projection: Projection, data: bytes
    ) -> None:
        """A row that is no row is a corrupt view, never "not found"."""
        await projection.feed(saved("t", "1", {"a": b"A"}))
        sql = "UPDATE view1_cell SET value = ? WHERE substr(key, 1, 1) = ?"
        await damage(database, sql, data, ROWS)
        with pytest.raises(ViewCorruptedError) as caught:
            await projection.view.checkpoint(0, 1, thread=T, namespace="", checkpoint_id=None)
        assert caught.value.partition == 0

    @pytest.mark.parametrize(
        ("letter", "selection"),
        [(ROWS, Selection()), (ROWS, Selection(T)), (WRITES, Selection(T, ""))],
    )
    async def test_an_index_that_leads_nowhere_is_told(
        self,
        database: SqliteDatabase,
        projection: Projection,
        letter: bytes,
        selection: Selection,
    ) -> None:
        """What an index names and the view lacks is never left out in silence."""
        await projection.feed(saved("t", "1"), wrote("t", "1", "x", (0, "a", b"w")))
        await damage(database, "DELETE FROM view1_cell WHERE substr(key, 1, 1) = ?", letter)
        with pytest.raises(ViewCorruptedError):
            await listed(projection.view, selection, with_values=True)

    async def test_a_latest_without_its_row_is_told(
        self, database: SqliteDatabase, projection: Projection
    ) -> None:
        """The greatest id of the index has a row."""
        await projection.feed(saved("t", "1"))
        await damage(database, "DELETE FROM view1_cell WHERE substr(key, 1, 1) = ?", ROWS)
        with pytest.raises(ViewCorruptedError):
            await projection.view.checkpoint(0, 1, thread=T, namespace="", checkpoint_id=None)

    async def test_an_active_thread_without_a_record_is_told(
        self, database: SqliteDatabase, projection: Projection
    ) -> None:
        """The order of activity names threads that there are."""
        await projection.feed(saved("t", "1"))
        await damage(database, "DELETE FROM view1_cell WHERE key = ?", b"t")
        with pytest.raises(ViewCorruptedError):
            await projection.view.threads(0, 1, cursor=None, limit=9)


class TestBounds:
    async def test_a_page_looks_at_a_bounded_number_of_entries(
        self, projection: Projection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where much is dead a page may be empty; the next ones find what there is."""
        monkeypatch.setattr(listing, "MAX_EXAMINED", 3)
        await projection.feed(
            *(saved("gone", f"{number}") for number in range(5, 9)),
            saved("t", "1"),
            saved("t", "9"),
            deleted("gone"),
        )
        view = projection.view
        first = (
            await view.checkpoints(0, 0, Selection(), cursor=None, limit=2, with_values=False)
        ).value
        assert [found.checkpoint_id for found in first.checkpoints] == ["9"]
        assert first.cursor is not None
        found, _ = await listed(view, Selection(), limit=2)
        assert keys(found) == [("t", "", "9"), ("t", "", "1")]

    @pytest.mark.parametrize("is_export", [True, False])
    async def test_a_page_ends_before_it_grows_large(
        self, projection: Projection, monkeypatch: pytest.MonkeyPatch, *, is_export: bool
    ) -> None:
        """The cursor of a page that ended early goes on behind the last one that it holds."""
        monkeypatch.setattr(listing, "PAGE_BYTES", 160)
        ids = [f"{number:02}" for number in range(11)]
        await projection.feed(*(saved("t", name, {"a": b"AA"}) for name in ids))
        view, cursor, pages = projection.view, None, list[list[str]]()
        while True:
            if is_export:
                answer = await view.exported(0, 0, thread=T, cursor=cursor, limit=9)
            else:
                answer = await view.checkpoints(
                    0, 0, Selection(T), cursor=cursor, limit=9, with_values=True
                )
            pages.append([found.checkpoint_id for found in answer.value.checkpoints])
            cursor = answer.value.cursor
            if cursor is None:
                break
        assert [name for page in pages for name in page] == (ids if is_export else ids[::-1])
        assert [len(page) for page in pages] == [5, 5, 1]

    @pytest.mark.parametrize("count", [0, 1, 2, 127, 128, 129, 300])
    async def test_any_number_of_cells_is_loaded(self, view: SqliteView, count: int) -> None:
        """However many statements it takes, each cell is answered once."""
        assert await view.begin(0, start_of())
        cells: dict[tuple[bytes, bytes], bytes | None] = {
            (b"k", b"%d" % number): b"" if number % 3 else b"\0%d" % number
            for number in range(count)
        }
        start = start_of()
        reached = replace(start, next_offset=1)
        changes = Changes(cells=cells, members={(b"m", key[1]): True for key in cells})
        assert await view.apply(0, expected=start, changes=changes, reached=reached)
        missing = (b"k", b"missing")
        loaded = await view.load(0, Wanted([], [], [*cells, missing, *cells]))
        assert loaded.cells == {**cells, missing: None}
        removed = Changes(
            cells=dict.fromkeys(cells), members={(b"m", key[1]): False for key in cells}
        )
        assert await view.apply(0, expected=reached, changes=removed, reached=reached)
        assert await view.dump(0) == {}

    async def test_live_cells_lie_where_the_thread_lives(self, projection: Projection) -> None:
        """A cell is wanted by its letter; without a record, it would lie in the first scope."""
        await projection.feed(deleted("u"), deleted("t"))
        wanted = Wanted([T], [(T, ROWS, b"f"), (hash_of("new"), IDS, b"f")])
        loaded = await projection.view.load(0, wanted)
        record = loaded.threads[T]
        assert isinstance(record, ThreadRecord)
        assert set(loaded.cells) == {
            (ROWS + T + record.epoch, b"f"),
            (IDS + hash_of("new") + bytes(16), b"f"),
        }


class TestStatements:
    @given(st.integers(0, 1_000))
    def test_chunks_cover_all_in_few_sizes(self, count: int) -> None:
        """Every item is in one chunk, and every chunk fits the statement that takes it."""
        cut = list(chunks(count))
        assert [at for start, stop, _ in cut for at in range(start, stop)] == list(range(count))
        assert all(0 < stop - start <= size and size in SIZES for start, stop, size in cut)

    @given(st.binary(max_size=4), st.binary(max_size=6))
    def test_a_prefix_range_holds_what_begins_so(self, prefix: bytes, member: bytes) -> None:
        """No more and no less, whatever bytes the prefix ends with."""
        _, start, stop = prefixed(NEWEST, prefix)
        assert (start <= member < stop) == member.startswith(prefix)
