"""Whatever a log holds and however it is read, the view is what the log means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventstore.codec import thread_hash
from eventstore.sqlite import SqliteDatabase
from projector.errors import ThreadParkedError
from projector.projection import Entry
from projector.sqlite import SqliteView
from projector.values import unpack_value
from projector.view import CheckpointView, Selection, StoredCheckpoint, StoredValue
from tests.contracts.view_history import steps_of
from tests.contracts.view_suite import catch_up, listed, start_of
from tests.folding import DictView

from .logs import CHANNELS, IDS, NAMESPACES, THREADS, LogBuilder, Step, steps
from .reference import MISSING, Checkpoint, Life, Reference, Value, Writes

Delivery = tuple[int, int, bool]
"""How many records come again, how many new ones, and whether the projector starts anew."""

deliveries = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.booleans()), min_size=1)


def whole(entries: Sequence[Entry]) -> dict[bytes, dict[bytes, bytes]]:
    """Return the view of a log that is folded in one go, its indexes checked."""
    view = DictView()
    view.fold(entries)
    view.check()
    return view.dump()


@asynccontextmanager
async def begun(database: SqliteDatabase) -> AsyncGenerator[CheckpointView]:
    view = SqliteView(database)
    await view.setup()
    await view.begin(0, start_of())
    yield view
    await view.close()


async def delivered(
    entries: Sequence[Entry], plan: Sequence[Delivery]
) -> dict[bytes, dict[bytes, bytes]]:
    """Return the view of a log that comes in pieces, some of it again, to changing projectors."""
    async with SqliteDatabase(":memory:") as database:
        at = turn = 0
        while at < len(entries):
            async with begun(database) as view:
                is_restarted = False
                while at < len(entries) and not is_restarted:
                    again, size, is_restarted = plan[turn % len(plan)]
                    await catch_up(view, 0, entries[max(0, at - again) : at + size])
                    at, turn = at + size, turn + 1
                    await view.sweep(0, limit=1)
        async with begun(database) as view:
            return await view.dump(0)


@settings(deadline=None, max_examples=1500)
@given(steps(), deliveries)
def test_view_does_not_depend_on_the_delivery(chosen: list[Step], plan: list[Delivery]) -> None:
    """Any split into batches, repetition and restart ends in the same view."""
    entries = LogBuilder.build(chosen).entries
    assert asyncio.run(delivered(entries, plan)) == whole(entries)


@settings(deadline=None, max_examples=150)
@given(steps(), st.data())
def test_view_does_not_depend_on_what_was_erased(chosen: list[Step], data: st.DataObject) -> None:
    """Any subset of the tombstoned records may be gone, their tombstones too."""
    log = LogBuilder.build([*chosen, *_tidying()])
    erased = st.sets(st.sampled_from(sorted(log.tombstones)) if log.tombstones else st.nothing())
    left = log.without(data.draw(erased), dropped_tombstones=data.draw(erased))
    assert whole(left) == whole(log.entries)
    everything = set(log.tombstones)
    assert whole(log.without(everything, dropped_tombstones=everything)) == whole(log.entries)


@settings(deadline=None, max_examples=1500)
@given(steps())
def test_answers_are_what_the_log_means(chosen: list[Step]) -> None:
    """Each question is answered as an independent reading of the same log answers it."""
    entries = LogBuilder.build(chosen).entries

    async def compare() -> None:
        async with SqliteDatabase(":memory:") as database, begun(database) as view:
            await catch_up(view, 0, entries)
            await compared(view, Reference.of(entries))

    asyncio.run(compare())


def _tidying() -> list[Step]:
    """Return steps with which the housekeeper gets far with what there is."""
    return [(kind, name, "", "1", 7, 0) for name in THREADS for kind in ("erase", "erase", "mark")]


async def compared(view: CheckpointView, reference: Reference) -> None:
    """Compare the view's answers with the reference's."""
    shown: set[tuple[str, str, str]] = set()
    for name in THREADS:
        known = reference.threads.get(name)
        hashed = thread_hash(name)
        if known is not None and known.parked_at is not None:
            with pytest.raises(ThreadParkedError) as caught:
                await view.thread(0, 0, hashed)
            assert caught.value.offset == known.parked_at
            continue
        life = Life() if known is None else known.life
        shown |= {(name, *place) for place in life.checkpoints}
        for place in product(NAMESPACES, IDS):
            await compare_checkpoint(view, hashed, life, place)
        for namespace in NAMESPACES:
            ids = [cid for ns, cid in life.checkpoints if ns == namespace]
            answer = await view.checkpoint(
                0, 0, thread=hashed, namespace=namespace, checkpoint_id=None
            )
            latest = answer.value[1]
            assert (None if latest is None else latest.checkpoint_id) == max(ids, default=None)
    await compare_listings(view, reference, shown)


async def compare_checkpoint(
    view: CheckpointView, thread: bytes, life: Life, place: tuple[str, str]
) -> None:
    namespace, checkpoint_id = place
    answer = await view.checkpoint(
        0, 0, thread=thread, namespace=namespace, checkpoint_id=checkpoint_id
    )
    found, expected = answer.value[1], life.checkpoints.get(place)
    assert (found is None) == (expected is None)
    was_removed = await view.is_removed(
        0, 0, thread=thread, namespace=namespace, checkpoint_id=checkpoint_id
    )
    assert was_removed.value == (place in life.removed)
    if found is not None and expected is not None:
        assert found.row.event_id == expected.event_id
        assert channels_of(found) == expected.channels
        assert writes_of(found) == expected.writes
        assert found.row.body.data == expected.body
        user = found.row.metadata_payloads.get("user")
        assert (None if user is None else user.data) == expected.user
        parent = expected.parent
        is_removed = parent in life.removed and parent not in life.checkpoints
        assert found.parent_is_removed == is_removed
    walks = await view.history(
        0, 0, thread=thread, namespace=namespace, checkpoint_id=checkpoint_id, channels=CHANNELS
    )
    for channel, history in walks.value.items():
        writes, value = life.history(place, channel)
        assert steps_of(history) == writes
        seed = MISSING if history.unresolved is not None else content_of(history.seed)
        if history.seed is not None and history.seed.data is None:
            seed = MISSING
        assert seed == value


async def compare_listings(
    view: CheckpointView, reference: Reference, shown: set[tuple[str, str, str]]
) -> None:
    found, _ = await listed(view, Selection(), limit=2, with_values=True)
    names = [(c.thread.thread_id or "", c.namespace, c.checkpoint_id) for c in found]
    assert len(names) == len(shown)
    assert set(names) == shown
    assert [name[2] for name in names] == sorted((name[2] for name in names), reverse=True)
    for checkpoint in found:
        expected = expected_of(reference, checkpoint)
        assert channels_of(checkpoint) == expected.channels
        assert writes_of(checkpoint) == expected.writes
        assert checkpoint.row.body.data == expected.body
    threads = (await view.threads(0, 0, cursor=None, limit=9)).value
    assert {record.thread_id for record, _ in threads.threads} == {name[0] for name in shown}
    for record, newest in threads.threads:
        ids = [name[2] for name in shown if name[:2] == (record.thread_id, "")]
        assert (None if newest is None else newest.checkpoint_id) == max(ids, default=None)
    if any(thread.parked_at is not None for thread in reference.threads.values()):
        return
    for run_id in "rs":
        run = (await view.run(0, 0, run_id=run_id)).value
        assert {(record.thread_id, ns, cid) for record, ns, cid in run} == {
            (name, *place)
            for name, thread in reference.threads.items()
            for place, checkpoint in thread.life.checkpoints.items()
            if checkpoint.run_id == run_id
        }


def expected_of(reference: Reference, checkpoint: StoredCheckpoint) -> Checkpoint:
    life = reference.threads[checkpoint.thread.thread_id or ""].life
    return life.checkpoints[checkpoint.namespace, checkpoint.checkpoint_id]


def channels_of(checkpoint: StoredCheckpoint) -> dict[str, tuple[object, Value]]:
    """Return version and value of each channel."""
    channels: dict[str, tuple[object, Value]] = {}
    for name, (version, ref) in checkpoint.row.channels.items():
        value = None if ref is None else content_of(checkpoint.values.get(name)) or MISSING
        channels[name] = (version, value)
    return channels


def content_of(value: StoredValue | None) -> bytes | None:
    """Return a value's bytes. Their digest is made up here: random ranges make random values."""
    return None if value is None or value.data is None else unpack_value(value.data)[0].data


def writes_of(checkpoint: StoredCheckpoint) -> Writes:
    return {(w.task_id, w.index): (w.channel, w.payload.data) for w in checkpoint.writes}
