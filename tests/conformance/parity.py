"""Runs the same calls on a saver and on the reference, and compares every answer."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from langgraph.checkpoint.kafka import CopyRefusedError, InvalidConfigError, ThreadDeletedError
from saver.versions import next_version
from tests.wirings import Caller

from . import commands as do
from .reference import ReferenceSaver, RefusedError, Saved, Thread, place_of

FIRST_VERSIONS = {"x": 1, "y": 1.5, "log": "00001.5", "x:1": 1}
REFUSALS = (CopyRefusedError, InvalidConfigError, ThreadDeletedError)


def exact(value: Any) -> Any:
    """Return what tells a value from every other, its type and those of its parts included."""
    kind = type(value).__name__
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return kind, sorted((key, exact(item)) for key, item in pairs)
    if isinstance(value, list | tuple):
        return kind, [exact(item) for item in cast("list[Any]", value)]
    if isinstance(value, set):
        return kind, sorted(map(repr, cast("Iterable[Any]", value)))
    return kind, repr(value)


class Parity:
    """One run: a saver, another one that only reads what the first one is told, the reference."""

    def __init__(self, first: Caller, other: Caller | None, *, is_alone: bool) -> None:
        self.first = first
        self.other = other
        self.is_alone = is_alone
        """Whether nothing but this run is in the store."""
        self.model = ReferenceSaver()
        self.token = uuid.uuid4().hex
        self.number = 0

    def thread_id(self, thread: int) -> str:
        return f"{self.token} {'aÄ*0'[thread]}"

    def run_id(self, run_id: str) -> str:
        return f"{self.token} {run_id}"

    def config(
        self, thread: int, namespace: str | None, checkpoint_id: str | None, **others: Any
    ) -> RunnableConfig:
        configurable = {"thread_id": self.thread_id(thread), **others}
        if namespace is not None:
            configurable["checkpoint_ns"] = namespace
        if checkpoint_id is not None:
            configurable["checkpoint_id"] = checkpoint_id
        return {"configurable": configurable}

    async def run(self, command: do.Command) -> None:
        """Do one command on both, and compare."""
        match command:
            case do.Put():
                await self._put(command)
            case do.PutAgain():
                await self._put_again(command)
            case do.Forget():
                self._forget()
            case do.Discard():
                await self.first.lose_view()
            case (
                do.PutWrites() | do.DeleteThread() | do.DeleteRuns() | do.CopyThread() | do.Prune()
            ):
                await self._change(command)
            case do.Get() | do.List() | do.History() | do.ListThreads():
                for reader in self._readers():
                    await self._read(reader, command)

    async def sweep(self) -> None:
        """Compare everything that can be read."""
        for reader in self._readers():
            await self._read(reader, do.List(None, None, None, None, None, None))
            await self._read(reader, do.ListThreads(None))
        for thread in do.THREADS:
            shown = self.model.threads.get(self.thread_id(thread), Thread()).shown
            namespaces = {key[0] for key in shown} | {""}
            newest = [(namespace, None) for namespace in namespaces]
            for namespace, checkpoint_id in [*shown, *newest]:
                for reader in self._readers():
                    await self._read(reader, do.Get(thread, namespace, checkpoint_id))
                    await self._read(reader, do.History(thread, namespace, checkpoint_id))

    def _readers(self) -> Sequence[Caller]:
        return [self.first] if self.other is None else [self.first, self.other]

    def _forget(self) -> None:
        for thread in do.THREADS:
            self.first.saver._engine.lineage.forget_thread(self.thread_id(thread))

    async def _put(self, put: do.Put) -> None:
        thread = self.model.threads.get(self.thread_id(put.thread), Thread())
        parent_id = self._parent(put, thread)
        parent = known(thread, put.namespace, parent_id)
        versions = {} if parent is None else dict(parent.versions)
        values = {} if parent is None else self._values(parent)
        new: dict[str, Any] = {}
        given = {
            channel: value.of(values.get(channel)) if isinstance(value, do.Change) else value
            for channel, value in put.given.items()
        }
        for channel in [*put.given, *put.emptied]:
            before = versions.get(channel)
            new[channel] = FIRST_VERSIONS[channel] if before is None else next_version(before)
            values.pop(channel, None)
        values.update({name: value for name, value in given.items() if name in new})
        for channel in put.emptied:
            values.pop(channel, None)
        versions.update(new)
        namespace = put.namespace if put.namespace or put.names_root else None
        config = self.config(put.thread, namespace, parent_id, **put.configurable)
        metadata = {**put.metadata, "token": self.token}
        if put.run_id is not None:
            metadata["run_id"] = self.run_id(put.run_id)
        checkpoint_id = self._id(put, thread)
        await self._do_put(config, checkpoint_id, values, versions, metadata, new)

    def _parent(self, put: do.Put, thread: Thread) -> str | None:
        if put.parent == "newest":
            ids = [key[1] for key in thread.shown if key[0] == put.namespace]
            return max(ids, default=None)
        return {"none": None, "unknown": "never there"}.get(put.parent, put.parent)

    def _id(self, put: do.Put | do.PutAgain, thread: Thread) -> str:
        if put.checkpoint_id != do.NEXT_ID:
            return put.checkpoint_id
        newest = max((key[1] for key in thread.shown if key[0] == put.namespace), default="")
        return next((name for name in do.IDS if name > newest), do.IDS[0])

    async def _put_again(self, put: do.PutAgain) -> None:
        thread = self.model.threads.get(self.thread_id(put.thread), Thread())
        ids = [key[1] for key in thread.shown if key[0] == put.namespace]
        if not ids:
            return
        source_id = put.source if put.source in ids else max(ids)
        source = thread.shown[put.namespace, source_id]
        found = self.model.get_tuple(self.config(put.thread, put.namespace, source_id))
        assert found is not None
        # As LangGraph does it: under the parent that the source shows, if any.
        parent_id = None if found.parent_config is None else place_of(found.parent_config)[2]
        parent = known(thread, put.namespace, parent_id)
        if parent is not None and parent.number > source.number:
            # Another checkpoint by now, whose values need not be those that the source began with.
            return
        config = self.config(put.thread, put.namespace, parent_id)
        metadata = {"source": "fork", "step": 7, "token": self.token}
        values, versions = self._values(source), dict(source.versions)
        checkpoint_id = self._id(put, thread)
        await self._do_put(config, checkpoint_id, values, versions, metadata, {})

    def _values(self, saved: Saved) -> dict[str, Any]:
        load = self.model.serde.loads_typed
        return {channel: load(packed) for channel, packed in saved.values.items()}

    async def _do_put(
        self,
        config: RunnableConfig,
        checkpoint_id: str,
        values: dict[str, Any],
        versions: dict[str, Any],
        *told: Any,
    ) -> None:
        self.number += 1
        checkpoint: Any = {
            "v": 4,
            "id": checkpoint_id,
            "ts": f"2026-01-01T00:00:00.{self.number:06}+00:00",
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": {"node": dict(versions)},
            "updated_channels": None,
        }
        await self._same(
            self.first.put(config, checkpoint, *told),
            lambda: self.model.put(config, checkpoint, *told),
        )

    async def _change(
        self,
        command: do.PutWrites | do.DeleteThread | do.DeleteRuns | do.CopyThread | do.Prune,
    ) -> None:
        name: str
        args: tuple[Any, ...]
        kwargs: dict[str, Any] = {}
        match command:
            case do.PutWrites(thread, namespace, checkpoint_id, writes, task_id, task_path):
                config = self.config(thread, namespace, checkpoint_id)
                name, args = "put_writes", (config, writes, task_id, task_path)
            case do.DeleteThread(thread):
                name, args = "delete_thread", (self.thread_id(thread),)
            case do.DeleteRuns(run_ids):
                name, args = "delete_for_runs", ([self.run_id(run_id) for run_id in run_ids],)
            case do.CopyThread(source, target):
                name, args = "copy_thread", (self.thread_id(source), self.thread_id(target))
            case do.Prune(threads, strategy):
                name, args = "prune", ([self.thread_id(thread) for thread in threads],)
                kwargs = {"strategy": strategy}
        await self._same(
            self.first.call(name, *args, **kwargs),
            lambda: getattr(self.model, name)(*args, **kwargs),
        )

    async def _same(self, ours: Awaitable[Any], theirs: Callable[[], Any]) -> None:
        """Compare what two calls return, or that both are refused."""
        try:
            expected = theirs()
        except RefusedError:
            with pytest.raises(REFUSALS):
                await ours
            return
        assert exact(await ours) == exact(expected)

    async def _read(self, reader: Caller, command: do.Reading) -> None:
        match command:
            case do.Get(thread, namespace, checkpoint_id):
                config = self.config(thread, namespace, checkpoint_id)
                found = await reader.get_tuple(config)
                assert shown(found) == shown(self.model.get_tuple(config))
            case do.List():
                await self._list(reader, command)
            case do.History(thread, namespace, checkpoint_id):
                config = self.config(thread, namespace, checkpoint_id)
                channels = self._comparable_channels(config)
                histories = await reader.history(config, channels)
                expected = self.model.get_delta_channel_history(config=config, channels=channels)
                assert exact(histories) == exact(expected)
            case do.ListThreads(wanted):
                await self._list_threads(reader, self._filter(wanted, everywhere=True))

    def _filter(self, wanted: dict[str, Any] | None, *, everywhere: bool) -> dict[str, Any] | None:
        """Return a filter that finds nothing of what others put into the same store."""
        chosen = dict(wanted or {})
        if "run_id" in chosen:
            chosen["run_id"] = self.run_id(chosen["run_id"])
        if everywhere and not self.is_alone:
            chosen["token"] = self.token
        return chosen if chosen or wanted is not None else None

    async def _list(self, reader: Caller, command: do.List) -> None:
        config = None
        if command.thread is not None:
            config = self.config(command.thread, command.namespace, command.checkpoint_id)
        chosen: dict[str, Any] = {
            "filter": self._filter(command.filter, everywhere=config is None),
            "before": None if command.before is None else self.config(0, "", command.before),
        }
        found = await reader.list(config, **chosen, limit=command.limit)
        expected = [*self.model.list(config, **chosen)]
        ids = [item.checkpoint["id"] for item in expected]
        if command.limit is not None:
            ids = ids[: max(command.limit, 0)]
        assert [item.checkpoint["id"] for item in found] == ids
        # The order of equal ids in different places is not promised.
        by_place = {repr(item.config): shown(item) for item in expected}
        assert len({repr(item.config) for item in found}) == len(found)
        for item in found:
            assert shown(item) == by_place[repr(item.config)]

    async def _list_threads(self, reader: Caller, wanted: dict[str, Any] | None) -> None:
        page = await reader.threads(filter=wanted)
        assert page.cursor is None
        found = {
            info.thread_id: (info.checkpoints, info.checkpoint_id, exact(dict(info.metadata)))
            for info in page.threads
        }
        expected: dict[str, Any] = {}
        for thread_id, thread in self.model.threads.items():
            newest = self.model.get_tuple({"configurable": {"thread_id": thread_id}})
            metadata: dict[str, Any] = {} if newest is None else dict(newest.metadata)
            if thread.shown and all(metadata.get(k) == v for k, v in (wanted or {}).items()):
                checkpoint_id = None if newest is None else newest.checkpoint["id"]
                expected[thread_id] = (len(thread.shown), checkpoint_id, exact(metadata))
        assert found == expected
        assert await reader.count_threads(filter=wanted) == len(expected)

    def _comparable_channels(self, config: RunnableConfig) -> Sequence[str]:
        """Return the channels whose history is promised.

        A copy carries, of ancestors that were removed, the history of channels without a value: it
        is what a history is read for.
        """
        thread = self.model.threads.get(place_of(config)[0], Thread())
        found = self.model.get_tuple(config)
        if not thread.is_copy or found is None:
            return do.CHANNELS
        versions = found.checkpoint["channel_versions"]
        return [name for name in versions if name not in found.checkpoint["channel_values"]]


def shown(found: CheckpointTuple | None) -> Any:
    """Return all that a tuple shows, in a form that compares exactly."""
    return None if found is None else exact(dict(found._asdict()))


def known(thread: Thread, namespace: str, parent_id: str | None) -> Saved | None:
    """Return the checkpoint that a put continues, there still or removed meanwhile."""
    key = (namespace, parent_id or "")
    return thread.shown.get(key) or thread.removed.get(key)
