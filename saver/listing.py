"""What a listing selects: one definition, equal to InMemorySaver's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata

from eventstore.codec import thread_hash
from projector.view import Selection

from .place import (
    MAX_NAMESPACE_BYTES,
    checkpoint_id_of,
    place_of,
    text_of,
)


def selection_of(config: RunnableConfig | None, before: RunnableConfig | None) -> Selection:
    """Return which checkpoints `list` wants.

    Without a config: all of all threads. A config without `checkpoint_ns` means every namespace;
    the empty one means the root's alone. `before` counts by its checkpoint id only.
    """
    limit_id = None
    if before is not None:
        limit_id = checkpoint_id_of((before.get("configurable") or {}).get("checkpoint_id"))
    if config is None:
        return Selection(before=limit_id)
    place = place_of(config)
    namespace = config.get("configurable", {}).get("checkpoint_ns")
    return Selection(
        thread=thread_hash(place.thread_id),
        namespace=(
            None if namespace is None else text_of("checkpoint_ns", namespace, MAX_NAMESPACE_BYTES)
        ),
        checkpoint_id=place.checkpoint_id,
        before=limit_id,
    )


def matches(metadata: CheckpointMetadata, wanted: Mapping[str, Any] | None) -> bool:
    """Tell whether metadata has every wanted key with an equal value (a missing key is None)."""
    if not wanted:
        return True
    return all(metadata.get(key) == value for key, value in wanted.items())
