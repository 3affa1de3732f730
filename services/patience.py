"""Waiting for a condition with a deadline."""

import threading
import time
from collections.abc import Callable

_INTERVAL = 0.02  # seconds between two looks


def holds_within(timeout: float, condition: Callable[[], bool]) -> bool:
    """True as soon as the condition holds, False if it does not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while not condition():
        if time.monotonic() >= deadline:
            return False
        pause.wait(_INTERVAL)
    return True
