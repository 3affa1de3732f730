"""Every step stays: look at the history, change a past state, go on from there.

Run it: python examples/time_travel.py
"""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

import asyncio
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph

from langgraph.checkpoint.kafka import AsyncKafkaSaver


class Joke(TypedDict):
    """A topic, and what was made of it."""

    topic: str
    text: str


async def choose(state: Joke) -> dict[str, str]:
    """Choose a topic."""
    return {"topic": "socks"}


async def write(state: Joke) -> dict[str, str]:
    """Write about it."""
    return {"text": f"Why do {state['topic']} vanish?"}


def graph(saver: AsyncKafkaSaver) -> Any:
    """Return the graph, its state kept by `saver`."""
    builder = StateGraph(Joke).add_sequence([choose, write]).add_edge(START, "choose")
    return builder.compile(checkpointer=saver)


async def main() -> None:
    """Run once, go back to before `write`, change the topic, run again from there."""
    config: RunnableConfig = {"configurable": {"thread_id": "joke"}}
    async with AsyncKafkaSaver.from_conn_string("sqlite:///:memory:") as saver:
        app = graph(saver)
        print("first:", (await app.ainvoke({}, config))["text"])
        history = [each async for each in app.aget_state_history(config)]
        chosen = next(each for each in history if each.next == ("write",))
        changed = await app.aupdate_state(chosen.config, {"topic": "ideas"})
        print("fork:", (await app.ainvoke(None, changed))["text"])
        print("still there:", (await app.aget_state(history[0].config)).values["text"])
        print("steps kept:", len([each async for each in app.aget_state_history(config)]))


if __name__ == "__main__":
    asyncio.run(main())
