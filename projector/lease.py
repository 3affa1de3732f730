"""The port: who works on which partition. Adapters are `redis.RedisBoard` and, here, `OpenBoard`.

Leases only avoid double work. Two members that both believe to hold a partition do no harm: the
view's compare-and-set keeps it right. Implementers need not inherit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol


class LeaseBoard(Protocol):
    """One member's place among all that project one log."""

    @property
    def interval(self) -> float:
        """Return how often `claim` must be called to keep what is held, in seconds."""
        ...

    async def claim(self, partitions: Collection[int]) -> frozenset[int]:
        """Renew this member's leases on some of `partitions` and take more, up to its fair share.

        Registers the member. Returns what is held now. A partition that was held and is not
        returned is lost, or more than the share: the member stops work on it and then calls
        `release`.

        Raises:
            ViewUnavailableError: The board does not answer; what is held runs out by itself.
        """
        ...

    async def release(self, partitions: Collection[int]) -> None:
        """Give leases back, at once, for others to take. Those of others stay.

        Raises:
            ViewUnavailableError: The board does not answer; they run out by themselves.
        """
        ...

    async def leave(self) -> None:
        """Give everything back and take this member off the board. Idempotent.

        Raises:
            ViewUnavailableError: The board does not answer; it notices by itself.
        """
        ...

    async def wait(self, timeout: float) -> None:
        """Return when another member gave something back, or joined, or after `timeout` seconds."""
        ...


class OpenBoard:
    """A board that grants everything to everyone, for views that all members share cheaply."""

    interval = 1.0

    async def claim(self, partitions: Collection[int]) -> frozenset[int]:
        """Grant what is asked for."""
        return frozenset(partitions)

    async def release(self, partitions: Collection[int]) -> None:
        """Do nothing."""

    async def leave(self) -> None:
        """Do nothing."""

    async def wait(self, timeout: float) -> None:
        """Return after `timeout` seconds: nothing ever changes."""
        await asyncio.sleep(timeout)
