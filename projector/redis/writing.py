"""What the writing half sends: wanted state and changes, packed for the scripts. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from eventstore.log import LogIdentity
from projector.layout import VALUES, ThreadRecord
from projector.view import Cell, Changes, Loaded, Progress, Wanted

MAX_CALL_BYTES: Final = 512 * 1024
"""Larger changes have their values written by earlier calls of about this size."""

_U32 = struct.Struct(">I").pack
_OPERATION = struct.Struct(">cII").pack
_VALUES = VALUES[0]


def progress_args(progress: Progress) -> list[bytes]:
    """Return the progress as the meta hash holds it: g, v, i, n, o, e."""
    return [
        progress.generation.hex().encode(),
        b"%d" % progress.fold_version,
        progress.identity.log_id,
        b"%d" % progress.identity.partitions,
        b"%d" % progress.next_offset,
        progress.last_event_id,
    ]


def progress_of(fields: list[Any]) -> Progress | None:
    """Return the progress of g, v, i, n, o, e."""
    generation, version, log_id, partitions, offset, event_id = fields
    if generation is None:
        return None
    return Progress(
        bytes.fromhex(generation.decode()),
        int(version),
        LogIdentity(log_id, int(partitions)),
        int(offset),
        event_id,
    )


def _threads_of(wanted: Wanted) -> dict[bytes, None]:
    """Return the threads to ask for: also those of live cells, as a record names the scope."""
    threads = dict.fromkeys(wanted.threads)
    threads.update(dict.fromkeys([cell[0] for cell in wanted.live]))
    return threads


def pack_wanted(wanted: Wanted) -> bytes:
    """Return the argument of the script `load`."""
    threads = _threads_of(wanted)
    parts = [_U32(len(threads)), *threads, _U32(len(wanted.live))]
    for thread, letter, name in wanted.live:
        parts += (thread, letter, _U32(len(name)), name)
    parts.append(_U32(len(wanted.cells)))
    for key, name in wanted.cells:
        parts += (_U32(len(key)), key, _U32(len(name)), name)
    return b"".join(parts)


def loaded_of(wanted: Wanted, reply: list[Any]) -> Loaded:
    """Return what the script `load` answered."""
    progress = None if reply[0] is None else progress_of(reply[0])
    cells: dict[Cell, bytes | None] = {}
    if len(reply) == 1:
        # Without a view of this fold no thread has a record, so each lives in its first scope.
        for thread, letter, name in wanted.live:
            cells[letter + thread + bytes(16), name] = None
        for cell in wanted.cells:
            cells[cell] = None
        return Loaded(progress, {}, cells)
    found: list[bytes | None]
    _, found, live, explicit = reply
    scopes: dict[bytes, bytes] = {}
    threads: dict[bytes, ThreadRecord] = {}
    for thread, data in zip(_threads_of(wanted), found, strict=True):
        scopes[thread] = thread + (bytes(16) if data is None else data[:16])
        if data is not None:
            threads[thread] = ThreadRecord.unpack(data)
    for (thread, letter, name), value in zip(wanted.live, live, strict=True):
        cells[letter + scopes[thread], name] = value
    cells.update(zip(wanted.cells, explicit, strict=True))
    return Loaded(progress, threads, cells)


class Operations:
    """Changes as keys, operations and arguments of the script `apply`."""

    def __init__(self, changes: Changes) -> None:
        puts: dict[bytes, list[bytes]] = {}
        removals: dict[bytes, list[bytes]] = {}
        size = 0
        for (key, name), value in changes.cells.items():
            if value is None:
                removals.setdefault(key, []).append(name)
                continue
            puts.setdefault(key, []).extend((name, value))
            size += len(value)
        adds: dict[bytes, list[bytes]] = {}
        leaves: dict[bytes, list[bytes]] = {}
        for (key, member), is_in in changes.members.items():
            if is_in:
                adds.setdefault(key, []).append(member)
            else:
                leaves.setdefault(key, []).append(member)
        self.size = size
        self._drops = changes.drops
        self._puts = puts
        self._rest = ((b"d", removals), (b"z", adds), (b"r", leaves))

    def staged(self, base: bytes) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Take values out, as calls of a bounded size.

        Values are named by the offset that stored them and reachable only through a row, which
        comes with the last call. Whoever applies the same event writes the same value.
        """
        dropped = set(self._drops)
        keys = [key for key in self._puts if key[0] == _VALUES and key not in dropped]
        batch: dict[bytes, list[bytes]] = {}
        size = 0
        for key in keys:
            items = self._puts.pop(key)
            for at in range(0, len(items), 2):
                batch.setdefault(key, []).extend(items[at : at + 2])
                size += len(items[at + 1])
                if size >= MAX_CALL_BYTES:
                    yield _packed(base, [], ((b"h", batch),))
                    batch, size = {}, 0
        if batch:
            yield _packed(base, [], ((b"h", batch),))

    def final(self, base: bytes) -> tuple[list[bytes], list[bytes]]:
        """Return keys and arguments of the last call."""
        return _packed(base, self._drops, ((b"h", self._puts), *self._rest))


def _packed(
    base: bytes, drops: list[bytes], groups: tuple[tuple[bytes, dict[bytes, list[bytes]]], ...]
) -> tuple[list[bytes], list[bytes]]:
    """Return the keys, and packed: the operations, the sizes of their texts, the texts."""
    # KEYS[1] is the meta key, so these begin at 2. A key with two operations stands there twice.
    keys = [base + key for key in drops]
    operations = [_OPERATION(b"u", index, 0) for index in range(2, 2 + len(keys))]
    texts: list[bytes] = []
    for letter, group in groups:
        for key, items in group.items():
            keys.append(base + key)
            operations.append(_OPERATION(letter, len(keys) + 1, len(items)))
            texts += items
    sizes = struct.pack(f">{len(texts)}I", *map(len, texts))
    return keys, [b"".join(operations), sizes, b"".join(texts)]
