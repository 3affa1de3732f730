"""Reads everything reachable in a partition, in steps."""

from __future__ import annotations

from typing import Final

from projector.chunks import chunk_scope
from projector.layout import (
    BLOCKS,
    CHUNKS,
    HIDDEN,
    IDS,
    NEWEST,
    PENDING,
    POISON,
    RECENT,
    RECORDS,
    REMOVED,
    ROWS,
    RUNS,
    THREADS,
    TIMELINE,
    VALUES,
    WAITING,
    WRITERS,
    WRITES,
    ThreadRecord,
    split_newest_member,
    split_run_member,
)
from projector.pending import unpack_pending

from .server import Server

_STEP: Final = b"500"
_SCOPE_MAPS: Final = (ROWS, HIDDEN, REMOVED, VALUES, BLOCKS, WRITES)
_SCOPE_SETS: Final = (WRITERS, IDS, TIMELINE)


async def dump(server: Server, base: bytes) -> dict[bytes, dict[bytes, bytes]]:
    """Return key → field → value of a generation, with an empty value for members."""
    found: dict[bytes, dict[bytes, bytes]] = {}
    threads = await _map(server, base + THREADS)
    live = {thread + record[:16] for thread, record in threads.items()}
    found[THREADS] = threads
    found[POISON] = await _map(server, base + POISON)
    found[RECENT] = await _set(server, base + RECENT)
    for index, scope_in in ((NEWEST, _newest_scope), (RUNS, _run_scope)):
        members = await _set(server, base + index)
        found[index] = {member: b"" for member in members if scope_in(member) in live}
    records = {thread: ThreadRecord.unpack(data) for thread, data in threads.items()}
    held = await _map(server, base + PENDING)
    pending = {name: unpack_pending(name, data) for name, data in held.items()}
    found[PENDING] = {
        name: held[name]
        for name, entry in pending.items()
        if not entry.is_past(records.get(entry.thread))
    }
    # Chunks are there before their thread has a record.
    for thread in {*threads, *[entry.thread for entry in pending.values()]}:
        for letter in (RECORDS, WAITING):
            found[letter + thread] = await _map(server, base + letter + thread)
        record = records.get(thread)
        chunks = CHUNKS + chunk_scope(thread, 0 if record is None else record.incarnation)
        found[chunks] = await _map(server, base + chunks)
    for scope in live:
        for letter in _SCOPE_MAPS:
            found[letter + scope] = await _map(server, base + letter + scope)
        for letter in _SCOPE_SETS:
            found[letter + scope] = await _set(server, base + letter + scope)
    return {key: fields for key, fields in found.items() if fields}


def _newest_scope(member: bytes) -> bytes:
    return split_newest_member(member)[1]


def _run_scope(member: bytes) -> bytes:
    return split_run_member(member)[0]


async def _map(server: Server, key: bytes) -> dict[bytes, bytes]:
    return await _scanned(server, b"HSCAN", key)


async def _set(server: Server, key: bytes) -> dict[bytes, bytes]:
    return dict.fromkeys(await _scanned(server, b"ZSCAN", key), b"")


async def _scanned(server: Server, command: bytes, key: bytes) -> dict[bytes, bytes]:
    """Return what a scan gives in pairs; an entry may come more than once."""
    found: dict[bytes, bytes] = {}
    cursor = b"0"
    while True:
        cursor, flat = await server.command(command, key, cursor, b"COUNT", _STEP)
        found.update(zip(flat[::2], flat[1::2], strict=True))
        if int(cursor) == 0:
            return found
