"""Place: which thread, namespace and checkpoint a LangGraph config names, checked."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from msgspec import Struct

from .errors import InvalidConfigError

MAX_THREAD_ID_BYTES: Final = 1_024
MAX_CHECKPOINT_ID_BYTES: Final = 1_024
MAX_TASK_ID_BYTES: Final = 1_024
MAX_NAMESPACE_BYTES: Final = 16_384
MAX_TASK_PATH_BYTES: Final = 16_384
"""Lengths in UTF-8; a record's key and headers hold them, and a record is bounded."""

MAX_NAME_BYTES: Final = 65_535
"""Of a channel or of a serializer's type: what a row's two-byte counts can hold."""

READ_LEVEL_KEY: Final = "__read_level"


class ReadLevel(StrEnum):
    """What a read is certain to see."""

    LINEARIZABLE = "linearizable"
    """Every append that any process had acknowledged before the read began."""
    SESSION = "session"
    """At least what this saver, its clones and its sync twin had acknowledged or have read."""
    EVENTUAL = "eventual"
    """What the view holds."""

    @classmethod
    def of(cls, value: object) -> ReadLevel:
        """Return the level of this name.

        Raises:
            InvalidConfigError: There is none.
        """
        try:
            return cls(str(value))
        except ValueError as error:
            names = ", ".join(level.value for level in cls)
            raise InvalidConfigError(
                READ_LEVEL_KEY, reason=f"unknown read level {value!r}; there are {names}"
            ) from error


class Place(Struct, frozen=True, gc=False):
    """A thread, a namespace and possibly a checkpoint."""

    thread_id: str
    namespace: str
    checkpoint_id: str | None

    def buffer(self, channel: str) -> tuple[str, str, str]:
        """Return the name of what a channel grows in: thread id, namespace, channel."""
        return self.thread_id, self.namespace, channel

    def config(self) -> RunnableConfig:
        """Return the config that names exactly this place."""
        return config_of(self.thread_id, self.namespace, self.checkpoint_id)


def config_of(thread_id: str, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
    """Return a config with exactly thread_id, checkpoint_ns and checkpoint_id."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


def place_of(config: RunnableConfig) -> Place:
    """Return the place that a config names.

    Raises:
        InvalidConfigError: `thread_id` is missing, or an id is no text or too long.
    """
    configurable = _configurable(config)
    if "thread_id" not in configurable:
        raise InvalidConfigError("thread_id", reason="missing in config['configurable']")
    return Place(
        thread_id_of(configurable["thread_id"]),
        text_of("checkpoint_ns", configurable.get("checkpoint_ns") or "", MAX_NAMESPACE_BYTES),
        checkpoint_id_of(configurable.get("checkpoint_id")),
    )


def checkpoint_place_of(config: RunnableConfig) -> Place:
    """Return the place of a config that has to name a checkpoint."""
    place = place_of(config)
    if place.checkpoint_id is None:
        raise InvalidConfigError("checkpoint_id", reason="missing: writes belong to a checkpoint")
    return place


def checkpoint_id_of(value: object) -> str | None:
    """Return a checkpoint id; None when there is none. The empty text counts as none.

    Raises:
        InvalidConfigError: It is no text, too long, or holds a NUL, which would change its order.
    """
    if value is None or value == "":
        return None
    checkpoint_id = text_of("checkpoint_id", value, MAX_CHECKPOINT_ID_BYTES)
    if "\0" in checkpoint_id:
        raise InvalidConfigError("checkpoint_id", reason="holds a NUL character")
    return checkpoint_id


def thread_id_of(value: object) -> str:
    """Return a thread id as text; integers and UUIDs are taken by their text."""
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        value = str(value)
    return text_of("thread_id", value, MAX_THREAD_ID_BYTES)


def text_of(key: str, value: object, limit: int) -> str:
    """Return a text that fits into `limit` bytes of UTF-8."""
    if type(value) is str and len(value) <= limit and value.isascii():
        return value
    if not isinstance(value, str):
        raise InvalidConfigError(key, reason=f"expected text, got {type(value).__name__}")
    value = str(value)
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidConfigError(key, reason=f"not encodable as UTF-8: {error}") from error
    if size > limit:
        raise InvalidConfigError(key, reason=f"takes {size} bytes of UTF-8, the limit is {limit}")
    return value


def read_level_of(config: RunnableConfig | None, default: ReadLevel) -> ReadLevel:
    """Return the read level that a config asks for, else the default."""
    if config is None:
        return default
    value = _configurable(config).get(READ_LEVEL_KEY)
    return default if value is None else ReadLevel.of(value)


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    configurable = config.get("configurable")
    if configurable is None:
        raise InvalidConfigError("configurable", reason="missing in the config")
    return configurable
