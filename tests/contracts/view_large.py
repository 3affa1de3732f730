"""What `CheckpointView` promises of what lies in chunks, and of answers larger than one call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from eventstore.codec import digest_of, record_key
from eventstore.events import (
    ChannelState,
    CheckpointSaved,
    ChunkedPayload,
    ChunkSaved,
    Extended,
    NewEvent,
    Payload,
    ThreadCopied,
    Write,
    WritesSaved,
    new_event_id,
)
from projector.layout import CHUNKS, epoch_of
from projector.pending import Pending
from projector.view import CheckpointView, Selection, StoredCheckpoint

from .view_history import steps_of, walk
from .view_suite import (
    Item,
    Projection,
    Tombstone,
    ViewSuite,
    data_of,
    deleted,
    empty,
    full,
    hash_of,
    listed,
    saved,
    sweep_all,
    writes_of,
    wrote,
)

T = hash_of("t")
COPY = b"copy-id-of-16-b."
SIZE = 500_000
"""Of a chunk, about."""

source = random.Random(3)
LARGE = source.randbytes(7 * SIZE + 17)
OTHER = source.randbytes(2 * SIZE)


class Upload:
    """Cuts payloads of one event into chunks, as a writer does."""

    def __init__(self, projection: Projection, thread_id: str = "t", incarnation: int = 0) -> None:
        self._first = projection.next_offset
        self._thread_id = thread_id
        self._incarnation = incarnation
        self._event_id = new_event_id()
        self.chunks: list[NewEvent] = []

    def payload(self, data: bytes) -> ChunkedPayload:
        """Add a payload's chunks; they get the next offsets."""
        places: list[tuple[int, int]] = []
        for start in range(0, len(data), SIZE):
            part = data[start : start + SIZE]
            places.append((self._first + len(self.chunks), len(part)))
            event = ChunkSaved(self._incarnation, part)
            self.chunks.append(
                NewEvent(self._thread_id, event, self._event_id, 1 + len(self.chunks))
            )
        return ChunkedPayload("bytes", b"", digest_of(data), tuple(places))

    def manifest(self, new: NewEvent, **fields: Any) -> list[NewEvent]:
        """Return the chunks and the event that they are for."""
        event = new.event
        assert isinstance(event, CheckpointSaved | WritesSaved)
        return [
            *self.chunks,
            NewEvent(new.thread_id, replace(event, chunked_at=1_000, **fields), self._event_id),
        ]


def large(
    projection: Projection, checkpoint_id: str, data: bytes = LARGE, **options: Any
) -> list[NewEvent]:
    """Return a checkpoint with its chunks; its channel `a` has the data."""
    upload = Upload(projection, incarnation=options.get("incarnation", 0))
    channels = {"a": ChannelState(1, upload.payload(data))}
    return upload.manifest(saved("t", checkpoint_id, channels, **options))


async def read(view: CheckpointView, checkpoint_id: str | None = None) -> StoredCheckpoint:
    answer = await view.checkpoint(0, 0, thread=T, namespace="", checkpoint_id=checkpoint_id)
    found = answer.value[1]
    assert found is not None
    return found


class LargeSuite(ViewSuite):
    """Whatever the size, an answer is whole, or tells what it lacks."""

    async def test_large_value_is_whole(self, projection: Projection) -> None:
        """A value of several megabytes comes back as it was cut."""
        await projection.feed(*large(projection, "1"))
        assert data_of((await read(projection.view)).values["a"]) == LARGE

    async def test_large_body_metadata_and_writes_are_whole(self, projection: Projection) -> None:
        """Wherever a payload may stand it may lie in chunks."""
        upload = Upload(projection)
        body, user = upload.payload(LARGE), upload.payload(OTHER)
        items = upload.manifest(saved("t", "1"), body=body, metadata_payloads={"user": user})
        await projection.feed(*items)
        second = Upload(projection)
        write = Write(1, "b", second.payload(OTHER))
        small = wrote("t", "1", "x", (0, "a", b"small"))
        assert isinstance(small.event, WritesSaved)
        await projection.feed(*second.manifest(small, writes=(*small.event.writes, write)))
        found = await read(projection.view)
        assert found.row.body.data == LARGE
        assert found.row.metadata_payloads["user"].data == OTHER
        assert writes_of(found) == [("x", 0, "a", b"small"), ("x", 1, "b", OTHER)]

    async def test_large_value_grows(self, projection: Projection) -> None:
        """What extends a chunked value is whole too, and what trims it to little."""
        base = projection.next_offset + 8
        await projection.feed(*large(projection, "1"))
        cuts: dict[str, tuple[int, int]] = {"2": (1, len(LARGE)), "3": (SIZE - 5, SIZE + 5)}
        for checkpoint_id, (start, stop) in cuts.items():
            value = Extended(None, base, "bytes", b"<", start, stop, b">", bytes(16))
            expected = b"<" + LARGE[start:stop] + b">"
            state = ChannelState(2, replace(value, digest=digest_of(expected)))
            await projection.feed(saved("t", checkpoint_id, {"a": state}, parent="1"))
            found = await read(projection.view, checkpoint_id)
            assert data_of(found.values["a"]) == expected

    async def test_many_values_are_more_than_one_call(self, projection: Projection) -> None:
        """Values that are large only together are all there, grown ones among them."""
        channels = {f"{n:02}": source.randbytes(300_000) for n in range(12)}
        await projection.feed(saved("t", "1", channels))
        tail = source.randbytes(200_000)
        states: dict[str, ChannelState] = {}
        for name, data in channels.items():
            digest = digest_of(data + tail)
            value = Extended(None, 0, "bytes", b"", 0, len(data), tail, digest)
            states[name] = ChannelState(2, value)
        await projection.feed(saved("t", "2", states))
        for checkpoint_id, end in (("1", b""), ("2", tail)):
            found = await read(projection.view, checkpoint_id)
            assert {name: data_of(found.values[name]) for name in channels} == {
                name: data + end for name, data in channels.items()
            }

    async def test_many_writes_are_more_than_one_call(self, projection: Projection) -> None:
        """Writes that are large only together are all there, in the listing and in a walk too."""
        data = {f"{n:02}": source.randbytes(300_000) for n in range(9)}
        first = saved("t", "1")
        await projection.feed(first, saved("t", "2", parent="1"))
        await projection.feed(*[wrote("t", "1", task, (0, "a", d)) for task, d in data.items()])
        expected = [(task, 0, "a", each) for task, each in data.items()]
        assert writes_of(await read(projection.view, "1")) == expected
        found, _ = await listed(projection.view, Selection(T), with_values=True)
        assert writes_of(found[1]) == expected
        history = (await walk(projection.view, ["a"], "2"))["a"]
        assert steps_of(history) == [(first.event_id, [(t, 0, d) for t, d in data.items()])]

    async def test_large_values_are_listed(self, projection: Projection) -> None:
        """Pages of large checkpoints hold few of them; none is left out or cut."""
        for n in range(5):
            await projection.feed(*large(projection, f"{n}", LARGE[n:]))
        for limit in (1, 100):
            found, _ = await listed(projection.view, Selection(T), limit=limit, with_values=True)
            assert [data_of(each.values["a"]) for each in found] == [
                LARGE[n:] for n in reversed(range(5))
            ]

    async def test_large_values_are_exported(self, projection: Projection) -> None:
        """A thread is copied with all that it holds."""
        for n in range(5):
            await projection.feed(*large(projection, f"{n}", LARGE[n:]))
        cursor: bytes | None = None
        found: list[StoredCheckpoint] = []
        while True:
            answer = await projection.view.exported(0, 0, thread=T, cursor=cursor, limit=100)
            found += answer.value.checkpoints
            cursor = answer.value.cursor
            if cursor is None:
                break
        assert [data_of(each.values["a"]) for each in found] == [LARGE[n:] for n in range(5)]

    async def test_page_of_large_bodies_is_bounded(self, projection: Projection) -> None:
        """Many payloads in chunks do not come in one page; without values no body comes at all."""
        for n in range(6):
            upload = Upload(projection)
            body = upload.payload(LARGE)
            await projection.feed(*upload.manifest(saved("t", f"{n}"), body=body))
        ask = projection.view.checkpoints
        page = (await ask(0, 0, Selection(T), cursor=None, limit=100, with_values=True)).value
        assert 0 < len(page.checkpoints) < 6
        assert page.cursor is not None
        page = (await ask(0, 0, Selection(T), cursor=None, limit=100, with_values=False)).value
        assert [each.row.body.data for each in page.checkpoints] == [b""] * 6
        found, _ = await listed(projection.view, Selection(T), with_values=True)
        assert [each.row.body.data for each in found] == [LARGE] * 6

    async def test_walk_meets_large_values_and_writes(self, projection: Projection) -> None:
        """A history has its seed and its writes whole, however large."""
        await projection.feed(*large(projection, "1"))
        second = Upload(projection)
        write = Write(0, "a", second.payload(OTHER))
        await projection.feed(*second.manifest(wrote("t", "1", "x"), writes=(write,)))
        await projection.feed(saved("t", "2", {"a": empty(2)}, parent="1"))
        history = (await walk(projection.view, ["a"], "2"))["a"]
        assert data_of(history.seed) == LARGE
        assert [steps for _, steps in steps_of(history)] == [[("x", 0, OTHER)]]

    async def test_missing_chunk_is_told(self, projection: Projection) -> None:
        """What a lost chunk was of lacks it; all else is whole, and nobody is parked."""
        upload = Upload(projection)
        value, body, user = (upload.payload(data) for data in (LARGE, LARGE, OTHER))
        channels = {"a": ChannelState(1, value), "b": ChannelState(1, full(b"B"))}
        *chunks, last = upload.manifest(
            saved("t", "1", channels), body=body, metadata_payloads={"user": user}
        )
        items: list[Item] = [*chunks, Tombstone(chunks[1]), Tombstone(chunks[9]), last]
        await projection.feed(*items)
        second = Upload(projection)
        written = second.payload(OTHER)
        writes = (Write(0, "a", written),)
        *chunks, last = second.manifest(wrote("t", "1", "x"), writes=writes)
        await projection.feed(*chunks, Tombstone(chunks[0]), last)
        found = await read(projection.view)
        assert found.values["a"].data is None
        assert data_of(found.values["b"]) == b"B"
        assert found.row.body == body
        assert found.row.metadata_payloads["user"].data == OTHER
        assert [write.payload for write in found.writes] == [written]
        assert not any(payload.is_whole for payload in (body, written))

    async def test_orphans_go_with_their_tombstones(self, projection: Projection) -> None:
        """A chunk is kept until a manifest or a tombstone comes, and tells what that takes."""
        upload = Upload(projection)
        upload.payload(OTHER)
        first, second = upload.chunks
        await projection.feed(first, second)
        page = await projection.view.pending(0, cursor=None, limit=10)
        assert sorted(page.entries, key=lambda entry: entry.offset) == [
            Pending(n, T, 0, 1_000 + n, record_key("t", each.event_id, each.part))
            for n, each in enumerate(upload.chunks)
        ]
        assert page.cursor is None
        await projection.feed(Tombstone(first))
        assert len((await projection.view.dump(0))[CHUNKS + T + epoch_of(0)]) == 1
        await projection.feed(Tombstone(second))
        assert await projection.view.dump(0) == {}

    async def test_all_that_is_pending_is_met(self, projection: Projection) -> None:
        """However much waits, a walk in pages meets everything."""
        assert (await projection.view.pending(3, cursor=None, limit=10)).entries == []
        chunks = [NewEvent("t", ChunkSaved(0, b"%d" % n), part=1) for n in range(700)]
        await projection.feed(*chunks)
        met: set[int] = set()
        cursor: bytes | None = None
        while True:
            page = await projection.view.pending(0, cursor=cursor, limit=50)
            met |= {entry.offset for entry in page.entries}
            cursor = page.cursor
            if cursor is None:
                break
        assert met == set(range(700))

    async def test_deleted_chunks_are_swept(self, projection: Projection) -> None:
        """Large values of a life that is over go away in the end, those of the next one stay."""
        view = projection.view
        await projection.feed(*large(projection, "1"), *Upload(projection).chunks)
        cut = projection.next_offset
        await projection.feed(deleted("t"))
        await projection.feed(*large(projection, "2", OTHER, incarnation=cut))
        before = await view.dump(0)
        assert [key for key in before if key[:1] == CHUNKS] == [CHUNKS + T + epoch_of(cut)]
        await sweep_all(view)
        assert await view.dump(0) == before
        assert data_of((await read(view)).values["a"]) == OTHER

    async def test_chunks_outlive_the_end_of_a_copy(self, projection: Projection) -> None:
        """What was cut before a copy is complete is there behind it, also when all is swept."""
        view = projection.view
        await projection.feed(*large(projection, "1", copy_id=COPY))
        overtaking = large(projection, "2", OTHER)
        await projection.feed(*overtaking[:-1], NewEvent("t", ThreadCopied(COPY, "s", 0, 1)))
        await projection.feed(overtaking[-1])
        for _ in range(2):
            assert data_of((await read(view, "1")).values["a"]) == LARGE
            assert data_of((await read(view, "2")).values["a"]) == OTHER
            await sweep_all(view)

    async def test_reading_beside_deletions_is_all_or_nothing(self, projection: Projection) -> None:
        """A reader meets one whole life of a thread that is deleted again and again, or none."""
        view = projection.view
        is_over = asyncio.Event()
        seen: list[Sequence[int]] = []

        async def look() -> None:
            while not is_over.is_set():
                answer = await view.checkpoint(0, 0, thread=T, namespace="", checkpoint_id=None)
                found = answer.value[1]
                if found is not None:
                    body, data = found.row.body.data, data_of(found.values["a"])
                    assert data is not None
                    assert (len(body), body[:1]) == (len(LARGE), data[:1])
                    seen.append(data[:1])
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            readers = [tasks.create_task(look()) for _ in range(2)]
            for n in range(6):
                upload = Upload(projection, incarnation=max(projection.next_offset - 1, 0))
                data = bytes([n]) + LARGE[1:]
                channels = {"a": ChannelState(1, upload.payload(data))}
                new = saved("t", "1", channels, incarnation=max(projection.next_offset - 1, 0))
                await projection.feed(*upload.manifest(new, body=upload.payload(data)))
                assert data_of((await read(view)).values["a"]) == data
                await projection.feed(deleted("t"))
            is_over.set()
        assert all(task.done() for task in readers)

    async def test_large_body_without_chunks_is_whole(self, projection: Projection) -> None:
        """What compression made fit into a record is as large as it was."""
        new = saved("t", "1", {"a": LARGE})
        event = new.event
        assert isinstance(event, CheckpointSaved)
        await projection.feed(replace(new, event=replace(event, body=Payload("bytes", OTHER))))
        found = await read(projection.view)
        assert (found.row.body.data, data_of(found.values["a"])) == (OTHER, LARGE)
