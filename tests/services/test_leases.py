"""The board of leases in Redis: who works on which partition, and how it changes hands."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from projector.errors import ViewUnavailableError
from projector.redis import RedisView
from projector.redis.leases import RedisBoard
from tests.waiting import wait_until

LONG = 60.0
"""Longer than any test lasts, in seconds."""

OpenBoard = Callable[..., RedisBoard]


@pytest.fixture
async def open_board(redis_url: str) -> AsyncIterator[OpenBoard]:
    """Gives members of one board, each with connections of its own."""
    prefix = f"test-{uuid.uuid4().hex}"
    views: list[RedisView] = []

    def open_one(ttl: float = LONG) -> RedisBoard:
        views.append(RedisView.from_url(redis_url, prefix=prefix))
        return RedisBoard(views[-1], ttl=ttl)

    yield open_one
    for view in views:
        await view.close()
    client: Any = cast("Any", Redis).from_url(redis_url)
    async for key in client.scan_iter(match=f"{{{prefix}:*", count=1_000):
        await client.unlink(key)
    await client.aclose()


async def test_lone_member_holds_everything(open_board: OpenBoard) -> None:
    """Whoever is alone takes all partitions, and keeps them when it claims again."""
    board = open_board()
    assert await board.claim(range(8)) == frozenset(range(8))
    assert await board.claim(range(8)) == frozenset(range(8))


async def test_joining_member_gets_its_share(open_board: OpenBoard) -> None:
    """What exceeds the share is given back and taken; nothing is held twice."""
    first, second = open_board(), open_board()
    await first.claim(range(8))
    assert await second.claim(range(8)) == frozenset()
    kept = await first.claim(range(8))
    assert len(kept) == 4
    assert await second.claim(range(8)) == frozenset()
    await first.release(frozenset(range(8)) - kept)
    assert await second.claim(range(8)) == frozenset(range(8)) - kept


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8, 11])
async def test_every_partition_is_held_once(open_board: OpenBoard, members: int) -> None:
    """Whatever the number of members, none holds more than its share."""
    boards = [open_board() for _ in range(members)]
    held: dict[int, frozenset[int]] = {}

    async def is_shared() -> bool:
        for number, board in enumerate(boards):
            granted = await board.claim(range(8))
            await board.release(held.get(number, frozenset()) - granted)
            held[number] = granted
        is_whole = sorted(n for each in held.values() for n in each) == list(range(8))
        return is_whole and max(map(len, held.values())) == -(-8 // members)

    shared: bool = await wait_until(is_shared, description="all partitions are held once")
    assert shared


async def test_claim_leaves_out_what_is_not_wanted(open_board: OpenBoard) -> None:
    """A member takes nothing that it does not ask for, and keeps nothing of that."""
    board = open_board()
    assert await board.claim([1, 3]) == {1, 3}
    assert await board.claim([3, 4]) == {3, 4}


async def test_release_leaves_others_leases(open_board: OpenBoard) -> None:
    """A member can give back its own leases only."""
    first, second = open_board(), open_board()
    await first.claim(range(4))
    await second.claim(range(4))
    await second.release(range(4))
    assert await second.claim(range(4)) == frozenset()


async def test_leaving_member_is_followed_at_once(open_board: OpenBoard) -> None:
    """Who waits is woken when another one leaves, and finds its partitions free."""
    first, second = open_board(), open_board()
    await first.claim(range(8))
    await second.claim(range(8))
    waiting = asyncio.create_task(second.wait(LONG))
    await first.claim(range(8))
    await first.leave()
    await waiting
    assert await second.claim(range(8)) == frozenset(range(8))


async def test_joining_wakes_the_others(open_board: OpenBoard) -> None:
    """A member that joins is noticed at once."""
    first, second = open_board(), open_board()
    await first.claim(range(8))
    waiting = asyncio.create_task(first.wait(LONG))
    await second.claim(range(8))
    await waiting
    assert len(await first.claim(range(8))) == 4


async def test_waiting_ends_by_itself(open_board: OpenBoard) -> None:
    """Where nothing happens, waiting ends after the time that was given."""
    await open_board().wait(0.01)


async def test_silent_member_is_replaced(open_board: OpenBoard) -> None:
    """What a member does not renew runs out, and its place on the board too."""
    silent, other = open_board(0.2), open_board(LONG)
    assert await silent.claim(range(8)) == frozenset(range(8))

    async def has_all() -> bool:
        return await other.claim(range(8)) == frozenset(range(8))

    taken: bool = await wait_until(has_all, description="the leases ran out")
    assert taken
    assert await silent.claim(range(8)) == frozenset()


async def test_lost_leases_are_taken_again(open_board: OpenBoard, redis_url: str) -> None:
    """When the server forgets the leases, their holders keep what nobody else took."""
    board = open_board()
    await board.claim(range(8))
    client: Any = cast("Any", Redis).from_url(redis_url)
    async for key in client.scan_iter(match=f"{{{board.view.keys.prefix}:*"):
        await client.unlink(key)
    await client.aclose()
    assert await board.claim(range(8)) == frozenset(range(8))


async def test_unreachable_board_is_an_error(unused_tcp_port: int) -> None:
    """Every call says that the server does not answer."""
    view = RedisView.from_url(f"redis://127.0.0.1:{unused_tcp_port}", prefix="test")
    board = RedisBoard(view)
    for call in (
        board.claim(range(8)),
        board.release([1]),
        board.leave(),
        board.wait(0.01),
    ):
        with pytest.raises(ViewUnavailableError):
            await call
    await view.close()
