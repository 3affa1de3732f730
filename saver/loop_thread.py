"""LoopThread: an event loop on an OS thread of its own, for the sync saver."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import Lock, Thread
from typing import Any, TypeVar

from .errors import SaverClosedError

T = TypeVar("T")


class LoopThread:
    """An event loop on an OS thread of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._is_stopped = False
        self._lock = Lock()

    @property
    def is_here(self) -> bool:
        """Whether the running event loop is this one."""
        return asyncio.get_running_loop() is self._loop

    @property
    def is_started(self) -> bool:
        """Whether the loop runs."""
        return self._loop is not None and not self._is_stopped

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop, from another OS thread; stopping the loop cancels it.

        Raises:
            SaverClosedError: The loop was stopped.
        """
        # Under the lock, so that the loop is told to stop before this or behind it: what it is
        # handed while it stops would never begin.
        with self._lock:
            try:
                loop = self._started()
            except SaverClosedError:
                work.close()
                raise
            return asyncio.run_coroutine_threadsafe(work, loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it, from another OS thread.

        Raises:
            SaverClosedError: The loop was stopped, before or meanwhile.
        """
        try:
            return self.submit(work).result()
        except CancelledError as error:
            raise SaverClosedError from error

    @contextmanager
    def entered(self, opened: AbstractAsyncContextManager[T]) -> Generator[T, None, None]:
        """Enter an async context manager on the loop, and leave it there."""

        async def enter() -> T:
            return await opened.__aenter__()

        async def leave() -> None:
            await opened.__aexit__(None, None, None)

        entered = self.run(enter())
        try:
            yield entered
        finally:
            self.run(leave())

    def stop(self) -> None:
        """Stop the loop and wait until its OS thread has ended. Idempotent."""
        with self._lock:
            self._is_stopped = True
            loop, thread = self._loop, self._thread
            self._thread = None
            if loop is not None and thread is not None:
                loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._is_stopped:
            raise SaverClosedError
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(
                target=_run_until_stopped,
                args=(self._loop,),
                name="langgraph-checkpoint-kafka",
                daemon=True,
            )
            self._thread.start()
        return self._loop


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
