"""Pages of threads, and the cursors between them."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import apsw
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import empty_checkpoint

from eventstore.codec import record_key
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from eventstore.sqlite.records import Row, insert, packed_headers
from langgraph.checkpoint.kafka import AsyncKafkaSaver, InvalidConfigError, Threads
from projector.sqlite import SqliteView
from saver.threads import _cursor, _cursors

COUNT = 25


class Partitions:
    """As much of a reader as a cursor is checked against."""

    def partitions(self) -> list[int]:
        return [0, 1, 2]


@pytest.fixture
async def saver() -> AsyncIterator[AsyncKafkaSaver]:
    """A saver that holds threads `0` to `24`, put in this order."""
    async with AsyncKafkaSaver.from_conn_string("sqlite:///:memory:") as saver:
        for number in range(COUNT):
            config: Any = {"configurable": {"thread_id": str(number)}}
            metadata: Any = {"parity": number % 2}
            await saver.aput(config, empty_checkpoint(), metadata, {})
        yield saver


async def all_pages(saver: AsyncKafkaSaver, limit: int, **chosen: Any) -> list[list[int]]:
    pages: list[list[int]] = []
    after: str | None = None
    while True:
        page = await saver.athreads(limit=limit, after=after, **chosen)
        pages.append([int(info.thread_id) for info in page.threads])
        after = page.cursor
        if after is None:
            return pages


@pytest.mark.parametrize("limit", [1, 2, 7, 24, 25, 26])
async def test_pages_hold_every_thread_once(saver: AsyncKafkaSaver, limit: int) -> None:
    """Whatever the size of a page, each thread is on exactly one."""
    pages = await all_pages(saver, limit)
    assert all(len(page) <= limit for page in pages)
    assert sorted(number for page in pages for number in page) == [*range(COUNT)]
    assert pages == [page for page in pages if page] or pages[-1] == []


async def test_a_search_goes_on_over_pages(saver: AsyncKafkaSaver) -> None:
    """A filter counts what matches, in the pages and in the count."""
    pages = await all_pages(saver, 5, filter={"parity": 1})
    assert sorted(number for page in pages for number in page) == [*range(1, COUNT, 2)]
    assert await saver.acount_threads(filter={"parity": 1}) == COUNT // 2
    assert await saver.acount_threads() == COUNT


def append_raw(connection: apsw.Connection, *, record: Row) -> None:
    """Put something into the log that is no event."""
    insert(connection, [record])


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.timeout(10)
async def test_parked_threads_are_named_in_their_place(limit: int) -> None:
    """However many follow one another, each is on one page, and the others are on theirs."""
    parked = {"1", "5", "6", "7"}
    async with SqliteDatabase(":memory:") as database:
        saver = AsyncKafkaSaver(SqliteEventLog(database), SqliteView(database))
        async with saver:
            for number in range(8):
                config: Any = {"configurable": {"thread_id": str(number)}}
                await saver.aput(config, empty_checkpoint(), {}, {})
            writer = await database.writer()
            for name in parked:
                garbage = (1, record_key(name, os.urandom(16), 0), b"garbage", packed_headers(()))
                await writer.run(partial(append_raw, record=garbage))
            pages: list[Threads] = []
            after: str | None = None
            while not pages or after is not None:
                pages.append(await saver.athreads(limit=limit, after=after))
                after = pages[-1].cursor
            named = [error.thread_id for page in pages for error in page.parked]
            assert (sorted(named), len(named)) == (sorted(parked), 4)
            shown = [int(info.thread_id) for page in pages for info in page.threads]
            assert sorted(shown) == [0, 2, 3, 4]
            assert await saver.acount_threads() == 4
            assert await saver.acount_threads(filter={"source": "x"}) == 0


async def test_no_limit_is_below_nothing(saver: AsyncKafkaSaver) -> None:
    """A page of no threads is empty; a negative one is an error."""
    page = await saver.athreads(limit=0)
    assert (page.threads, page.cursor) == ([], None)
    with pytest.raises(InvalidConfigError, match="limit"):
        await saver.athreads(limit=-1)


@given(st.dictionaries(st.integers(0, 2), st.none() | st.binary(max_size=40), min_size=1))
def test_a_cursor_comes_back_as_it_was(cursors: dict[int, bytes | None]) -> None:
    reader: Any = Partitions()
    assert _cursors(_cursor(cursors), reader) == cursors


@given(
    st.text(max_size=30)
    | st.binary(max_size=20).map(lambda data: base64.urlsafe_b64encode(data).decode())
    | st.recursive(
        st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.binary(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=4,
    ).map(lambda value: base64.urlsafe_b64encode(msgpack.packb(value)).decode())
)
def test_what_is_no_cursor_is_refused_or_harmless(after: str) -> None:
    """Any text is either a cursor of this log or an error that names the argument."""
    reader: Any = Partitions()
    refused: InvalidConfigError | None = None
    cursors: Mapping[int, bytes | None] = {}
    try:
        cursors = _cursors(after, reader)
    except InvalidConfigError as error:
        refused = error
    assert refused is None or refused.key == "after"
    assert set(cursors) <= {0, 1, 2}
