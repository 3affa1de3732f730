"""Waiting for a condition, so that no test sleeps."""

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")

_INTERVAL = 0.02  # seconds between two looks


async def wait_until(
    predicate: Callable[[], T | Awaitable[T]], *, description: str, timeout: float = 10.0
) -> T:
    """Returns the first true value of `predicate`, which may be a coroutine function.

    Raises:
        AssertionError: there was none within `timeout` seconds; it carries the description.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        found = cast("T", await value if inspect.isawaitable(value) else value)
        if found:
            return found
        if time.monotonic() >= deadline:
            raise AssertionError(_failure(description, timeout))
        await asyncio.sleep(_INTERVAL)


def wait_in_thread(predicate: Callable[[], T], *, description: str, timeout: float = 10.0) -> T:
    """As `wait_until`, for tests without an event loop: blocks the OS thread."""
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while not (found := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(_failure(description, timeout))
        pause.wait(_INTERVAL)
    return found


def _failure(description: str, timeout: float) -> str:
    return f"not within {timeout:g} s: {description}"
