"""What a figure was measured on, printed above every table."""

from __future__ import annotations

import gc
import os
import platform
from importlib.metadata import version

PACKAGES = ("langgraph-checkpoint", "aiokafka", "redis", "apsw", "langgraph-checkpoint-postgres")


def description(*, loop: str) -> str:
    """Return one line on the processor, the interpreter and the packages."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {loop}; {packages}"
    )


def settle() -> None:
    """Do what a server does once it has started: leave what it has imported to itself.

    For every saver alike; otherwise each full garbage collection goes through all modules.
    """
    gc.collect()
    gc.freeze()
