"""RedisBoard: one lease per partition, held for about a second, shared fairly among the members.

The keys stand beside the view's and carry a time to live; losing them costs a moment of double
work. `{…partition p…}:lease` is a lease; `members` and `wake:<member>` lie with partition 0.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from typing import Any, Final

from .scripts import Script
from .view import RedisView

_JOIN = Script.of("lease_join")
_CLAIM = Script.of("lease_claim")
_RELEASE = Script.of("lease_release")
_WAKE = Script.of("lease_wake")

DEFAULT_TTL: Final = 1.0
"""How long, in seconds, a lease lasts that is not renewed: a killed member's stay that long."""


MISSES: Final = 16
"""How many leases of others a member reaches for in one `claim`: many members would make many."""


class RedisBoard:
    """One member's place on the board; see `LeaseBoard`.

    A member takes no more than its share, the number of partitions divided by that of members and
    rounded up, and gives back what exceeds it when others join. They are woken for that, and when
    something comes free; only a member that was killed is waited for.
    """

    def __init__(self, view: RedisView, *, ttl: float = DEFAULT_TTL) -> None:
        self.view = view
        self._server = view.server
        self._keys = view.keys
        self._ttl = b"%d" % max(round(ttl * 1000), 3)
        self._member = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(6).hex()}".encode()
        # Leases that this member took and did not give back, and who else was there last.
        self._taken: set[int] = set()
        # How many leases were reached for so far: the next time begins behind them.
        self._tried = 0
        self._others: list[bytes] = []
        self.interval = ttl / 3

    async def claim(self, partitions: Collection[int]) -> frozenset[int]:
        """Renew what is held, as far as the share goes, then take what is free."""
        is_new, members = await self._join()
        rank = members.index(self._member)
        self._others = [member for member in members if member != self._member]
        if is_new:
            await self._wake_others()
        share = -(-len(partitions) // len(members))
        held: set[int] = set()
        for number in sorted(self._taken.intersection(partitions)):
            if len(held) >= share:
                break
            if await self._claim(number):
                held.add(number)
            else:
                self._taken.discard(number)
        if rank < len(partitions):
            # Beyond that rank there is nothing to share. Members begin at places of their own, so
            # that they seldom reach for the same lease.
            begin = rank * len(partitions) // len(members)
            held |= await self._take(sorted(partitions), begin, share - len(held))
        return frozenset(held)

    async def _take(self, partitions: list[int], begin: int, count: int) -> set[int]:
        """Take up to `count` free leases; after some misses the rest is left for the next time."""
        taken: set[int] = set()
        misses = 0
        first = begin + self._tried
        for step in range(len(partitions)):
            number = partitions[(first + step) % len(partitions)]
            if len(taken) >= count or misses >= MISSES:
                break
            self._tried += 1
            if number in self._taken:
                continue
            if await self._claim(number):
                taken.add(number)
                self._taken.add(number)
            else:
                misses += 1
        return taken

    async def release(self, partitions: Collection[int]) -> None:
        """Delete the leases that are still this member's, and wake the others."""
        for number in partitions:
            await self._server.call(_RELEASE, [self._lease(number)], [self._member])
            self._taken.discard(number)
        await self._wake_others()

    async def leave(self) -> None:
        """Delete this member's leases and its entry, and wake the others."""
        await self._server.command(b"ZREM", self._members, self._member)
        await self.release(frozenset(self._taken))

    async def wait(self, timeout: float) -> None:
        """Return when another member called, or after `timeout` seconds."""
        seconds = f"{max(timeout, 0.001):.3f}".encode()
        await self._server.command(b"BLPOP", self._wake(self._member), seconds)

    async def _join(self) -> tuple[bool, list[bytes]]:
        answer: list[Any] = await self._server.call(
            _JOIN, [self._members], [self._member, self._ttl]
        )
        return bool(answer[0]), sorted(answer[1])

    async def _claim(self, partition: int) -> bool:
        args = [self._member, self._ttl]
        return bool(await self._server.call(_CLAIM, [self._lease(partition)], args))

    async def _wake_others(self) -> None:
        if self._others:
            keys = [self._wake(member) for member in self._others]
            await self._server.call(_WAKE, keys, [self._ttl])

    @property
    def _members(self) -> bytes:
        return self._keys.base(0) + b"members"

    def _wake(self, member: bytes) -> bytes:
        return self._keys.base(0) + b"wake:" + member

    def _lease(self, partition: int) -> bytes:
        return self._keys.base(partition) + b"lease"
