"""The sync forms of the saver's methods: one guard for all of them.

They run the async ones on the saver's loop and wait. On that loop's own OS thread they would wait
for ever, so there they raise.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from .errors import SaverClosedError
from .mapping import writes_of
from .place import ReadLevel, checkpoint_place_of
from .removal import KEEP_LATEST
from .threads import Threads
from .wiring import Engine

T = TypeVar("T")

LOOK: Final = 1.0
"""How often, in seconds, whoever waits for the saver's loop looks whether that still runs."""


class BlockingMethods(BaseCheckpointSaver[Any]):
    """The sync half of `AsyncKafkaSaver`, for any OS thread but the loop's own.

    Each method raises `asyncio.InvalidStateError` on the loop's own OS thread, and `RuntimeError`
    while there is no running loop that the saver was set up on. If that loop ends while the call is
    under way, it raises `SaverClosedError`; what it was to append may be saved or not.
    """

    _engine: Engine

    @abstractmethod
    async def athreads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `alist`
        limit: int = 50,
        after: str | None = None,
        read_level: ReadLevel | str | None = None,
    ) -> Threads:
        """See `AsyncKafkaSaver`."""

    @abstractmethod
    async def acount_threads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `alist`
        read_level: ReadLevel | str | None = None,
    ) -> int:
        """See `AsyncKafkaSaver`."""

    @abstractmethod
    async def alag(self) -> dict[int, int]:
        """See `AsyncKafkaSaver`."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Sync form of `aget_tuple`."""
        return self._wait(lambda: self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Sync form of `alist`."""
        self._waiting_loop()
        return self._iterate(self.alist(config, filter=filter, before=before, limit=limit))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Sync form of `aget_delta_channel_history`."""
        return self._wait(lambda: self.aget_delta_channel_history(config=config, channels=channels))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Sync form of `aput`."""
        self._waiting_loop()
        draft = self._engine.draft(self.serde, config, checkpoint, metadata, new_versions)
        return self._wait(lambda: self._engine.writer.put(draft))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Sync form of `aput_writes`."""
        self._waiting_loop()
        place = checkpoint_place_of(config)
        if writes:
            serde = self._engine.serde_of(self.serde)
            parts = writes_of(serde, writes, task_id, task_path)
            self._wait(lambda: self._engine.writer.put_writes(place, parts))

    def delete_thread(self, thread_id: str) -> None:
        """Sync form of `adelete_thread`."""
        self._wait(lambda: self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Sync form of `adelete_for_runs`."""
        self._wait(lambda: self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Sync form of `acopy_thread`."""
        self._wait(lambda: self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = KEEP_LATEST) -> None:
        """Sync form of `aprune`."""
        self._wait(lambda: self.aprune(thread_ids, strategy=strategy))

    def threads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `list`
        limit: int = 50,
        after: str | None = None,
        read_level: ReadLevel | str | None = None,
    ) -> Threads:
        """Sync form of `athreads`."""
        return self._wait(
            lambda: self.athreads(filter=filter, limit=limit, after=after, read_level=read_level)
        )

    def count_threads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `list`
        read_level: ReadLevel | str | None = None,
    ) -> int:
        """Sync form of `acount_threads`."""
        return self._wait(lambda: self.acount_threads(filter=filter, read_level=read_level))

    def lag(self) -> dict[int, int]:
        """Sync form of `alag`."""
        return self._wait(self.alag)

    def _waiting_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that a sync call from here may wait for; see `Engine.check_blocking`."""
        return self._engine.check_blocking()

    def _wait(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a call on the saver's loop and wait for it.

        Raises:
            SaverClosedError: The loop ended first.
        """
        loop = self._waiting_loop()
        work = call()
        try:
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError as error:
            work.close()
            raise SaverClosedError from error
        while True:
            try:
                return future.result(LOOK)
            except CancelledError as error:
                raise SaverClosedError from error
            except TimeoutError:
                if future.done():
                    # Its own error, or it ended this very moment.
                    return future.result()
                if not loop.is_running():
                    # What a loop was handed while it stopped never begins.
                    future.cancel()
                    raise SaverClosedError from None

    def _iterate(self, items: AsyncIterator[CheckpointTuple]) -> Iterator[CheckpointTuple]:
        async def following() -> CheckpointTuple | None:
            return await anext(items, None)

        while (item := self._wait(following)) is not None:
            yield item
