"""The composition root: config → log, view, projector, reader, writer; owns their lifetimes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from eventstore.kafka import KafkaEventLog
from eventstore.log import EventLog
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from projector.applier import Applier
from projector.catch_up import CatchUp
from projector.cli import Parts
from projector.config import ProjectorConfig
from projector.lease import LeaseBoard, OpenBoard
from projector.redis import RedisView
from projector.redis.leases import RedisBoard
from projector.sqlite import SqliteView
from projector.view import CheckpointView
from projector.worker import Worker

from .bases import Bases
from .config import KafkaSaverConfig, SaverSettings
from .errors import SaverClosedError
from .lineage import Lineage
from .mapping import CheckpointDraft, draft_of
from .place import place_of
from .reading import Reader
from .serde import Serde
from .writing import Writer


class Engine:
    """What a saver, its clones and its sync twin share. Belongs to the event loop of its set-up."""

    def __init__(self, log: EventLog, view: CheckpointView, config: SaverSettings) -> None:
        self.config = config
        self.log = log
        self.lineage = Lineage(config.remembered_checkpoints)
        self._view = view
        applier = Applier(log, view)
        catch_up = CatchUp(applier, patience=config.read_patience, deadline=config.read_timeout)
        self.reader = Reader(log, view, catch_up)
        self.bases = Bases()
        self.writer = Writer(log, self.reader, self.lineage, self.bases, self.setup)
        self._worker: Worker | None = None
        if config.projector is not None:
            self._worker = Worker(
                log,
                view,
                applier,
                board_of(view),
                config.projector,
                notify=catch_up.notify,
            )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._setting_up: asyncio.Lock | None = None
        self._is_closed = False

    async def setup(self) -> None:
        """Set up log and view, start the projector. Idempotent.

        Raises:
            SaverClosedError: It was closed.
            RuntimeError: It was set up on another event loop.
        """
        if self._is_closed:
            raise SaverClosedError
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None:
            raise RuntimeError("the saver was set up on another event loop")
        if self._setting_up is None:
            self._setting_up = asyncio.Lock()
        async with self._setting_up:
            if self._loop is not None:
                return
            await self.log.setup()
            await self._view.setup()
            # Closed meanwhile: a projector that starts now would be stopped by nobody.
            if self._is_closed:
                raise SaverClosedError
            if self._worker is not None:
                await self._worker.start()
            self._loop = loop

    def serde_of(self, serializer: SerializerProtocol) -> Serde:
        """Return a serializer with these settings.

        Raises:
            InvalidConfigError: `seal_metadata` is set, and it does not encrypt.
        """
        return Serde(
            serializer,
            reads_plain=self.config.reads_plain,
            sealed_metadata=self.config.seal_metadata,
            readable_metadata=self.config.readable_metadata,
        )

    def draft(
        self,
        serializer: SerializerProtocol,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> CheckpointDraft:
        """Serialize a checkpoint, at once and on the caller's OS thread; see `mapping.draft_of`."""
        place = place_of(config)
        parent = None
        if place.checkpoint_id is not None:
            parent = self.lineage.get(place.thread_id, place.namespace, place.checkpoint_id)
        return draft_of(
            self.serde_of(serializer),
            checkpoint,
            get_checkpoint_metadata(config, metadata),
            place=place,
            new_versions=new_versions,
            parent=parent,
        )

    @property
    def is_ready(self) -> bool:
        """Whether it is set up."""
        return self._loop is not None

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def check_blocking(self) -> asyncio.AbstractEventLoop:
        """Return the saver's loop, if a sync call from here may wait for it.

        Raises:
            SaverClosedError: The saver is closed.
            RuntimeError: There is no running loop that the saver was set up on.
            asyncio.InvalidStateError: This is the loop's own OS thread.
        """
        if self._is_closed:
            raise SaverClosedError
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not None and (self._loop is here or self._loop is None):
            raise asyncio.InvalidStateError(
                "a sync method was called on the event loop's own OS thread, where it would wait "
                "for ever: await the async one (aput, aget_tuple, …), or use another OS thread"
            )
        if self._loop is None or not self._loop.is_running():
            raise RuntimeError(
                "the saver has no running event loop: `await saver.setup()` or `async with saver` "
                "first, or use KafkaSaver, which brings its own"
            )
        return self._loop

    async def close(self) -> None:
        """Stop the projector that this engine started. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._worker is not None:
            await self._worker.stop()


def board_of(view: CheckpointView) -> LeaseBoard:
    """Return the board on which the projectors of a view share its partitions."""
    return RedisBoard(view) if isinstance(view, RedisView) else OpenBoard()


@asynccontextmanager
async def open_ports(
    config: KafkaSaverConfig,
) -> AsyncGenerator[tuple[EventLog, CheckpointView], None]:
    """Open the log and the view that a config names, and close them in reverse order."""
    async with AsyncExitStack() as stack:
        log: EventLog
        view: CheckpointView
        if config.sqlite_path is not None:
            database = await stack.enter_async_context(SqliteDatabase(config.sqlite_path))
            log, view = SqliteEventLog(database), SqliteView(database)
        else:
            kafka, redis_url = config.servers()
            log = KafkaEventLog(kafka)
            view = RedisView.from_url(redis_url.get_secret_value(), prefix=kafka.topic)
        stack.push_async_callback(log.close)
        stack.push_async_callback(view.close)
        yield log, view


@asynccontextmanager
async def open_parts(conn_string: str) -> AsyncGenerator[Parts, None]:
    """Open what the projector's commands need, by a connection string."""
    config = KafkaSaverConfig.from_conn_string(conn_string)
    async with open_ports(config) as (log, view):
        yield Parts(log, view, board_of(view), config.projector or ProjectorConfig())
