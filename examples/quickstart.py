"""An agent whose state is a log of events: it remembers, pauses, survives SIGKILL and forks.

    python -m examples.quickstart              one SQLite file, no server       (make demo)
    python -m examples.quickstart --kafka      Kafka, Redis, projector service  (make demo-kafka)
    python -m examples.quickstart URL          a log of yours that does not know the demo's threads

All of it is ordinary LangGraph; only `Demo.saver` knows where the state lives. Ends with a status
other than 0 when anything is not as it should be.
"""

# pyright: reportUnknownMemberType=false
# LangGraph's builder has types that a strict checker cannot follow.

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from eventstore.events import CheckpointSaved, WritesSaved
from examples.stage import (
    URL_VARIABLE,
    check,
    console,
    events_of,
    own_servers,
    process,
    projector_command,
    say,
    table,
    title,
    until,
)
from langgraph.checkpoint.kafka import AsyncKafkaSaver, ProjectorConfig

# --- the agent: two messages in and out of a model, tools between, one of which asks a person ----


@tool
def find_owner(service: str) -> str:
    """Tell which team owns a service."""
    return f"The payments team owns {service}."


@tool
def find_window(service: str) -> str:
    """Tell when a service may be changed."""
    return f"Changes to {service}: Tuesdays from 09:00 to 11:00."


@tool
def restart(service: str) -> str:
    """Restart a service, once a person has agreed."""
    answer = interrupt(f"Restart {service}?")
    return f"I {'restarted' if answer == 'yes' else 'did not restart'} {service}."


class ScriptedModel(BaseChatModel):
    """Chooses a tool by the question's words. A real model goes here, with `bind_tools`."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply_to(messages))])

    def _reply_to(self, messages: Sequence[BaseMessage]) -> AIMessage:
        question = messages[-1]
        if isinstance(question, ToolMessage):
            return AIMessage(question.text)
        # What "it" means stands in the messages before, or nowhere.
        if not any("checkout" in message.text for message in messages):
            return AIMessage("Which service do you mean?")
        names = {"owns": "find_owner", "window": "find_window", "restart": "restart"}
        name = next(name for word, name in names.items() if word in question.text.lower())
        call = {"name": name, "args": {"service": "checkout"}, "id": f"call-{len(messages)}"}
        return AIMessage("", tool_calls=[call])


def agent(saver: AsyncKafkaSaver) -> Any:
    """Return the agent, its state kept by `saver`."""
    model = ScriptedModel()

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", think)
    builder.add_node("tools", ToolNode([find_owner, find_window, restart]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


# --- the release: two nodes side by side, and one that waits for both -----------------------------


class Release(TypedDict):
    """What is done so far."""

    done: Annotated[list[str], add]


def release(saver: AsyncKafkaSaver, folder: Path, *, is_stuck: bool = False) -> Any:
    """Return a graph whose nodes leave a line in a file of their name each time they run."""

    def ran(name: str) -> dict[str, Any]:
        with (folder / name).open("a") as file:
            file.write("ran\n")
        return {"done": [name]}

    def back_up(state: Release) -> dict[str, Any]:
        return ran("back_up")

    async def deploy(state: Release) -> dict[str, Any]:
        update = ran("deploy")
        if is_stuck:
            await asyncio.Event().wait()
        return update

    def announce(state: Release) -> dict[str, Any]:
        return ran("announce")

    builder = StateGraph(Release)
    builder.add_node("back_up", back_up)
    builder.add_node("deploy", deploy)
    builder.add_node("announce", announce)
    builder.add_edge(START, "back_up")
    builder.add_edge(START, "deploy")
    builder.add_edge(["back_up", "deploy"], "announce")
    return builder.compile(checkpointer=saver)


# --- the demo -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the state lives, and a folder for everything else."""

    url: str
    folder: Path
    projector: ProjectorConfig | None
    """The projector inside this process; None when it is a service of its own."""

    def saver(self) -> AbstractAsyncContextManager[AsyncKafkaSaver]:
        """Open the checkpointer. Each act does, so whatever it knows comes from the log."""
        return AsyncKafkaSaver.from_conn_string(self.url, projector=self.projector)

    def release(self, *options: str) -> list[str | Path]:
        """Return the command of a process that begins the release, or goes on with it."""
        return [sys.executable, "-m", "examples.quickstart", "--release", self.folder, *options]


async def remember(demo: Demo) -> None:
    """Ask two questions on one thread, and the second one on another thread too."""
    second = "What is the change window for it?"
    async with demo.saver() as saver:
        await ask(agent(saver), "ops", "Who owns the checkout service?")
    async with demo.saver() as saver:
        answer = await ask(agent(saver), "ops", second)
        stranger = await ask(agent(saver), "someone-else", second)
        history = [each async for each in saver.alist(thread("ops"))]
        check(answer == find_window.invoke({"service": "checkout"}), "thread ops knows what it is")
        check(stranger == "Which service do you mean?", "thread someone-else does not")
        check(len(history) == 2 * 5, "two questions left ten checkpoints")


async def pause(demo: Demo) -> None:
    """Let a tool ask a person, go away, and come back with the answer."""
    async with demo.saver() as saver:
        asked = await ask(agent(saver), "ops", "Then restart it, please.")
        check(asked == "Restart checkout?", "the agent waits for a person, without a process")
    async with demo.saver() as saver:
        answer = await resume(agent(saver), "ops", "yes")
        check(
            answer == "I restarted checkout.", "the answer, given later, reached the waiting tool"
        )


async def kill(demo: Demo) -> None:
    """Kill a process between two nodes of one step, and let another one finish the step."""
    async with demo.saver() as saver:
        async with process(demo.url, *demo.release("--stuck")) as first:
            await until("the writes of back_up are in the log", lambda: has_backed_up(saver))
            await until("deploy is running", lambda: runs_of(demo, "deploy") == 1)
            first.kill()
            say(f"back_up has finished, deploy is half-way: SIGKILL ({await first.wait()})")
        stopped = await release(saver, demo.folder).aget_state(thread("release"))
        check(stopped.next == ("deploy",), "what is left of the step is deploy")
        async with process(demo.url, *demo.release()) as second:
            check(await second.wait() == 0, "a new process went on to the end")
        runs = {name: runs_of(demo, name) for name in ("back_up", "deploy", "announce")}
        say("runs: " + ", ".join(f"{name} {count}" for name, count in runs.items()))
        check(list(runs.values()) == [1, 2, 1], "what had finished did not run again")


async def travel(demo: Demo) -> None:
    """Go back to the pause and answer differently; both ways stay in the history."""
    async with demo.saver() as saver:
        graph = agent(saver)
        history = [each async for each in graph.aget_state_history(thread("ops"))]
        first_end, paused = history[0], next(each for each in history if each.interrupts)
        say(f"back to step {paused.metadata['step']}, before {paused.next[0]}")
        await graph.ainvoke(None, paused.config)
        answer = await resume(graph, "ops", "no")
        check(answer == "I did not restart checkout.", "the fork took the other way")
        kept = await graph.aget_state(first_end.config)
        check(
            kept.values["messages"][-1].text == "I restarted checkout.",
            "the first way is untouched",
        )


async def list_threads(demo: Demo) -> None:
    """Show every thread, latest activity first."""
    rows = table("thread", "checkpoints", "step", "source")
    async with demo.saver() as saver:
        page = await saver.athreads()
    for each in page.threads:
        step, source = each.metadata.get("step"), each.metadata.get("source")
        rows.add_row(each.thread_id, str(each.checkpoints), str(step), source)
    console.print(rows)
    found = [each.thread_id for each in page.threads]
    check(found == ["ops", "release", "someone-else"], "three threads, no state was read for it")


async def print_events(demo: Demo) -> None:
    """Print what the log holds of the thread that was killed."""
    rows = table("offset", "event", "id", "step", "channels")
    types: list[str] = []
    async for type_name, recorded in events_of(demo.url, "release"):
        types.append(type_name)
        match recorded.event:
            case CheckpointSaved() as saved:
                step, channels = str(saved.metadata.get("step")), sorted(saved.channels)
            case WritesSaved() as saved:
                step, channels = "", sorted(write.channel for write in saved.writes)
            case _:
                step, channels = "", []
        name = recorded.event_id.hex()[:8]
        rows.add_row(str(recorded.offset), type_name, name, step, " ".join(channels))
    console.print(rows)
    check(
        types.count("checkpoint.saved") == 2 + 2, "one event per checkpoint, one per task's writes"
    )


async def see_projector_off(demo: Demo, service: Process) -> None:
    """Let the projector service catch up, and ask it to stop."""
    async with demo.saver() as saver:

        async def is_caught_up() -> bool:
            return not any((await saver.alag()).values())

        await until("the view is at the end of the log", is_caught_up)
        check(
            service.returncode is None, "the projector service has kept the view at the log's end"
        )
    service.terminate()
    check(await service.wait() == 0, "told to stop, it finished its work and left")


# --- what the acts are made of --------------------------------------------------------------------


def thread(thread_id: str) -> RunnableConfig:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread_id}}


async def ask(graph: Any, thread_id: str, question: str) -> str:
    """Ask the agent something; return its answer, or what it asks back while it waits."""
    say(f"[bold]{thread_id:>12}[/]  {question}")
    result = await graph.ainvoke({"messages": [HumanMessage(question)]}, thread(thread_id))
    return told(result)


async def resume(graph: Any, thread_id: str, answer: str) -> str:
    """Answer the question that the agent waits for."""
    say(f"[bold]{thread_id:>12}[/]  {answer}")
    return told(await graph.ainvoke(Command(resume=answer), thread(thread_id)))


def told(result: dict[str, Any]) -> str:
    """Return what a run ended with."""
    waiting = result.get("__interrupt__")
    text: str = waiting[0].value if waiting else result["messages"][-1].text
    say(f"[cyan]{'person?' if waiting else 'agent':>12}[/]  {text}")
    return text


async def has_backed_up(saver: AsyncKafkaSaver) -> bool:
    """Tell whether the writes of the finished node are stored."""
    stored = await saver.aget_tuple(thread("release"))
    return stored is not None and any(
        channel == "done" and value == ["back_up"]
        for _, channel, value in stored.pending_writes or ()
    )


def runs_of(demo: Demo, node: str) -> int:
    """Return how often a node of the release ran, over all processes."""
    file = demo.folder / node
    return len(file.read_text().splitlines()) if file.exists() else 0


ACTS = {
    "It answers, and remembers": remember,
    "It pauses for a person": pause,
    "It is killed, and goes on where it was": kill,
    "It goes back in time, and takes another way": travel,
    "Its threads": list_threads,
    "One thread's events, from the log": print_events,
}


async def run(demo: Demo) -> None:
    """Play all acts."""
    place = "on Kafka and Redis" if demo.projector is None else "in one SQLite file"
    console.print(f"[bold]An agent's state as a log of events, {place}[/]")
    async with demo.saver() as saver:
        is_new = await saver.aget_tuple(thread("ops")) is None
        check(is_new, "the log is there, and does not know the demo's threads yet")
    for number, (text, act) in enumerate(ACTS.items(), 1):
        title(number, text)
        await act(demo)


async def run_with_service(demo: Demo) -> None:
    """Play all acts while a projector runs as a service of its own."""
    async with process(demo.url, *projector_command()) as service:
        await run(demo)
        title(len(ACTS) + 1, "The projector service")
        await see_projector_off(demo, service)


async def run_release(folder: Path, *, is_stuck: bool) -> None:
    """Be the process of the third act: begin the release, or go on with it."""
    async with AsyncKafkaSaver.from_conn_string(os.environ[URL_VARIABLE]) as saver:
        graph = release(saver, folder, is_stuck=is_stuck)
        begun = await saver.aget_tuple(thread("release")) is not None
        work: Release | None = None if begun else {"done": []}
        await graph.ainvoke(work, thread("release"), durability="sync")


def main() -> None:
    """Choose where the state lives, and play."""
    parser = argparse.ArgumentParser(description="Watch an agent pause, get killed and go on.")
    parser.add_argument("url", nargs="?", help="sqlite:///… or kafka://…")
    parser.add_argument("--kafka", action="store_true", help="start a Kafka and a Redis for it")
    parser.add_argument("--release", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stuck", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.release:
        asyncio.run(run_release(options.release, is_stuck=options.stuck))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = options.url or f"sqlite:///{folder / 'demo.db'}"
        if options.kafka:
            url = stack.enter_context(own_servers())
        if url.startswith("kafka:"):
            asyncio.run(run_with_service(Demo(url, folder, projector=None)))
        else:
            asyncio.run(run(Demo(url, folder, projector=ProjectorConfig())))
    console.print("\nAll of it as it should be.")


if __name__ == "__main__":
    main()
