"""What `CheckpointView` promises of values that extend others: they are given back whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from eventstore.codec import digest_of
from eventstore.events import (
    INHERITED,
    ChannelState,
    ChannelValue,
    Extended,
    NewEvent,
    Referenced,
    ThreadCopied,
)
from projector.layout import BLOCKS, VALUES, Unresolved, value_field
from projector.values import BLOCK_BYTES, block_field, tip_field
from projector.view import (
    Cell,
    Changes,
    CheckpointView,
    Page,
    Selection,
    StoredCheckpoint,
    StoredHistory,
    Wanted,
)

from .view_suite import (
    Projection,
    ViewSuite,
    catch_up,
    data_of,
    deleted,
    empty,
    full,
    hash_of,
    listed,
    removed,
    saved,
    sweep_all,
)

T = hash_of("t")
SCOPE = T + bytes(16)
COPY = b"copy-id-of-16-b."

ODD = ["", "\0", "a", "\uffff" * 4, "é" * 90, "b|c:d\n", " " * 8, "\x7f\x80ÿ😀"]
"""Names of channels and namespaces."""


class Growth:
    """Values of one channel, as full as they are; makes the events and knows what they store."""

    def __init__(self, projection: Projection) -> None:
        self._offsets = count(projection.next_offset)
        self._whole: dict[int, bytes] = {}
        self.expected: dict[str, bytes] = {}
        """Checkpoint id → its value."""
        self.items: list[NewEvent] = []

    def save(self, checkpoint_id: str, data: bytes, **options: Any) -> int:
        """Save a whole value; return the offset that it gets."""
        return self._add(checkpoint_id, full(data), data, options)

    def extend(
        self,
        checkpoint_id: str,
        base: int,
        tail: bytes = b"",
        *,
        head: bytes = b"",
        span: tuple[int, int] | None = None,
        **options: Any,
    ) -> int:
        """Save a value that extends another one; return the offset that it gets."""
        start, stop = (0, len(self._whole[base])) if span is None else span
        data = head + self._whole[base][start:stop] + tail
        value = Extended(None, base, "bytes", head, start, stop, tail, digest_of(data))
        return self._add(checkpoint_id, value, data, options)

    def size(self, base: int) -> int:
        """Return how many bytes a value has."""
        return len(self._whole[base])

    def _add(
        self, checkpoint_id: str, value: ChannelValue, data: bytes, options: dict[str, Any]
    ) -> int:
        offset = next(self._offsets)
        self.items.append(saved("t", checkpoint_id, {"a": ChannelState(offset, value)}, **options))
        self._whole[offset] = self.expected[checkpoint_id] = data
        return offset


def grown(base: int, before: bytes, tail: bytes) -> Extended:
    """Return a value that is another one and a tail."""
    digest = digest_of(before + tail)
    return Extended(None, base, "bytes", b"", 0, len(before), tail, digest, kept_items=1)


def random_growth(projection: Projection, seed: int, length: int) -> Growth:
    """Return values that append, fork, trim and replace, of any bytes and sizes."""
    source = random.Random(seed)
    growth = Growth(projection)
    offsets = [growth.save("000", source.randbytes(500))]
    for number in range(1, length):
        size = source.choice([0, 1, 64, 65, 300, BLOCK_BYTES - 1, BLOCK_BYTES, 9_000])
        tail = source.choice([source.randbytes(size), bytes(size), b"\xff" * size])
        base = source.choice([offsets[-1]] * 5 + offsets)
        name, roll = f"{number:03}", source.random()
        if roll < 0.1:
            offsets.append(growth.save(name, tail))
        elif roll < 0.7:
            offsets.append(growth.extend(name, base, tail))
        else:
            span = sorted(source.randrange(growth.size(base) + 1) for _ in range(2))
            head = source.randbytes(source.choice([0, 1, 5, 64, 65, 300]))
            offsets.append(growth.extend(name, base, tail, head=head, span=(span[0], span[1])))
    return growth


async def get(view: CheckpointView, checkpoint_id: str, *, namespace: str = "") -> StoredCheckpoint:
    answer = await view.checkpoint(0, 0, thread=T, namespace=namespace, checkpoint_id=checkpoint_id)
    assert answer.value[1] is not None
    return answer.value[1]


async def value(view: CheckpointView, checkpoint_id: str, **options: str) -> bytes | None:
    """Return the value of channel `a`, its digest compared; None when it is not there."""
    return data_of((await get(view, checkpoint_id, **options)).values.get("a"))


async def walked(view: CheckpointView, name: str) -> StoredHistory:
    answer = await view.history(0, 0, thread=T, namespace="", checkpoint_id=name, channels=["a"])
    return answer.value["a"]


async def exported(view: CheckpointView) -> list[StoredCheckpoint]:
    found: list[StoredCheckpoint] = []
    page = Page((), None)
    while not found or page.cursor is not None:
        answer = await view.exported(0, 0, thread=T, cursor=page.cursor, limit=20)
        page = answer.value
        found += page.checkpoints
    return found


def by_id(checkpoints: Sequence[StoredCheckpoint]) -> dict[str, bytes | None]:
    return {each.checkpoint_id: data_of(each.values.get("a")) for each in checkpoints}


async def lose(view: CheckpointView, cell: Cell) -> None:
    """Remove a cell behind the fold's back."""
    progress = await view.progress(0)
    assert progress is not None
    changes = Changes(cells={cell: None})
    assert await view.apply(0, expected=progress, changes=changes, reached=progress)


async def cells_of(view: CheckpointView, scope: bytes, blocks: int) -> list[bytes | None]:
    """Return the tip and the blocks of a scope, reachable or not."""
    fields = [tip_field("", "a"), *(block_field("", "a", n) for n in range(blocks))]
    loaded = await view.load(0, Wanted([], [], [(BLOCKS + scope, field) for field in fields]))
    return list(loaded.cells.values())


class GrowingSuite(ViewSuite):
    """A value that extends another one is read like any other, or is not there: never in part."""

    @pytest.mark.parametrize("seed", range(4))
    async def test_every_question_gives_values_whole(
        self, projection: Projection, seed: int
    ) -> None:
        """Single reads, listings and exports give the bytes of each version, old and new."""
        view, growth = projection.view, random_growth(projection, seed, 120)
        await projection.feed(*growth.items)
        for checkpoint_id, expected in growth.expected.items():
            assert await value(view, checkpoint_id) == expected
        for selection in (Selection(T), Selection(T, ""), Selection()):
            checkpoints, _ = await listed(view, selection, with_values=True)
            assert by_id(checkpoints) == growth.expected
        assert by_id(await exported(view)) == growth.expected

    @pytest.mark.parametrize("size", [1, 7, 250])
    async def test_batches_make_no_difference(self, projection: Projection, size: int) -> None:
        """A base may come in the same batch as what extends it, or long before."""
        growth = random_growth(projection, 9, 60)
        for start in range(0, len(growth.items), size):
            await projection.feed(*growth.items[start : start + size])
        assert by_id(await exported(projection.view)) == growth.expected

    async def test_view_that_is_made_again_is_the_same(self, projection: Projection) -> None:
        """Folding the log once more gives the same cells, and the same values."""
        view, growth = projection.view, random_growth(projection, 5, 80)
        await projection.feed(*growth.items)
        before = await view.dump(0)
        await view.discard(0)
        await projection.begin(b"gener-02")
        await catch_up(view, 0, projection.entries, size=17)
        assert await view.dump(0) == before
        assert by_id(await exported(view)) == growth.expected

    async def test_forks_extend_the_same_version(self, projection: Projection) -> None:
        """Each of two futures has its own tail, and the past is as it was."""
        growth = Growth(projection)
        trunk = growth.extend("1", growth.save("0", b"base"), b" trunk")
        left = growth.extend("2", trunk, b" left")
        growth.extend("3", trunk, b" right")
        growth.extend("4", left, b" further")
        await projection.feed(*growth.items)
        assert growth.expected["3"] == b"base trunk right"
        assert by_id(await exported(projection.view)) == growth.expected

    async def test_large_value_lies_in_many_blocks(self, projection: Projection) -> None:
        """Megabytes come back, of zeros and of 0xff too, cut at any place."""
        growth = Growth(projection)
        offset = growth.save("0", b"\xff" * 10)
        for number, filler in enumerate((b"\0", b"\xff", b"\0\xff", b"\r\n", b"\n"), 1):
            offset = growth.extend(f"{number}", offset, filler * 200_000)
        growth.extend("6", offset, head=b"[", span=(BLOCK_BYTES - 1, growth.size(offset) - 3))
        await projection.feed(*growth.items)
        for checkpoint_id, expected in growth.expected.items():
            assert await value(projection.view, checkpoint_id) == expected

    async def test_odd_names_share_nothing(self, projection: Projection) -> None:
        """Channels grow apart, whatever they and their namespaces are called."""
        places = [(namespace, name) for namespace in ODD for name in ODD]
        first = {place: repr(place).encode() for place in places}
        tail = {place: b"%d" % n * 1_500 for n, place in enumerate(places)}
        for namespace in ODD:
            values = {name: first[namespace, name] for name in ODD}
            await projection.feed(saved("t", "1", values, namespace=namespace))
        for at, namespace in enumerate(ODD):
            own = [(namespace, name) for name in ODD]
            grew = {place[1]: grown(at, first[place], tail[place]) for place in own}
            await projection.feed(saved("t", "2", grew, namespace=namespace))
        for namespace in ODD:
            found = await get(projection.view, "2", namespace=namespace)
            for name in ODD:
                place = namespace, name
                assert data_of(found.values[name]) == first[place] + tail[place]

    async def test_references_lead_to_extended_values(self, projection: Projection) -> None:
        """What inherits or names an extended value has it, also once its checkpoint is gone."""
        growth = Growth(projection)
        base = growth.save("1", b"base")
        offset = growth.extend("1", base, b" and more")
        await projection.feed(*growth.items)
        states = {"a": ChannelState(offset, INHERITED)}
        parent = growth.items[-1]
        await projection.feed(
            saved("t", "2", states, parent="1", parent_event=parent),
            saved("t", "3", {"a": Referenced(None, offset)}),
            saved("t", "1", {"a": b"put again"}),
            removed("t", "1"),
            saved("t", "4", {"a": grown(offset, b"base and more", b" still")}),
        )
        assert by_id(await exported(projection.view)) == {
            "2": b"base and more",
            "3": b"base and more",
            "4": b"base and more still",
        }

    async def test_history_begins_with_an_extended_value(self, projection: Projection) -> None:
        """The seed of a walk is whole, and one that cannot be had says why."""
        growth = Growth(projection)
        base = growth.save("1", b"base")
        growth.extend("2", base, b"x" * 10_000, parent="1")
        await projection.feed(
            *growth.items,
            saved("t", "3", {"a": empty()}, parent="2"),
            saved("t", "4", {"a": grown(99, b"gone", b"")}, parent="3"),
            saved("t", "5", {"a": empty()}, parent="4"),
        )
        found = await walked(projection.view, "3")
        assert (data_of(found.seed), found.unresolved) == (growth.expected["2"], None)
        found = await walked(projection.view, "5")
        assert found.seed is None
        assert "99" in (found.unresolved or "")

    async def test_missing_base_harms_one_value(self, projection: Projection) -> None:
        """What extends nothing is unresolved and names the place; all beside it can be read."""
        view, growth = projection.view, Growth(projection)
        base = growth.save("1", b"base")
        growth.extend("2", base, b" grown")
        await projection.feed(*growth.items)
        at = projection.next_offset
        await projection.feed(
            saved("t", "3", {"a": grown(77, b"never", b"!"), "b": b"beside"}),
            saved("t", "4", {"a": grown(base, b"longer than it is", b"!")}),
            saved("t", "5", {"a": grown(at, b"never!", b"!")}),
            saved("t", "6", {"b": grown(at, b"beside", b" it")}),
        )
        growth.extend("7", base, b" on")
        await projection.feed(growth.items[-1])
        for checkpoint_id, place in (("3", 77), ("4", base), ("5", at)):
            found = await get(view, checkpoint_id)
            _, ref = found.row.channels["a"]
            assert isinstance(ref, Unresolved)
            assert (ref.offset, f"offset {place}" in ref.missing) == (place, True)
            assert "a" not in found.values
        assert data_of((await get(view, "3")).values["b"]) == b"beside"
        assert data_of((await get(view, "6")).values["b"]) == b"beside it"
        shown = by_id(await exported(view))
        assert {name: shown[name] for name in ("1", "2", "7")} == growth.expected

    @pytest.mark.parametrize("lost", ["base", "first block", "middle block", "tip"])
    async def test_lost_part_is_not_read_around(self, projection: Projection, lost: str) -> None:
        """A value of which a part is gone has no data; the others have all of theirs."""
        view, growth = projection.view, Growth(projection)
        base = growth.save("base", b"base")
        long = growth.extend("long", base, b"x" * (2 * BLOCK_BYTES + 100))
        growth.extend("end", long, span=(growth.size(long) - 50, growth.size(long)), parent="long")
        growth.extend("front", long, span=(4, BLOCK_BYTES + 50))
        await projection.feed(*growth.items, saved("t", "child", {"a": empty()}, parent="end"))
        cells: dict[str, tuple[Cell, set[str]]] = {
            "base": ((VALUES + SCOPE, value_field(base, "a")), {"base", "long"}),
            "first block": ((BLOCKS + SCOPE, block_field("", "a", 0)), {"long", "front"}),
            "middle block": ((BLOCKS + SCOPE, block_field("", "a", 1)), {"long", "front"}),
            "tip": ((BLOCKS + SCOPE, tip_field("", "a")), {"long", "end"}),
        }
        cell, harmed = cells[lost]
        await lose(view, cell)
        expected: dict[str, bytes | None] = {
            name: None if name in harmed else data for name, data in growth.expected.items()
        }
        assert {name: await value(view, name) for name in expected} == expected
        assert by_id(await exported(view)) == {**expected, "child": None}
        checkpoints, _ = await listed(view, Selection(T, ""), with_values=True)
        assert by_id(checkpoints) == {**expected, "child": None}
        seed = (await walked(view, "child")).seed
        assert seed is not None
        assert data_of(seed) == expected["end"]

    async def test_very_many_pieces_are_read(self, projection: Projection) -> None:
        """A version of more pieces than one call of a server looks up is whole all the same."""
        growth = Growth(projection)
        offset = growth.save("0", b"base")
        for number in range(1, 1_101):
            # What another version puts in between keeps the pieces apart.
            growth.extend("between", offset, b"-")
            offset = growth.extend(f"{number}", offset, b"%d" % number)
        await projection.feed(*growth.items)
        assert await value(projection.view, "1100") == growth.expected["1100"]

    async def test_copy_grows_in_its_own_scope(self, projection: Projection) -> None:
        """A copy's values extend each other unseen; what comes after it extends them."""
        view, growth = projection.view, Growth(projection)
        offset = growth.save("1", b"copied", copy_id=COPY)
        for number in range(2, 5):
            offset = growth.extend(f"{number}", offset, b"%d" % number * 3_000, copy_id=COPY)
        await projection.feed(*growth.items)
        assert (await view.exported(0, 0, thread=T, cursor=None, limit=9)).value.checkpoints == []
        await projection.feed(NewEvent("t", ThreadCopied(COPY, "source", 0, 4)))
        own = grown(offset, growth.expected["4"], b"own")
        await projection.feed(saved("t", "5", {"a": own}))
        growth.expected["5"] = growth.expected["4"] + b"own"
        assert by_id(await exported(view)) == growth.expected

    @pytest.mark.parametrize("how", ["deleted", "void copy"])
    async def test_dead_scope_leaves_no_blocks(self, projection: Projection, how: str) -> None:
        """What was deleted, or never came to be seen, is swept with all that had grown."""
        view, growth = projection.view, Growth(projection)
        copy_id, scope = (COPY, T + COPY) if how == "void copy" else (None, SCOPE)
        offset = growth.save("1", b"base", copy_id=copy_id)
        growth.extend("2", offset, b"x" * 20_000, copy_id=copy_id)
        await projection.feed(*growth.items)
        assert None not in await cells_of(view, scope, 4)
        if how == "deleted":
            await projection.feed(deleted("t"))
        else:
            await projection.feed(saved("t", "0"), NewEvent("t", ThreadCopied(COPY, "s", 0, 2)))
        assert not any(key[:1] in {BLOCKS, VALUES} for key in await view.dump(0))
        await sweep_all(view)
        assert set(await cells_of(view, scope, 4)) == {None}

    async def test_new_life_extends_nothing_of_the_old_one(self, projection: Projection) -> None:
        """Where a thread was deleted, its values are no base any more, and buffers begin anew."""
        view, growth = projection.view, Growth(projection)
        offset = growth.extend("2", growth.save("1", b"old"), b" value")
        await projection.feed(*growth.items, deleted("t"))
        at = projection.next_offset - 1
        new = Growth(projection)
        base = new.save("3", b"new", incarnation=at)
        new.extend("4", base, b" value", incarnation=at)
        late = saved("t", "5", {"a": grown(offset, b"old value", b"!")}, incarnation=at)
        await projection.feed(*new.items, late)
        assert by_id(await exported(view)) == {**new.expected, "5": None}
        (tip,) = await cells_of(view, T + bytes(8) + at.to_bytes(8), 0)
        assert tip == len(b" value").to_bytes(8) + b" value"
