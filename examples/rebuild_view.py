"""The log is the truth; the view may be thrown away, and is made anew from the log.

Run it: python examples/rebuild_view.py
"""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

import subprocess
import sys
import tempfile
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph

from langgraph.checkpoint.kafka import KafkaSaver


class Count(TypedDict):
    """Numbers so far."""

    numbers: Annotated[list[int], add]


def extend(state: Count) -> Count:
    """Add the next number."""
    return {"numbers": [len(state["numbers"])]}


def graph(saver: KafkaSaver) -> Any:
    """Return the graph, its state kept by `saver`."""
    return StateGraph(Count).add_node(extend).add_edge(START, "extend").compile(checkpointer=saver)


CONFIG: RunnableConfig = {"configurable": {"thread_id": "count"}}


def main(url: str) -> None:
    """Write a history, rebuild the view, read the same history."""
    with KafkaSaver.from_conn_string(url) as saver:
        for _ in range(3):
            graph(saver).invoke({"numbers": []}, CONFIG)
        before = list(graph(saver).get_state_history(CONFIG))

    command = Path(sys.executable).with_name("langgraph-kafka")
    subprocess.run([command, "projector", "rebuild", "--url", url], check=True)  # noqa: S603 - our own command

    with KafkaSaver.from_conn_string(url) as saver:
        after = list(graph(saver).get_state_history(CONFIG))
        print(f"{len(before)} states before, the same after: {after == before}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(f"sqlite:///{Path(folder) / 'count.db'}")
