"""A node asks a person and waits without a process: `interrupt`, then `Command(resume=…)`.

Run it: python examples/human_in_the_loop.py
"""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

import tempfile
from pathlib import Path
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from langgraph.checkpoint.kafka import KafkaSaver


class Order(TypedDict):
    """What is bought, and what became of it."""

    item: str
    outcome: str


def buy(state: Order) -> dict[str, str]:
    """Ask first. On resuming, the node starts from its first line, and `interrupt` returns."""
    answer = interrupt({"question": f"Buy {state['item']}?", "choices": ["yes", "no"]})
    return {"outcome": "bought" if answer == "yes" else "cancelled"}


def graph(saver: KafkaSaver) -> Any:
    """Return the graph, its state kept by `saver`."""
    return StateGraph(Order).add_node(buy).add_edge(START, "buy").compile(checkpointer=saver)


def main(url: str) -> None:
    """Begin an order, forget everything, come back with the answer."""
    config: RunnableConfig = {"configurable": {"thread_id": "order-1"}}

    with KafkaSaver.from_conn_string(url) as saver:
        begun = graph(saver).invoke({"item": "a bicycle"}, config)
        print("waiting:", begun["__interrupt__"][0].value["question"])

    # Days later, in another process: all that is needed is the thread's id.
    with KafkaSaver.from_conn_string(url) as saver:
        print("still waiting at:", graph(saver).get_state(config).next)
        done = graph(saver).invoke(Command(resume="yes"), config)
        print("outcome:", done["outcome"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(f"sqlite:///{Path(folder) / 'orders.db'}")
