"""Tidies up an idle partition: sweeps what the view holds for nobody any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from eventstore.log import EventLog

from .config import ProjectorConfig
from .view import ViewWriter

STEPS_AT_ONCE: Final = 20
"""How many steps follow one another before another partition has its turn."""


class Tidier:
    """Does a little of what is left to do, each time it is asked to."""

    def __init__(self, log: EventLog, view: ViewWriter, config: ProjectorConfig) -> None:
        self._log = log
        self._view = view
        self._config = config

    async def tidy(self, partition: int, *, is_idle: Callable[[], bool]) -> None:
        """Do some steps, as long as the partition is idle.

        Raises:
            LogUnavailableError, ViewUnavailableError: One of them does not answer.
        """
        for _ in range(STEPS_AT_ONCE):
            if not is_idle():
                return
            if not await self._view.sweep(partition, limit=self._config.sweep_limit):
                return
