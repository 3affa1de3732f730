"""The reference model: what a checkpointer answers, written from LangGraph's docstrings and suite.

It agrees with `InMemorySaver` wherever that is right and differs where that is wrong, loose or
lacking:

- forks of one checkpoint never share a channel's value;
- `list` is newest id first over all threads and namespaces;
- a config without `checkpoint_ns` means the root; an answer's config names exactly the checkpoint;
- a put that continues a deleted thread is refused;
- `prune`, `delete_for_runs` and `copy_thread` exist; removed ancestors stay readable for the delta
  history of those that remain, and are nobody's `parent_config`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_metadata,
    writes_sort_key,
)

Key: TypeAlias = tuple[str, str]
"""(namespace, checkpoint id)."""
Packed: TypeAlias = tuple[str, bytes]
"""What LangGraph's serializer makes of a value."""
Writes: TypeAlias = dict[tuple[str, int], tuple[str, str, Packed]]
"""(task id, index) → (task path, channel, value)."""


class RefusedError(Exception):
    """The call is refused, and nothing has changed."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint as it was put."""

    number: int
    """Counts puts; tells a checkpoint from one that is put later under the same id."""
    parent_id: str | None
    body: Packed
    metadata: Packed
    versions: ChannelVersions
    values: dict[str, Packed]
    """The value of each channel that has one, here or inherited."""
    writes: Writes | None = None
    """Its writes at the time when it was removed."""


@dataclass
class Thread:
    """What one thread holds."""

    is_deleted: bool = False
    """Whether it was ever deleted."""
    shown: dict[Key, Saved] = field(default_factory=dict)
    removed: dict[Key, Saved] = field(default_factory=dict)
    writes: dict[Key, Writes] = field(default_factory=dict)
    """Also those on checkpoints that are not there yet."""
    is_copy: bool = False


class ReferenceSaver(BaseCheckpointSaver[int]):
    """A checkpointer in memory that is plainly right."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[str, Thread] = {}
        self._puts = 0

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id, namespace, parent_id = place_of(config)
        thread = self.threads.get(thread_id, Thread())
        parent = None
        if parent_id is not None:
            parent = thread.shown.get((namespace, parent_id)) or thread.removed.get(
                (namespace, parent_id)
            )
            if parent is None and thread.is_deleted:
                raise RefusedError
        body = {**checkpoint}
        given = cast("dict[str, Any]", body.pop("channel_values"))
        versions = checkpoint["channel_versions"]
        values: dict[str, Packed] = {}
        for channel, version in versions.items():
            if channel in given:
                values[channel] = self.serde.dumps_typed(given[channel])
            elif channel not in new_versions and parent and parent.versions.get(channel) == version:
                values.update({k: v for k, v in parent.values.items() if k == channel})
        self._puts += 1
        thread.shown[namespace, checkpoint["id"]] = Saved(
            self._puts,
            parent_id,
            self.serde.dumps_typed(body),
            self.serde.dumps_typed(get_checkpoint_metadata(config, metadata)),
            dict(versions),
            values,
        )
        self.threads[thread_id] = thread
        return config_of(thread_id, namespace, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        thread_id, namespace, checkpoint_id = place_of(config)
        assert checkpoint_id is not None
        if not writes:
            return
        thread = self.threads.setdefault(thread_id, Thread())
        stored = thread.writes.setdefault((namespace, checkpoint_id), {})
        before = set(stored)
        for position, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, position)
            if index < 0 or (task_id, index) not in before:
                stored[task_id, index] = (task_path, channel, self.serde.dumps_typed(value))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, namespace, checkpoint_id = place_of(config)
        key = self._named(thread_id, namespace, checkpoint_id)
        return None if key is None else self._tuple(thread_id, key)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        wanted_thread, wanted_namespace, wanted_id = None, None, None
        if config is not None:
            wanted_thread, _, wanted_id = place_of(config)
            wanted_namespace = configurable_of(config).get("checkpoint_ns")
        end = None if before is None else configurable_of(before).get("checkpoint_id")
        found = [
            self._tuple(thread_id, key)
            for thread_id, thread in self.threads.items()
            if wanted_thread in (None, thread_id)
            for key in thread.shown
            if wanted_namespace in (None, key[0])
            if wanted_id in (None, key[1])
            if not end or key[1] < end
        ]
        found.sort(key=lambda item: item.checkpoint["id"], reverse=True)
        chosen = [
            item
            for item in found
            if all(item.metadata.get(key) == value for key, value in (filter or {}).items())
        ]
        yield from chosen if limit is None else chosen[: max(limit, 0)]

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        thread_id, namespace, checkpoint_id = place_of(config)
        key = self._named(thread_id, namespace, checkpoint_id)
        ancestors: Sequence[tuple[Saved, Writes]] = []
        if key is not None:
            ancestors = ancestors_of(self.threads[thread_id], key)
        return {channel: self._history(ancestors, channel) for channel in channels}

    def delete_thread(self, thread_id: str) -> None:
        self.threads[thread_id] = Thread(is_deleted=True)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for thread in self.threads.values():
            for key, saved in [*thread.shown.items()]:
                if self._metadata(saved).get("run_id") in run_ids:
                    remove(thread, key)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        if source_thread_id == target_thread_id:
            raise RefusedError
        target = self.threads.get(target_thread_id, Thread())
        if target.shown:
            raise RefusedError
        source = self.threads.get(source_thread_id, Thread())
        if source.shown:
            self.threads[target_thread_id] = copy_of(source, is_deleted=target.is_deleted)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(strategy)
        for thread_id in thread_ids:
            thread = self.threads.get(thread_id)
            if thread is None:
                continue
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            for key in [*thread.shown]:
                if key != self._named(thread_id, key[0], None):
                    remove(thread, key)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for item in self.list(config, filter=filter, before=before, limit=limit):
            yield item

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)

    def _named(self, thread_id: str, namespace: str, checkpoint_id: str | None) -> Key | None:
        """Return the key of a checkpoint that is there; the greatest id when none is named."""
        shown = self.threads.get(thread_id, Thread()).shown
        if checkpoint_id is None:
            ids = [key[1] for key in shown if key[0] == namespace]
            return (namespace, max(ids)) if ids else None
        return (namespace, checkpoint_id) if (namespace, checkpoint_id) in shown else None

    def _history(
        self, ancestors: Sequence[tuple[Saved, Writes]], channel: str
    ) -> DeltaChannelHistory:
        writes: Sequence[PendingWrite] = []
        for saved, its_writes in ancestors:
            own = [write for write in self._pending(its_writes) if write[1] == channel]
            writes = [*own, *writes]
            if channel in saved.values:
                seed = self.serde.loads_typed(saved.values[channel])
                return {"writes": [*writes], "seed": seed}
        return {"writes": [*writes]}

    def _tuple(self, thread_id: str, key: Key) -> CheckpointTuple:
        thread = self.threads[thread_id]
        namespace, checkpoint_id = key
        saved = thread.shown[key]
        parent_id = saved.parent_id
        if parent_id is not None:
            parent = (namespace, parent_id)
            if parent not in thread.shown and parent in thread.removed:
                parent_id = None
        body = self.serde.loads_typed(saved.body)
        values = {
            channel: self.serde.loads_typed(packed) for channel, packed in saved.values.items()
        }
        return CheckpointTuple(
            config_of(thread_id, namespace, checkpoint_id),
            cast("Checkpoint", {**body, "channel_values": values}),
            self._metadata(saved),
            None if parent_id is None else config_of(thread_id, namespace, parent_id),
            [*self._pending(thread.writes.get(key, {}))],
        )

    def _pending(self, writes: Writes) -> Sequence[PendingWrite]:
        ordered = sorted(writes.items(), key=lambda item: writes_sort_key(item[1][0], *item[0]))
        return [
            (task_id, channel, self.serde.loads_typed(packed))
            for (task_id, _), (_, channel, packed) in ordered
        ]

    def _metadata(self, saved: Saved) -> CheckpointMetadata:
        return cast("CheckpointMetadata", self.serde.loads_typed(saved.metadata))


def remove(thread: Thread, key: Key) -> None:
    """Hide a checkpoint; whoever remains keeps it, with the writes that it has now, as ancestor."""
    saved = thread.shown.pop(key)
    thread.removed[key] = replace(saved, writes=thread.writes.pop(key, {}))


def ancestors_of(thread: Thread, key: Key) -> Sequence[tuple[Saved, Writes]]:
    """Return a checkpoint's ancestors from the nearest one, removed ones too, with their writes."""
    found: dict[int, tuple[Saved, Writes]] = {}
    namespace, saved = key[0], thread.shown[key]
    seen = {saved.number}
    while saved.parent_id is not None:
        parent = (namespace, saved.parent_id)
        following = thread.shown.get(parent) or thread.removed.get(parent)
        if following is None or following.number in seen:
            break
        saved = following
        seen.add(saved.number)
        writes = thread.writes.get(parent, {}) if saved.writes is None else saved.writes
        found[saved.number] = (saved, writes)
    return [*found.values()]


def copy_of(source: Thread, *, is_deleted: bool) -> Thread:
    """Return what a copy holds: all that is shown, and what removed parents led to as its own.

    Writes that wait for their checkpoint are not copied, and none wait for one of the copy's.
    """
    copy = Thread(is_deleted, is_copy=True)
    numbers = count(-1, -1)
    for key, saved in source.shown.items():
        namespace, checkpoint_id = key
        parent = (namespace, saved.parent_id or "")
        if parent in source.removed and parent not in source.shown:
            # The ancestors are the copy's alone, and nobody else can name them.
            ancestors = ancestors_of(source, key)
            names = [f"{checkpoint_id} ancestor {number}" for number in range(len(ancestors))]
            for (ancestor, writes), name, older in zip(
                ancestors, names, [*names[1:], None], strict=True
            ):
                copy.removed[namespace, name] = replace(
                    ancestor, number=next(numbers), parent_id=older, writes=writes
                )
            saved = replace(saved, parent_id=names[0])  # noqa: PLW2901 - the same, elsewhere
        copy.shown[key] = saved
        if key in source.writes:
            copy.writes[key] = dict(source.writes[key])
    return copy


def place_of(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Return (thread id, namespace, checkpoint id); the empty id counts as none."""
    configurable = configurable_of(config)
    return (
        configurable["thread_id"],
        configurable.get("checkpoint_ns") or "",
        configurable.get("checkpoint_id") or None,
    )


def configurable_of(config: RunnableConfig) -> dict[str, Any]:
    """Return what a config configures."""
    return config.get("configurable", {})


def config_of(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """Return the config that names exactly this checkpoint."""
    names = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
    return {"configurable": names}
