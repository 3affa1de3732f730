"""Calls on one thread have their turns in the order in which they began."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saver.order import CallOrder
from tests.waiting import wait_until


async def test_turns_come_in_the_order_of_the_calls() -> None:
    """A call that waits within its turn holds up those behind it, and they follow in order."""
    order, log = CallOrder(), list[int]()
    gate = asyncio.Event()

    async def call(number: int) -> None:
        async with order.enter("t"):
            if number == 0:
                await gate.wait()
            log.append(number)

    calls = [asyncio.ensure_future(call(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert log == []
    gate.set()
    await asyncio.gather(*calls)
    assert log == [0, 1, 2, 3, 4]


async def test_threads_do_not_wait_for_each_other() -> None:
    """A turn on one thread holds up no call on another."""
    order = CallOrder()
    async with order.enter("a"), order.enter("b"):
        pass


async def test_an_error_gives_the_turn_back() -> None:
    """A call that fails within its turn lets the next one go on."""
    order = CallOrder()
    with pytest.raises(ValueError, match="boom"):
        async with order.enter("t"):
            raise ValueError("boom")
    async with order.enter("t"):
        pass


async def test_nothing_is_left_of_turns_that_are_over() -> None:
    """The memory of turns shrinks back to nothing."""
    order = CallOrder()
    for _ in range(3):
        async with order.enter("t"):
            assert order._last
    assert not order._last


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_cancelled_calls_change_no_order(kept: list[bool], data: st.DataObject) -> None:
    """Whichever calls are cancelled while they wait, the others keep their order. P9."""
    moment = data.draw(st.integers(0, 3))

    async def scenario() -> None:
        order, log = CallOrder(), list[int]()

        async def call(number: int) -> None:
            async with order.enter("t"):
                await asyncio.sleep(0)
                log.append(number)

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(order.enter("t"))
            calls = [asyncio.ensure_future(call(number)) for number in range(len(kept))]
            for _ in range(moment):
                await asyncio.sleep(0)
            for waiting, is_kept in zip(calls, kept, strict=True):
                if not is_kept:
                    waiting.cancel()
            await asyncio.sleep(0)
            assert log == []
        await asyncio.gather(*calls, return_exceptions=True)
        assert log == [number for number, is_kept in enumerate(kept) if is_kept]
        # Those that never had their turn are over one after the other.
        await wait_until(lambda: not order._last, description="no turn is left")

    asyncio.run(scenario())
