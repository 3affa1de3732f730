"""The wirings under test, and every form in which a saver can be called.

A case is written once, against `Caller`, and runs awaited, through the sync methods of the same
saver from another OS thread, and through `KafkaSaver`, on every wiring. Savers are shared by all
tests of a run, so a test takes thread ids of its own; one that looks at everything that a store
holds asks for `lone_caller`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import pytest_asyncio
import zstandard
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from eventstore.codec import thread_hash
from eventstore.log import LogRecord
from langgraph.checkpoint.kafka import AsyncKafkaSaver, KafkaSaver, Threads
from projector.layout import VALUES
from projector.view import Cell, Changes

T = TypeVar("T")

PARTITIONS = 2


class Store(Enum):
    """What keeps the log and the view."""

    SQLITE_FILE = "file"
    SQLITE_MEMORY = "memory"
    KAFKA_REDIS = "kafka"


class Form(Enum):
    """How a saver is called."""

    AWAITED = "async"
    FROM_OTHER_THREAD = "sync"
    """The sync methods of `AsyncKafkaSaver`."""
    TWIN = "twin"
    """`KafkaSaver`."""


REOPENABLE = (Store.SQLITE_FILE, Store.KAFKA_REDIS)


@dataclass(frozen=True)
class Wiring:
    """A store that savers can be opened on, any number at a time unless it is in memory."""

    store: Store
    conn_string: str

    def open(self, **settings: Any) -> AbstractAsyncContextManager[AsyncKafkaSaver]:
        return AsyncKafkaSaver.from_conn_string(self.conn_string, **settings)

    def open_twin(self, **settings: Any) -> AbstractContextManager[KafkaSaver]:
        return KafkaSaver.from_conn_string(self.conn_string, **settings)


class Caller:
    """A saver's methods as coroutines, whichever form of them is behind."""

    def __init__(self, saver: AsyncKafkaSaver | KafkaSaver, wiring: Wiring, form: Form) -> None:
        self.saver = saver
        self.wiring = wiring
        self.form = form

    @classmethod
    def awaited(cls, saver: AsyncKafkaSaver, wiring: Wiring) -> Caller:
        """Return an async saver as it is."""
        return cls(saver, wiring, Form.AWAITED)

    async def lose_view(self) -> None:
        """Lose all that the view holds; whoever reads next has it built again from the log."""
        engine = self.saver._engine

        async def discard() -> None:
            for partition in range(engine.log.partition_count):
                await engine._view.discard(partition)

        await self.on_loop(discard())

    async def corrupt_value(self, thread_id: str, channel: str) -> None:
        """Change a byte of what the view holds of a channel, in the thread's only checkpoint."""
        cells = await self.cells(thread_id, VALUES)
        ((cell, data),) = [each for each in cells.items() if each[0][1][8:] == channel.encode()]
        await self.spoil(thread_id, {cell: data[:-1] + bytes([data[-1] ^ 1])})

    async def cells(self, thread_id: str, letter: bytes) -> dict[Cell, bytes]:
        """Return what the view holds of a thread in a map, by key and field."""
        engine = self.saver._engine
        dump = await self.on_loop(engine._view.dump(engine.log.partition_of(thread_id)))
        return {
            (key, field): data
            for key, fields in dump.items()
            if key[:17] == letter + thread_hash(thread_id)
            for field, data in fields.items()
        }

    async def spoil(self, thread_id: str, cells: Mapping[Cell, bytes]) -> None:
        """Change the view behind the projector's back."""
        view, partition = self.saver._engine._view, self.saver._engine.log.partition_of(thread_id)

        async def write() -> None:
            progress = await view.progress(partition)
            assert progress is not None
            changes = Changes(cells=dict(cells))
            assert await view.apply(partition, expected=progress, changes=changes, reached=progress)

        await self.on_loop(write())

    async def stored_bytes(self) -> bytes:
        """Return all that stands in log and view, compressed values decompressed."""
        engine = self.saver._engine

        async def read() -> list[bytes]:
            found: list[bytes] = []
            for partition in range(engine.log.partition_count):
                for key, fields in (await engine._view.dump(partition)).items():
                    found += [key, *fields.keys(), *fields.values()]
                end = (await engine.log.end_position((partition,))).next_offset(partition)
                at = 0
                while at < end:
                    batch = await engine.log.read(partition, at, end)
                    at = batch.next_offset
                    found += [part for record in batch.records for part in parts_of(record)]
            return found

        return b"\n".join(await self.on_loop(read()))

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method `a<name>`, or its sync form from another OS thread."""
        if self.form is Form.AWAITED:
            return await getattr(self.saver, f"a{name}")(*args, **kwargs)
        return await asyncio.to_thread(getattr(self.saver, name), *args, **kwargs)

    async def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something on the saver's own event loop."""
        if isinstance(self.saver, KafkaSaver):
            return await self.saver._hand_over(work)
        return await work

    async def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        stored: RunnableConfig = await self.call("put", config, checkpoint, metadata, new_versions)
        return stored

    async def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self.call("put_writes", config, writes, task_id, task_path)

    async def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found: CheckpointTuple | None = await self.call("get_tuple", config)
        return found

    async def list(self, config: RunnableConfig | None, **chosen: Any) -> list[CheckpointTuple]:
        if self.form is Form.AWAITED:
            return [found async for found in self.saver.alist(config, **chosen)]
        return await asyncio.to_thread(lambda: list(self.saver.list(config, **chosen)))

    async def history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        found: Mapping[str, DeltaChannelHistory] = await self.call(
            "get_delta_channel_history", config=config, channels=channels
        )
        return found

    async def delete_thread(self, thread_id: str) -> None:
        await self.call("delete_thread", thread_id)

    async def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self.call("delete_for_runs", run_ids)

    async def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self.call("copy_thread", source_thread_id, target_thread_id)

    async def prune(self, thread_ids: Sequence[str], strategy: str = "keep_latest") -> None:
        await self.call("prune", thread_ids, strategy=strategy)

    async def threads(self, **chosen: Any) -> Threads:
        page: Threads = await self.call("threads", **chosen)
        return page

    async def count_threads(self, **chosen: Any) -> int:
        count: int = await self.call("count_threads", **chosen)
        return count


def parts_of(record: LogRecord) -> list[bytes]:
    """Return all bytes of a record, decompressed."""
    value = record.value or b""
    headers = dict(record.headers)
    if "content-encoding" in headers:
        value = zstandard.decompress(value)
    return [record.key or b"", value, *headers.values()]


class Savers:
    """Opens wirings and savers, and keeps open what tests share until the run ends."""

    def __init__(self, stack: AsyncExitStack, folder: Path, address: Callable[[str], str]) -> None:
        self._stack = stack
        self._folder = folder
        self._address = address
        self._shared: dict[tuple[Store, type], Caller] = {}
        self._wirings: dict[Store, Wiring] = {}

    def new_wiring(self, store: Store) -> Wiring:
        """Return a store that nothing has used before."""
        name = f"test-{uuid.uuid4().hex}"
        if store is Store.SQLITE_MEMORY:
            return Wiring(store, "sqlite:///:memory:")
        if store is Store.SQLITE_FILE:
            return Wiring(store, f"sqlite:///{self._folder}/{name}.sqlite")
        redis = self._address("redis_url")
        kafka = f"kafka://{self._address('kafka_bootstrap')}/{name}"
        return Wiring(store, f"{kafka}?redis={redis}&partitions={PARTITIONS}")

    def shared_wiring(self, store: Store) -> Wiring:
        """Return the store that the shared savers use."""
        if store not in self._wirings:
            self._wirings[store] = self.new_wiring(store)
        return self._wirings[store]

    async def shared(self, store: Store, form: Form) -> Caller:
        """Return the saver of this form that tests share."""
        kind = KafkaSaver if form is Form.TWIN else AsyncKafkaSaver
        wiring = self.shared_wiring(store)
        if (store, kind) not in self._shared:
            self._shared[store, kind] = await self.opened(wiring, form, self._stack)
        return Caller(self._shared[store, kind].saver, wiring, form)

    async def alone(
        self, store: Store, form: Form, stack: AsyncExitStack, **settings: Any
    ) -> Caller:
        """Return a saver on a store of its own, open until `stack` is closed."""
        return await self.opened(self.new_wiring(store), form, stack, **settings)

    async def opened(
        self, wiring: Wiring, form: Form, stack: AsyncExitStack, **settings: Any
    ) -> Caller:
        """Return a further saver on a store, open until `stack` is closed."""
        if form is Form.TWIN:
            return Caller(stack.enter_context(wiring.open_twin(**settings)), wiring, form)
        return Caller(await stack.enter_async_context(wiring.open(**settings)), wiring, form)


EVERY_WAY = [
    pytest.param((store, form), id=f"{store.value}-{form.value}")
    for store in Store
    for form in Form
]
EVERY_STORE = [pytest.param(store, id=store.value) for store in Store]
EVERY_REOPENABLE = [pytest.param(store, id=store.value) for store in REOPENABLE]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a test that is to run on Kafka and Redis ask for these servers like any other."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return
    for value in item.callspec.params.values():
        parts: Iterable[object] = cast("Any", value) if isinstance(value, tuple) else (value,)
        if any(part is Store.KAFKA_REDIS for part in parts):
            item.fixturenames = [*item.fixturenames, "kafka_bootstrap", "redis_url"]
            return


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def savers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Savers]:
    """Opens wirings and savers on the event loop of the run."""
    async with AsyncExitStack() as stack:
        yield Savers(stack, tmp_path_factory.mktemp("stores"), request.getfixturevalue)


@pytest_asyncio.fixture(loop_scope="session", params=EVERY_WAY)
async def caller(request: pytest.FixtureRequest, savers: Savers) -> Caller:
    """A shared saver, in each form on each wiring."""
    store, form = request.param
    return await savers.shared(store, form)


@pytest_asyncio.fixture(loop_scope="session", params=EVERY_WAY)
async def lone_caller(request: pytest.FixtureRequest, savers: Savers) -> AsyncIterator[Caller]:
    """A saver on an empty store of its own, in each form on each wiring."""
    store, form = request.param
    async with AsyncExitStack() as stack:
        yield await savers.alone(store, form, stack)


@pytest.fixture(params=EVERY_REOPENABLE)
def wiring(request: pytest.FixtureRequest, savers: Savers) -> Wiring:
    """The shared store of each wiring that several savers can be opened on."""
    return savers.shared_wiring(request.param)


@pytest.fixture(params=EVERY_STORE)
def new_wiring(request: pytest.FixtureRequest, savers: Savers) -> Wiring:
    """An empty store of each wiring."""
    return savers.new_wiring(request.param)


@pytest.fixture(params=EVERY_REOPENABLE)
def new_reopenable(request: pytest.FixtureRequest, savers: Savers) -> Wiring:
    """An empty store of each wiring that several savers can be opened on."""
    return savers.new_wiring(request.param)
