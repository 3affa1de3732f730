"""The writing half: load, compare-and-set apply, and the removal of what is unreachable."""

from __future__ import annotations

from typing import Any

from projector.layout import Row, newest_member, run_member, split_timeline_member
from projector.projection import FOLD_VERSION
from projector.view import Changes, DeletedThreads, Loaded, PendingPage, Progress, Wanted

from . import scripts
from .answers import read_from
from .deleted import deleted_threads, pending
from .dumping import dump
from .keys import KeySpace
from .server import Server
from .writing import (
    MAX_CALL_BYTES,
    Operations,
    loaded_of,
    pack_wanted,
    progress_args,
    progress_of,
)

_FOLD = b"%d" % FOLD_VERSION
_PROGRESS = (b"g", b"v", b"i", b"n", b"o", b"e")


class RedisWriter:
    """Moves a partition's view."""

    def __init__(self, server: Server, keys: KeySpace) -> None:
        self._server = server
        self._keys = keys

    async def progress(self, partition: int) -> Progress | None:
        """See `ViewWriter`."""
        fields = await self._server.command(b"HMGET", self._keys.meta(partition), *_PROGRESS)
        return progress_of(fields)

    async def begin(self, partition: int, start: Progress) -> bool:
        """See `ViewWriter`."""
        meta = self._keys.meta(partition)
        return bool(await self._server.call(scripts.BEGIN, [meta], progress_args(start)))

    async def discard(self, partition: int) -> None:
        """See `ViewWriter`."""
        keys = [self._keys.meta(partition), self._keys.retired(partition)]
        await self._server.call(scripts.DISCARD, keys, [])

    async def load(self, partition: int, wanted: Wanted) -> Loaded:
        """See `ViewWriter`. A view of another fold version loads as its progress alone."""
        keys, args = [self._keys.meta(partition)], [_FOLD, pack_wanted(wanted)]
        reply: list[Any] = await self._server.call(scripts.LOAD, keys, args)
        with read_from(self._server.name, partition):
            return loaded_of(wanted, reply)

    async def apply(
        self, partition: int, *, expected: Progress, changes: Changes, reached: Progress
    ) -> bool:
        """See `ViewWriter`.

        Also returns False when a call of ours was applied and its answer lost, and the client made
        it again: load again, as always.
        """
        if (reached.generation, reached.fold_version) != (
            expected.generation,
            expected.fold_version,
        ):
            raise ValueError("changes cannot reach another generation or fold version")
        base = self._keys.generation(partition, expected.generation)
        meta = self._keys.meta(partition)
        generation, version, _, _, offset, _ = progress_args(expected)
        head = [generation, version, offset]
        operations = Operations(changes)
        if operations.size > MAX_CALL_BYTES:
            for keys, args in operations.staged(base):
                staged = [*head, b"", b"", b"", b"", *args]
                if not await self._server.call(scripts.APPLY, [meta, *keys], staged):
                    return False
        keys, args = operations.final(base)
        final = [*head, *progress_args(reached)[2:], *args]
        return bool(await self._server.call(scripts.APPLY, [meta, *keys], final))

    async def sweep(self, partition: int, *, limit: int = 200) -> bool:
        """See `ViewWriter`."""
        meta, retired = self._keys.meta(partition), self._keys.retired(partition)
        count = b"%d" % limit
        if await self._server.call(scripts.RETIRED, [meta, retired], [count]):
            return True
        found: list[Any] = await self._server.call(scripts.DEAD, [meta], [_FOLD, count])
        if not found:
            return False
        generation, scope, members, rows = found
        newest: list[bytes] = []
        runs: list[bytes] = []
        with read_from(self._server.name, partition):
            for member, data in zip(members, rows, strict=True):
                checkpoint_id, namespace = split_timeline_member(member)
                newest.append(newest_member(checkpoint_id, scope, namespace))
                run_id = None if data is None else Row.unpack(data).metadata.get("run_id")
                if isinstance(run_id, str):
                    runs.append(run_member(run_id, scope, namespace, checkpoint_id))
        counts = [b"%d" % len(members) for members in (newest, runs, members)]
        args = [generation, scope, *counts, *newest, *runs, *members]
        return bool(await self._server.call(scripts.BURY, [meta], args))

    async def deleted_threads(
        self, partition: int, *, cursor: bytes | None, limit: int
    ) -> DeletedThreads:
        """See `ViewWriter`."""
        progress = await self.progress(partition)
        if progress is None:
            return DeletedThreads([], None)
        base = self._keys.generation(partition, progress.generation)
        with read_from(self._server.name, partition):
            return await deleted_threads(self._server, base, cursor=cursor, limit=limit)

    async def pending(self, partition: int, *, cursor: bytes | None, limit: int) -> PendingPage:
        """See `ViewWriter`."""
        progress = await self.progress(partition)
        if progress is None:
            return PendingPage([], None)
        base = self._keys.generation(partition, progress.generation)
        with read_from(self._server.name, partition):
            return await pending(self._server, base, cursor=cursor, limit=limit)

    async def dump(self, partition: int) -> dict[bytes, dict[bytes, bytes]]:
        """See `ViewWriter`."""
        progress = await self.progress(partition)
        if progress is None:
            return {}
        return await dump(self._server, self._keys.generation(partition, progress.generation))
