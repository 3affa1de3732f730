"""Random calls on a saver: what Hypothesis draws for the parity tests."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeGuard

from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Send

THREADS = range(4)
NAMESPACES = ("", "a", "a|b:1", "ü\0|")
IDS = ("1", "10", "2", "3", "4", "5", "a", "a\1", "aa", "b", "c", "é", "\uffff", "🦜")
"""Checkpoint ids in their order; texts whose order is easily got wrong."""
NEXT_ID = "next"
"""Stands for the smallest id above all that are there, as LangGraph's own ids grow."""
CHANNELS = ("x", "y", "log", "x:1")
RUNS = ("run-1", "run-2")
TASKS = ("zzz", "aaa", "")
PATHS = ("", "~__pregel_pull, a", "~__pregel_pull, b")

NONE: Any = None
VALUES: tuple[Any, ...] = (
    NONE,
    True,
    0,
    1.5,
    "",
    "text",
    b"",
    b"\0\1",
    [],
    {},
    [1, [2, {"k": None}]],
    {"a": {"b": {1, 2}}},
    (1, (2,)),
    datetime(2026, 1, 2, tzinfo=UTC),
    uuid.UUID(int=1),
    HumanMessage("hi", id="1"),
    _DeltaSnapshot(["a", b"\0"]),
    -(2**63),
    2**64 - 1,
)
SPECIAL_WRITES: tuple[tuple[str, Any], ...] = (
    ("__interrupt__", [Interrupt("q", id="i")]),
    ("__resume__", "yes"),
    ("__error__", "boom"),
    ("__scheduled__", 1),
    ("__pregel_tasks", Send("n", {"m": 1})),
)
METADATA: tuple[dict[str, Any], ...] = (
    {},
    {"source": "input", "step": -1, "parents": {}},
    {"source": "loop", "step": 1, "parents": {"": "1"}, "k": True},
    {"step": -2},
    {"k": "true", "n": None, "e": {}, "l": [], "a": {"b": [1, {"c": None}]}},
    {"k": 1, "t": (1, 2), "u": uuid.UUID(int=2), "s": "nul\0byte"},
    {"counters_since_delta_snapshot": {"log": (1, 2)}, "big": 2**63},
)
CONFIGURABLE: tuple[dict[str, Any], ...] = (
    {},
    {"user_id": "u", "n": 3, "__hidden": 1, "obj": object()},
    {"langgraph_node": "never kept", "user_id": "v", "flag": False},
)
FILTERS: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"source": "loop"},
    {"k": True},
    {"k": "true"},
    {"missing": None},
    {"user_id": "u", "n": 3},
    {"t": (1, 2)},
    {"a": {"b": [1, {"c": None}]}},
    {"run_id": "run-1"},
)


@dataclass(frozen=True)
class Change:
    """A new value made of the parent's: a conversation that goes on, say."""

    kind: str
    number: int

    def of(self, value: Any) -> list[Any]:
        """Return the changed value; another conversation where the parent has none."""
        items = value if _is_list(value) else []
        if len(items) < _FEW:
            return [_item(self.number, at) for at in range(_FEW + self.number)]
        few = 1 + self.number % 3
        new = [_item(self.number, 90 + at) for at in range(few)]
        changed: dict[str, list[Any]] = {
            "append": [*items, *new],
            "replace the last": [*items[:-1], *new[:1]],
            "drop the last": items[:-few],
            "trim": [*items[few:], *new[:1]],
            "insert": [*items[:3], *new, *items[3:]],
            "change": [*items[:4], *new[:1], *items[5:]],
            "prepend": [*new, *items],
            "keep": items,
        }
        return changed[self.kind]


_FEW = 6


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _item(number: int, at: int) -> dict[str, Any]:
    return {"n": number, "at": at, "text": f"{number} and {at}, " * (5 + 7 * (at % 3))}


Parent: TypeAlias = str
"""`newest`, `none`, `unknown`, or an id."""


@dataclass(frozen=True)
class Put:
    thread: int
    namespace: str
    checkpoint_id: str
    """Or `NEXT_ID`."""
    parent: Parent
    given: dict[str, Any]
    """New values of channels."""
    emptied: frozenset[str]
    """Channels that get a new version and no value, as delta channels do."""
    run_id: str | None
    metadata: dict[str, Any]
    configurable: dict[str, Any]
    names_root: bool
    """Whether the root namespace is named in the config, or left out."""


@dataclass(frozen=True)
class PutAgain:
    """Put an earlier checkpoint's content under its parent and another id, with no new versions."""

    thread: int
    namespace: str
    source: str
    """The newest one where it is not there."""
    checkpoint_id: str
    """Or `NEXT_ID`."""


@dataclass(frozen=True)
class PutWrites:
    thread: int
    namespace: str
    checkpoint_id: str
    writes: list[tuple[str, Any]]
    task_id: str
    task_path: str


@dataclass(frozen=True)
class Get:
    thread: int
    namespace: str
    checkpoint_id: str | None


@dataclass(frozen=True)
class List:
    thread: int | None
    namespace: str | None
    checkpoint_id: str | None
    filter: dict[str, Any] | None
    before: str | None
    limit: int | None


@dataclass(frozen=True)
class History:
    thread: int
    namespace: str
    checkpoint_id: str | None


@dataclass(frozen=True)
class DeleteThread:
    thread: int


@dataclass(frozen=True)
class DeleteRuns:
    run_ids: list[str]


@dataclass(frozen=True)
class CopyThread:
    source: int
    target: int


@dataclass(frozen=True)
class Prune:
    threads: list[int]
    strategy: str


@dataclass(frozen=True)
class ListThreads:
    filter: dict[str, Any] | None


@dataclass(frozen=True)
class Forget:
    """Nothing that the saver remembers of checkpoints is left."""


@dataclass(frozen=True)
class Discard:
    """The whole view is lost."""


Reading: TypeAlias = Get | List | History | ListThreads
Command: TypeAlias = (
    Put
    | PutAgain
    | PutWrites
    | Get
    | List
    | History
    | DeleteThread
    | DeleteRuns
    | CopyThread
    | Prune
    | ListThreads
    | Forget
    | Discard
)

_thread = st.sampled_from((0,) * 10 + (1,) * 5 + (2, 3))
_namespace = st.sampled_from(NAMESPACES[:1] * 8 + NAMESPACES)
_id = st.sampled_from(IDS)
_value = st.sampled_from(VALUES)
_change = st.builds(
    Change,
    st.sampled_from(
        ("append",) * 6
        + ("replace the last", "drop the last", "trim", "insert", "change", "prepend", "keep")
    ),
    st.integers(0, 9),
)
_write = st.tuples(st.sampled_from(CHANNELS), _value) | st.sampled_from(SPECIAL_WRITES)

_put = st.builds(
    Put,
    _thread,
    _namespace,
    st.sampled_from((NEXT_ID,) * 20 + IDS),
    st.sampled_from(("newest",) * 20 + ("none", "none", "unknown", *IDS[:4])),
    st.dictionaries(st.sampled_from(CHANNELS), _value | _change | _change, max_size=3),
    st.frozensets(st.sampled_from(CHANNELS), max_size=2),
    st.none() | st.sampled_from(RUNS),
    st.sampled_from(METADATA),
    st.sampled_from(CONFIGURABLE),
    st.booleans(),
)
_put_again = st.builds(PutAgain, _thread, _namespace, _id, st.sampled_from((NEXT_ID,) * 20 + IDS))
_put_writes = st.builds(
    PutWrites,
    _thread,
    _namespace,
    _id,
    st.lists(_write, max_size=4),
    st.sampled_from(TASKS),
    st.sampled_from(PATHS),
)
_get = st.builds(Get, _thread, _namespace, st.none() | _id)
_list = st.builds(
    List,
    st.none() | _thread,
    st.none() | _namespace,
    st.none() | _id,
    st.sampled_from(FILTERS),
    st.none() | _id,
    st.none() | st.integers(-1, 4),
)
_history = st.builds(History, _thread, _namespace, st.none() | _id)
_list_threads = st.builds(ListThreads, st.sampled_from(FILTERS))
_delete_thread = st.builds(DeleteThread, _thread)
_delete_runs = st.builds(DeleteRuns, st.lists(st.sampled_from(RUNS), max_size=1))
_copy_thread = st.builds(CopyThread, _thread, st.sampled_from((2, 3, 2, 3, 2, 3, 1, 0)))
_prune = st.builds(
    Prune,
    st.lists(_thread, min_size=1, max_size=2),
    st.sampled_from(("keep_latest",) * 7 + ("delete",)),
)

# How often each is drawn.
_WEIGHTS: tuple[tuple[int, st.SearchStrategy[Any]], ...] = (
    (50, _put),
    (4, _put_again),
    (16, _put_writes),
    (5, _get),
    (5, _list),
    (4, _history),
    (2, _list_threads),
    (2, _delete_thread),
    (3, _delete_runs),
    (5, _copy_thread),
    (4, _prune),
    (2, st.just(Forget())),
    (1, st.just(Discard())),
)
_command: st.SearchStrategy[Command] = st.sampled_from(
    [strategy for weight, strategy in _WEIGHTS for _ in range(weight)]
).flatmap(lambda strategy: strategy)


def _joined(parts: list[list[Command]]) -> list[Command]:
    return [command for part in parts for command in part]


# Lists of lists are long more often than lists are, and shrink as well.
commands: st.SearchStrategy[list[Command]] = st.lists(
    st.lists(_command, min_size=4, max_size=15), min_size=1, max_size=10
).map(_joined)
