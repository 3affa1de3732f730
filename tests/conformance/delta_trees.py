"""Random trees of checkpoints with delta channels: what Hypothesis draws for the walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st
from langgraph.checkpoint.serde.types import _DeltaSnapshot

CHANNELS: Final = ("a", "b", "c:1")
RUNS: Final = ("run-1", "run-2")

NO_VALUE: Final = "(no value)"
"""A channel that got a new version and no value, as a delta channel does between snapshots."""

NONE: Any = None
SEEDS: tuple[Any, ...] = (
    *(NONE, 0, False, "", b"", [], {}, (), "abc", 1.5, [10]),
    *(_DeltaSnapshot([]), _DeltaSnapshot(None), _DeltaSnapshot(["a", b"\0"])),
    _DeltaSnapshot({"k": [1, None]}),
)

LATE: Final = "late"
"""A parent that is put after all others, under this id."""
MISSING: Final = "missing"
"""A parent that is never put."""
ROOT: Final = "root"

Parent: TypeAlias = int | str
"""How many checkpoints before, or one of the three."""
Task: TypeAlias = tuple[str, str, list[tuple[str, Any]]]
"""(task id, task path, writes)."""


@dataclass(frozen=True)
class Node:
    """One checkpoint, and the tasks that wrote on it."""

    parent: Parent
    changed: dict[str, Any]
    """New values of channels, or `NO_VALUE`; the others are inherited."""
    gives_inherited: bool
    """Whether the values of the others are given again, as ordinary channels' are."""
    tasks: list[Task]
    is_written_first: bool
    """Whether the tasks' writes are saved before the checkpoint."""
    run_id: str


@dataclass(frozen=True)
class Tree:
    """Checkpoints of one namespace in the order of their puts."""

    nodes: list[Node]
    late: Node
    ids: list[str]
    """Of `nodes`, in no order."""
    namespace: str
    shares_versions: bool
    """Whether forks give different values the same version, as LangGraph's integers do."""
    removal: str
    """What is called at the end: `prune`, `delete_for_runs`, or nothing."""


_change = st.sampled_from((NO_VALUE,) * len(SEEDS) + SEEDS)
_write = st.tuples(st.sampled_from((*CHANNELS, "other")), st.sampled_from(SEEDS))
_task = st.tuples(
    st.sampled_from(("zzz", "aaa", "mmm")),
    st.sampled_from(("", "~__pregel_pull, a", "~__pregel_pull, b")),
    st.lists(_write, min_size=1, max_size=3),
)
_parent: st.SearchStrategy[Parent] = st.sampled_from((*[1] * 12, *[2, 3, 4] * 2, ROOT, LATE))
_node = st.builds(
    Node,
    _parent | st.sampled_from((1, 1, 1, MISSING)),
    st.dictionaries(st.sampled_from(CHANNELS), _change, max_size=3),
    st.booleans(),
    st.lists(_task, max_size=2),
    st.booleans(),
    st.sampled_from(RUNS),
)


def _tree(nodes: list[Node]) -> st.SearchStrategy[Tree]:
    numbers = range(len(nodes))
    return st.builds(
        Tree,
        st.just(nodes),
        _node,
        st.permutations([f"{number:02}" for number in numbers]),
        st.sampled_from(("", "child", "a|b:1")),
        st.booleans(),
        st.sampled_from(("", "prune", "delete_for_runs")),
    )


trees: st.SearchStrategy[Tree] = st.lists(_node, min_size=3, max_size=14).flatmap(_tree)
