"""AsyncKafkaSaver: each method = map, append or query, map back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from eventstore.errors import ValueCorruptedError
from eventstore.events import Payload
from eventstore.log import EventLog
from projector.errors import ValueUnresolvedError
from projector.filling import size_of
from projector.view import CheckpointView

from .blocking import BlockingMethods
from .config import KafkaSaverConfig, SaverSettings
from .copying import copy_thread
from .delta import history_of
from .encoding import LARGE_BYTES
from .errors import SaverError
from .listing import matches, selection_of
from .mapping import (
    known_of,
    metadata_of,
    tuple_of,
    writes_of,
)
from .place import (
    Place,
    ReadLevel,
    checkpoint_place_of,
    place_of,
    read_level_of,
    thread_id_of,
)
from .removal import KEEP_LATEST, delete_runs, prune
from .threads import Threads, count_threads, list_threads
from .versions import next_version
from .wiring import Engine, open_ports


class AsyncKafkaSaver(BlockingMethods):
    """LangGraph's checkpointer over an event log and its view.

    When `aput` or `aput_writes` returns, the event is stored in the log for good. Reads see all
    that any process had acknowledged before they began, unless a weaker read level is asked for.

    Used on one event loop. The sync methods work from any other OS thread; on the loop's own they
    raise `asyncio.InvalidStateError` instead of hanging. Clones made by `with_allowlist` share all
    but the serializer.

    Args:
        log: A live log; never closed by this object.
        view: A live view of it; never closed by this object.
        serde: LangGraph's serializer; the default is its own.
        config: Read levels, time-outs and the projector.
    """

    def __init__(
        self,
        log: EventLog,
        view: CheckpointView,
        *,
        serde: SerializerProtocol | None = None,
        config: SaverSettings | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._engine = Engine(log, view, config or SaverSettings())
        # Settings that do not go with the serializer are refused at once.
        self._engine.serde_of(self.serde)

    @property
    def engine(self) -> Engine:
        """Return what this saver shares with its clones and its sync twin. Not part of the API."""
        return self._engine

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn_string: str, *, serde: SerializerProtocol | None = None, **settings: Any
    ) -> AsyncGenerator[Self, None]:
        """Open a saver by a connection string, set up; close all of it at the end.

        `sqlite:///relative/path`, `sqlite:////absolute/path`, `sqlite:///:memory:` or
        `kafka://host:9092,host2:9092/topic?redis=redis://host:6379/0`. `settings` are fields of
        `KafkaSaverConfig`.
        """
        config = KafkaSaverConfig.from_conn_string(conn_string, **settings)
        async with cls.from_config(config, serde=serde) as saver:
            yield saver

    @classmethod
    @asynccontextmanager
    async def from_config(
        cls, config: KafkaSaverConfig, *, serde: SerializerProtocol | None = None
    ) -> AsyncGenerator[Self, None]:
        """Open a saver by its config, set up; close all of it at the end."""
        async with (
            open_ports(config) as (log, view),
            cls(log, view, serde=serde, config=config) as saver,
        ):
            yield saver

    async def setup(self) -> None:
        """Create what is missing, verify settings, start the projector. Idempotent.

        Every other method does it at its first call.
        """
        await self._engine.setup()

    async def aclose(self) -> None:
        """Stop what this saver started. Handed-in log and view stay open. Idempotent."""
        await self._engine.close()

    async def __aenter__(self) -> Self:
        """Set up."""
        await self.setup()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.aclose()

    # Reading

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names, or the newest one of its namespace.

        Raises:
            ProjectionLagError: The view did not get to what the read must see in time.
        """
        place = place_of(config)
        level = self._level(config)
        await self._engine.setup()
        lineage = self._engine.lineage
        began_at = lineage.time
        record, stored = await self._engine.reader.checkpoint(place, level)
        if record is not None:
            lineage.saw_deletion(place.thread_id, record.incarnation)
        if stored is None:
            return None
        serde = self._engine.serde_of(self.serde)
        partition = self._engine.log.partition_of(place.thread_id)

        def decoded() -> tuple[dict[str, int], CheckpointTuple]:
            opened: dict[str, Payload] = {}
            found = tuple_of(serde, partition, place.thread_id, stored, opened)
            values = self._engine.bases.warm(place.thread_id, stored, opened, is_verified=True)
            return values, found

        # Others want the loop meanwhile.
        is_large = size_of(stored) > LARGE_BYTES
        try:
            values, found = await asyncio.to_thread(decoded) if is_large else decoded()
        except (ValueCorruptedError, ValueUnresolvedError, SaverError):
            # Whoever continues it reads it anew, and builds on nothing that is damaged.
            event_id = stored.row.event_id
            lineage.forget(place.thread_id, place.namespace, stored.checkpoint_id, event_id)
            raise
        lineage.remember(
            place.thread_id,
            place.namespace,
            stored.checkpoint_id,
            known_of(stored, values),
            read_since=began_at,
        )
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest id first, over all threads and namespaces not excluded.

        Raises:
            ThreadParkedError: At the end of a listing of all threads, if parked ones were left out.
        """
        selection = selection_of(config, before)
        thread_id = None if config is None else place_of(config).thread_id
        level = self._level(config)
        if limit is not None and limit <= 0:
            return
        await self._engine.setup()
        reader = self._engine.reader
        partition_of = self._engine.log.partition_of
        serde = self._engine.serde_of(self.serde)
        found = 0
        page = None if filter else limit
        async for stored in reader.checkpoints(
            selection, thread_id, level, limit=page, with_values=not filter
        ):
            owner = stored.thread.thread_id or ""
            if filter:
                if not matches(metadata_of(serde, owner, stored), filter):
                    continue
                place = Place(owner, stored.namespace, stored.checkpoint_id)
                _, whole = await reader.checkpoint(place, level)
                if whole is None:
                    continue
                stored = whole  # noqa: PLW2901 - the same checkpoint, with its values
            args = serde, partition_of(owner), owner, stored
            is_large = size_of(stored) > LARGE_BYTES
            yield await asyncio.to_thread(tuple_of, *args) if is_large else tuple_of(*args)
            found += 1
            if found == limit:
                return

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return each channel's writes and seed along the ancestors, in one walk of the view."""
        place = place_of(config)
        level = self._level(config)
        if not channels:
            return {}
        await self._engine.setup()
        histories = await self._engine.reader.history(place, channels, level)
        partition = self._engine.log.partition_of(place.thread_id)
        serde = self._engine.serde_of(self.serde)
        return {
            channel: history_of(serde, partition, place, channel, histories[channel])
            for channel in channels
        }

    async def athreads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `alist`
        limit: int = 50,
        after: str | None = None,
        read_level: ReadLevel | str | None = None,
    ) -> Threads:
        """Return a page of threads, latest activity first, without reading their states.

        `filter` is compared with the metadata of each thread's newest root checkpoint; `after` is
        the cursor of the page before. Parked threads are left out and named in `parked`. A thread
        that becomes active between two pages moves to the front, and may be on neither.
        """
        level = self._named_level(read_level)
        await self._engine.setup()
        serde = self._engine.serde_of(self.serde)
        return await list_threads(
            self._engine.reader, serde, level, wanted=filter, limit=limit, after=after
        )

    async def acount_threads(
        self,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as in `alist`
        read_level: ReadLevel | str | None = None,
    ) -> int:
        """Return how many threads hold checkpoints and match; takes a step per 200 threads.

        Not counted are parked threads, and those that became active while it counted and had not
        been met.
        """
        level = self._named_level(read_level)
        await self._engine.setup()
        serde = self._engine.serde_of(self.serde)
        return await count_threads(self._engine.reader, serde, level, wanted=filter)

    async def alag(self) -> dict[int, int]:
        """Return, per partition, how many offsets of the log the view has not applied yet."""
        await self._engine.setup()
        return await self._engine.reader.lag()

    # Appending

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint under the one that `config` names; return its own config.

        Raises:
            ThreadDeletedError: It continues a deleted thread; nothing was appended.
            AppendOutcomeUnknownError: It may be saved or not; see there.
        """
        return await self._engine.writer.put(
            self._engine.draft(self.serde, config, checkpoint, metadata, new_versions)
        )

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save a task's writes on the checkpoint that `config` names, there already or not yet."""
        place = checkpoint_place_of(config)
        if writes:
            serde = self._engine.serde_of(self.serde)
            parts = writes_of(serde, writes, task_id, task_path)
            await self._engine.writer.put_writes(place, parts)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread for good: nothing that continues it shows again."""
        await self._engine.writer.delete_thread(thread_id_of(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of some runs, with their writes; those that remain keep theirs."""
        await self._engine.setup()
        await delete_runs(self._engine.reader, self._engine.writer, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread to one that holds no checkpoint; the copy shows all at once.

        Raises:
            CopyRefusedError: The target holds checkpoints.
        """
        source, target = thread_id_of(source_thread_id), thread_id_of(target_thread_id)
        await self._engine.setup()
        partition = self._engine.log.partition_of(source)
        serde = self._engine.serde_of(self.serde)
        await copy_thread(
            self._engine.reader, self._engine.writer, serde, (source, target), partition=partition
        )

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = KEEP_LATEST) -> None:
        """Keep only the newest checkpoint of each namespace, or (`delete`) nothing.

        What a kept checkpoint needs of removed ones stays available to it.
        """
        threads = [thread_id_of(thread_id) for thread_id in thread_ids]
        await self._engine.setup()
        await prune(self._engine.reader, self._engine.writer, threads, strategy)

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - its signature
        """Return a version greater than `current`, of its type; integers from 1 on by default."""
        return next_version(current)

    def _level(self, config: RunnableConfig | None) -> ReadLevel:
        return read_level_of(config, self._engine.config.read_level)

    def _named_level(self, level: ReadLevel | str | None) -> ReadLevel:
        return self._engine.config.read_level if level is None else ReadLevel.of(level)
