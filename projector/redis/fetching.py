"""What an answer left out for its size, fetched by some more calls, a few at the same time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from eventstore.events import ChunkedPayload
from projector.filling import chunked_in, chunked_of, filled, filled_history
from projector.layout import BLOCKS, CHUNKS, VALUES, WRITES, Row, ThreadRecord, u64
from projector.values import (
    BLOCK_BYTES,
    Piece,
    StoredVersion,
    assembled,
    content_of,
    count_of_pieces,
    fields_of,
    is_tip,
)
from projector.view import StoredCheckpoint, StoredHistory

PARALLEL: Final = 4
"""Calls at the same time. Each takes the server about a millisecond."""

CALL_BYTES: Final = 512 * 1024
"""What one call asks for; the script answers no more either."""

Wanted: TypeAlias = tuple[bytes, bytes, int]
"""Letter, field, about how many bytes there are."""
Ask: TypeAlias = Callable[..., Awaitable[list[Any]]]
"""Calls the script `cells` with these arguments, at the position of the answer."""
Slot: TypeAlias = tuple[list[Any], int, str]
"""Where an answer left out a value: a list, the place in it, the channel."""

_U32 = struct.Struct(">I").pack


class MovedError(Exception):
    """The thread is another one by now: what is missing does not belong to what was answered."""


class Fetcher:
    """Completes an answer about one life of a thread.

    Within a life, what is stored of values and chunks stays as it is. A task's writes may become
    more, so they are taken only while the thread is what it was when it was asked for.
    """

    def __init__(self, ask: Ask, thread: bytes, record: ThreadRecord, applied: int) -> None:
        self._ask = ask
        self._thread = thread
        self._record = record
        # Of a thread that was deleted once, notes also go away: one may come while one goes.
        self._position = b"%d" % applied if record.incarnation else b""

    async def complete(self, reply: list[Any]) -> None:
        """Put into a checkpoint's reply what was left out of it.

        Raises:
            MovedError: The thread was deleted or replaced meanwhile, or has other writes.
        """
        data, _, values, members, entries, *marks = reply
        if int not in {*map(type, values), *map(type, entries)}:
            return
        row = Row.unpack(data)
        refs = [(name, ref) for name, (_, ref) in row.channels.items() if isinstance(ref, int)]
        await self._complete_entries(members, entries, *marks)
        left_out = [
            ((values, n, name), u64(ref) + name.encode())
            for n, (name, ref) in enumerate(refs)
            if isinstance(values[n], int)
        ]
        await self._complete_values(left_out)

    async def complete_walk(self, ancestors: Sequence[list[Any]], mark: bytes) -> None:
        """Put into the ancestors of a walk what was left out of them.

        Raises:
            MovedError: The thread was deleted or replaced meanwhile, or has other writes.
        """
        left_out: list[tuple[Slot, bytes]] = []
        for _, members, entries, closed in ancestors:
            await self._complete_entries(members, entries, mark)
            for at in range(0, len(closed), 4):
                name, _, offset, found = closed[at : at + 4]
                if isinstance(found, int):
                    left_out.append(((closed, at + 3, name.decode()), offset + name))
        await self._complete_values(left_out)

    async def filled(self, checkpoint: StoredCheckpoint, *, with_body: bool) -> StoredCheckpoint:
        """Return a checkpoint with the bytes of those payloads that lie in chunks."""
        chunked = chunked_of(checkpoint, with_body=with_body)
        return filled(checkpoint, await self._chunks(chunked)) if chunked else checkpoint

    async def filled_histories(
        self, histories: dict[str, StoredHistory]
    ) -> dict[str, StoredHistory]:
        """Return histories with the bytes of those writes that lie in chunks."""
        chunked = chunked_in(histories.values())
        if not chunked:
            return histories
        contents = await self._chunks(chunked)
        return {name: filled_history(each, contents) for name, each in histories.items()}

    async def _complete_entries(
        self, members: Sequence[bytes], entries: list[Any], mark: bytes = b""
    ) -> None:
        places = [n for n, entry in enumerate(entries) if isinstance(entry, int)]
        wanted = [(WRITES, members[n], entries[n]) for n in places]
        found = await self._cells(wanted, mark, self._position)
        for n, entry in zip(places, found, strict=True):
            entries[n] = entry

    async def _complete_values(self, left_out: Sequence[tuple[Slot, bytes]]) -> None:
        sizes = [answer[n] for (answer, n, _), _ in left_out]
        wanted = [(VALUES, name, size) for (_, name), size in zip(left_out, sizes, strict=True)]
        entries = await self._cells(wanted)
        versions: list[tuple[Slot, bytes, StoredVersion]] = []
        for (slot, _), entry in zip(left_out, entries, strict=True):
            answer, n, _ = slot
            answer[n] = entry
            if entry is not None and count_of_pieces(entry):
                versions.append((slot, entry, StoredVersion.unpack(entry)))
        found = await self._pieces(versions)
        for (answer, n, channel), entry, version in versions:
            contents = [
                await self._content(channel, version.namespace, piece, found)
                for piece in version.pieces
            ]
            known = [content for content in contents if content is not None]
            answer[n] = assembled(entry, known) if len(known) == len(contents) else None

    async def _pieces(
        self, versions: Sequence[tuple[Slot, bytes, StoredVersion]]
    ) -> dict[tuple[bytes, bytes], bytes | None]:
        """Return the cells of all pieces; many pieces may share one."""
        sizes: dict[tuple[bytes, bytes], int] = {}
        for (_, _, channel), _, version in versions:
            for piece in version.pieces:
                for cell in fields_of(version.namespace, channel, piece):
                    sizes[cell] = max(sizes.get(cell, 0), _size_of(cell[0], piece.stop))
        cells = await self._cells([(*cell, size) for cell, size in sizes.items()])
        return dict(zip(sizes, cells, strict=True))

    async def _content(
        self,
        channel: str,
        namespace: str,
        piece: Piece,
        found: dict[tuple[bytes, bytes], bytes | None],
    ) -> bytes | None:
        fields = fields_of(namespace, channel, piece)
        content = content_of(piece, [found[cell] for cell in fields])
        if content is None and piece.source == BLOCKS:
            # The buffer's last block may have become full between two calls.
            wanted = [(letter, name, BLOCK_BYTES) for letter, name in fields]
            content = content_of(piece, await self._cells(wanted))
        return content

    async def _chunks(self, payloads: Sequence[ChunkedPayload]) -> dict[int, bytes | None]:
        sizes = {offset: size for payload in payloads for offset, size in payload.chunks}
        found = await self._cells([(CHUNKS, u64(offset), size) for offset, size in sizes.items()])
        return dict(zip(sizes, found, strict=True))

    async def _cells(self, wanted: Sequence[Wanted], *state: bytes) -> list[bytes | None]:
        """Return cells, by as many calls as their sizes ask for, all of them in this state."""
        groups = list(_groups(wanted))
        found: list[bytes | None] = []
        for start in range(0, len(groups), PARALLEL):
            some = groups[start : start + PARALLEL]
            parts = await asyncio.gather(*[self._group(group, *state) for group in some])
            for part in parts:
                found += part
        return found

    async def _group(self, wanted: Sequence[Wanted], *state: bytes) -> list[bytes | None]:
        found: list[bytes | None] = []
        while len(found) < len(wanted):
            rest = wanted[len(found) :]
            packed = [part for letter, name, _ in rest for part in (letter, _U32(len(name)), name)]
            args = (self._thread, self._record.epoch, b"".join(packed), *state)
            _, cells = await self._ask(*args)
            if cells is None:
                raise MovedError
            found += cells
        return found


def _size_of(letter: bytes, stop: int) -> int:
    """Return about how large the cells of a piece are: a whole value or chunk, or a block."""
    return BLOCK_BYTES if letter == BLOCKS else stop


def _groups(wanted: Sequence[Wanted]) -> Iterator[Sequence[Wanted]]:
    """Cut what is wanted into calls; never between a buffer's last block and its tip."""
    start = size = 0
    for at, (letter, name, each) in enumerate(wanted):
        is_together = letter == BLOCKS and is_tip(name)
        if size + each > CALL_BYTES and at > start and not is_together:
            yield wanted[start:at]
            start, size = at, 0
        size += each
    if start < len(wanted):
        yield wanted[start:]
