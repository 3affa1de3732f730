"""KafkaSaver: the saver for sync programs, driven from a loop on an OS thread of its own."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from eventstore.log import EventLog
from projector.view import CheckpointView

from .aio import AsyncKafkaSaver
from .blocking import BlockingMethods
from .config import KafkaSaverConfig, SaverSettings
from .errors import SaverClosedError
from .loop_thread import LoopThread
from .mapping import writes_of
from .place import ReadLevel, checkpoint_place_of
from .removal import KEEP_LATEST
from .threads import Threads
from .wiring import open_ports

T = TypeVar("T")


class KafkaSaver(BlockingMethods):
    """LangGraph's checkpointer over an event log and its view, for sync programs.

    The sync methods are for any OS thread. The async ones work too, on any event loop: they hand
    over to the saver's own loop. Promises and errors are those of `AsyncKafkaSaver`.

    Args:
        log: A log that no event loop uses yet; never closed by this object.
        view: A view of it that no event loop uses yet; never closed by this object.
        serde: LangGraph's serializer; the default is its own.
        config: Read levels, time-outs and the projector.
        loop_thread: The loop to run on, stopped by its owner; the default is one of its own.
    """

    def __init__(
        self,
        log: EventLog,
        view: CheckpointView,
        *,
        serde: SerializerProtocol | None = None,
        config: SaverSettings | None = None,
        loop_thread: LoopThread | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._loop_thread = loop_thread or LoopThread()
        self._owns_loop_thread = loop_thread is None
        self._aio = AsyncKafkaSaver(log, view, serde=serde, config=config)
        self._engine = self._aio.engine

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: str, *, serde: SerializerProtocol | None = None, **settings: Any
    ) -> Generator[Self, None, None]:
        """Open a saver by a connection string, set up; close all of it at the end.

        See `AsyncKafkaSaver.from_conn_string`.
        """
        config = KafkaSaverConfig.from_conn_string(conn_string, **settings)
        with cls.from_config(config, serde=serde) as saver:
            yield saver

    @classmethod
    @contextmanager
    def from_config(
        cls, config: KafkaSaverConfig, *, serde: SerializerProtocol | None = None
    ) -> Generator[Self, None, None]:
        """Open a saver by its config, set up; close all of it at the end."""
        loop_thread = LoopThread()
        try:
            with (
                loop_thread.entered(open_ports(config)) as (log, view),
                cls(log, view, serde=serde, config=config, loop_thread=loop_thread) as saver,
            ):
                yield saver
        finally:
            loop_thread.stop()

    def setup(self) -> None:
        """Create what is missing, verify settings, start the projector. Idempotent.

        Every other method does it at its first call.
        """
        self._loop_thread.run(self._engine.setup())

    def close(self) -> None:
        """Stop what this saver started. Handed-in log and view stay open. Idempotent."""
        if self._loop_thread.is_started:
            self._loop_thread.run(self._engine.close())
        if self._owns_loop_thread:
            self._loop_thread.stop()

    def __enter__(self) -> Self:
        """Set up."""
        self.setup()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `AsyncKafkaSaver`."""
        return await self._hand_over(self._inner.aget_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `AsyncKafkaSaver`."""
        items = self._inner.alist(config, filter=filter, before=before, limit=limit)

        async def following() -> CheckpointTuple | None:
            return await anext(items, None)

        while (item := await self._hand_over(following())) is not None:
            yield item

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `AsyncKafkaSaver`."""
        return await self._hand_over(
            self._inner.aget_delta_channel_history(config=config, channels=channels)
        )

    async def athreads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `alist`
        limit: int = 50,
        after: str | None = None,
        read_level: ReadLevel | str | None = None,
    ) -> Threads:
        """See `AsyncKafkaSaver`."""
        return await self._hand_over(
            self._inner.athreads(filter=filter, limit=limit, after=after, read_level=read_level)
        )

    async def acount_threads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `alist`
        read_level: ReadLevel | str | None = None,
    ) -> int:
        """See `AsyncKafkaSaver`."""
        return await self._hand_over(
            self._inner.acount_threads(filter=filter, read_level=read_level)
        )

    async def alag(self) -> dict[int, int]:
        """See `AsyncKafkaSaver`."""
        return await self._hand_over(self._inner.alag())

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `AsyncKafkaSaver`."""
        draft = self._engine.draft(self.serde, config, checkpoint, metadata, new_versions)
        return await self._hand_over(self._engine.writer.put(draft))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `AsyncKafkaSaver`."""
        place = checkpoint_place_of(config)
        if writes:
            serde = self._engine.serde_of(self.serde)
            parts = writes_of(serde, writes, task_id, task_path)
            await self._hand_over(self._engine.writer.put_writes(place, parts))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `AsyncKafkaSaver`."""
        await self._hand_over(self._inner.adelete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `AsyncKafkaSaver`."""
        await self._hand_over(self._inner.adelete_for_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `AsyncKafkaSaver`."""
        await self._hand_over(self._inner.acopy_thread(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = KEEP_LATEST) -> None:
        """See `AsyncKafkaSaver`."""
        await self._hand_over(self._inner.aprune(thread_ids, strategy=strategy))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """See `AsyncKafkaSaver`."""
        return self._inner.get_next_version(current, channel)

    @property
    def _inner(self) -> AsyncKafkaSaver:
        # Made anew each time: a clone by `with_allowlist` has another serializer.
        inner = copy.copy(self._aio)
        inner.serde = self.serde
        return inner

    def _waiting_loop(self) -> asyncio.AbstractEventLoop:
        if not self._engine.is_ready:
            if self._engine.is_closed:
                raise SaverClosedError
            self.setup()
        return self._engine.check_blocking()

    def _wait(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._waiting_loop()
        return self._loop_thread.run(call())

    async def _hand_over(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the saver's own loop, from whichever loop this is.

        Raises:
            SaverClosedError: The loop was stopped, before or meanwhile.
        """
        if self._loop_thread.is_here:
            return await work
        future = self._loop_thread.submit(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled the caller: the work was, when its loop stopped.
            raise SaverClosedError from error
