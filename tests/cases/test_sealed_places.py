"""What is encrypted stays where it was sealed: moved in the view, it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from langgraph.checkpoint.kafka import PieceMovedError
from projector.layout import ROWS, VALUES, WRITES, Row
from tests.wirings import Caller

from .thread import Thread, id_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def put_two(sealed: Caller) -> tuple[Thread, Thread]:
    """Put two threads with two checkpoints each, two channels, and writes of two tasks."""
    threads = Thread(sealed), Thread(sealed)
    for thread in threads:
        for number in (1, 2):
            values = {"x": [f"{number}"] * 300, "y": "y"}
            await thread.put(number, values, parent=number - 1 or None, metadata={"o": {number}})
        await thread.write(2, [("x", "a")], "a")
        await thread.write(2, [("x", "b")], "b")
        await thread.get()
    return threads


def channel_cells(cells: Mapping[Any, bytes], channel: str) -> list[tuple[Any, bytes]]:
    """Return what is stored of a channel, in the order of the events."""
    return [item for item in sorted(cells.items()) if item[0][1][8:] == channel.encode()]


async def test_a_value_moved_elsewhere_is_refused(sealed: Caller) -> None:
    """To another channel, thread or checkpoint: it was sealed for one place. B69."""
    thread, other = await put_two(sealed)
    cells = await sealed.cells(thread.id, VALUES)
    (first, one), (second, two) = channel_cells(cells, "x")
    ((_, other_y), *_) = channel_cells(await sealed.cells(other.id, VALUES), "y")
    y = channel_cells(cells, "y")[-1]
    for cell, data, slot in (
        (y[0], two, "channel:y"),
        (y[0], other_y, "channel:y"),
        (second, one, "body:"),
        (first, two, "body:"),
    ):
        await sealed.spoil(thread.id, {cell: data})
        with pytest.raises(PieceMovedError, match=f"'{slot}.*' of thread '{thread.id}'"):
            await thread.numbers()
        await sealed.spoil(thread.id, {cell: cells[cell]})
        assert await thread.numbers() == [2, 1]


async def test_a_write_moved_elsewhere_is_refused(sealed: Caller) -> None:
    """A write belongs to its task, in its thread. B69."""
    thread, other = await put_two(sealed)
    (first, _), (_, b) = sorted((await sealed.cells(thread.id, WRITES)).items())
    others = [data for _, data in sorted((await sealed.cells(other.id, WRITES)).items())]
    for data in (b, others[0]):
        await sealed.spoil(thread.id, {first: data})
        with pytest.raises(PieceMovedError, match=f"'write:a:0:x' of thread '{thread.id}'"):
            await thread.get()


async def test_body_and_metadata_moved_elsewhere_are_refused(sealed: Caller) -> None:
    """They belong to one checkpoint, and the body beside its own parent and versions. B69."""
    thread, _ = await put_two(sealed)
    rows = {cell: Row.unpack(data) for cell, data in (await sealed.cells(thread.id, ROWS)).items()}
    (cell, first), (_, second) = sorted(rows.items(), key=lambda item: item[1].offset)
    changed: list[tuple[str, dict[str, Any]]] = [
        ("body:", {"body": second.body}),
        ("body:", {"parent_id": id_of(7)}),
        ("body:", {"channels": {**first.channels, "y": (9, first.channels["y"][1])}}),
        ("metadata:", {"metadata_payloads": second.metadata_payloads}),
    ]
    for slot, fields in changed:
        row = {name: getattr(first, name) for name in Row.__struct_fields__} | fields
        await sealed.spoil(thread.id, {cell: Row(**row).pack()})
        with pytest.raises(PieceMovedError, match=f"'{slot}{id_of(1)}"):
            await thread.numbers()


async def test_copies_are_sealed_for_themselves(sealed: Caller) -> None:
    """Source and copy are both read; a value of the one does not pass in the other."""
    thread, _ = await put_two(sealed)
    copied = Thread(sealed)
    await sealed.copy_thread(thread.id, copied.id)
    for number in (1, 2):
        found, expected = await copied.found(number), await thread.found(number)
        assert found.checkpoint == expected.checkpoint
        assert found.metadata == expected.metadata
        assert found.pending_writes == expected.pending_writes
    ((_, data), *_) = channel_cells(await sealed.cells(thread.id, VALUES), "x")
    ((cell, _), *_) = channel_cells(await sealed.cells(copied.id, VALUES), "x")
    await sealed.spoil(copied.id, {cell: data})
    with pytest.raises(PieceMovedError, match=f"'channel:x' of thread '{copied.id}'"):
        await copied.numbers()
