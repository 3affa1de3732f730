"""A long chat through a real graph, turn by turn on every saver: bytes stored, time per turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from .graphs import Kind
from .machine import settle
from .messages import Script, serialized
from .savers import KAFKA_INSIDE, MEMORY, POSTGRES, SQLITE, caught_up, opened_at, placed
from .stores import Footprint, footprint
from .work import config_of

NAMES = (POSTGRES, KAFKA_INSIDE, SQLITE, MEMORY)

EARLY = range(25, 36)
LATE_TURNS = 10
_WARM_UP_TURNS = 3


class CountingSerializer(JsonPlusSerializer):
    """Counts what LangGraph hands to a saver: values, writes, checkpoints and their metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize, and count."""
        kind, data = super().dumps_typed(obj)
        self.total += len(data)
        return kind, data


@dataclass(slots=True)
class Talk:
    """The chat on one saver."""

    name: str
    saver: BaseCheckpointSaver[Any]
    url: str
    graph: Any
    """A compiled `StateGraph`."""
    config: RunnableConfig = field(default_factory=lambda: config_of("chat"))
    turns: list[float] = field(default_factory=list[float])
    """Seconds of each turn."""
    behind: list[float] = field(default_factory=list[float])
    """Seconds after each turn until the view has it."""
    middle: RunnableConfig | None = None
    """The checkpoint half-way, to be read again at the end."""
    before: Footprint = field(default_factory=Footprint)
    """After warming up."""

    async def turn(self, question: Any) -> None:
        """Ask, and then let the view catch up, so that no other saver's turn pays for it."""
        started = perf_counter()
        await self.graph.ainvoke({"messages": [question]}, self.config)
        answered = perf_counter()
        await caught_up(self.saver)
        self.turns.append(answered - started)
        self.behind.append(perf_counter() - answered)


@dataclass(frozen=True, slots=True)
class Round:
    """One chat on all savers, side by side."""

    turns: Mapping[str, Sequence[float]]
    behind: Mapping[str, Sequence[float]]
    stored: Mapping[str, Footprint]
    handed_over: int
    """Bytes that LangGraph gave InMemorySaver to store, whole states at every change."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one saver did, over all rounds."""

    saver: str
    stored: Footprint
    """After the last round."""
    early: float
    """Milliseconds that a turn around the 30th takes longer than on InMemorySaver."""
    late: float
    """The same for the last turns."""
    behind: float
    """Milliseconds after one of the last turns until the view has it."""


@dataclass(frozen=True, slots=True)
class Results:
    """One kind of chat on all savers."""

    savers: Sequence[Result]
    handed_over: int
    messages: int
    """Bytes of the messages alone, each counted once."""
    reference: tuple[float, float]
    """Milliseconds of a turn on InMemorySaver, around the 30th and at the end."""


async def measure(kind: Kind, script: Script, *, repeats: int) -> Results:
    """Have the chat `repeats` times on fresh stores."""
    rounds = [await _round(kind, script) for _ in range(repeats)]
    count = len(script.questions)
    early = [turn for turn in EARLY if turn <= count] or [count]
    late = list(range(max(count - LATE_TURNS, 0) + 1, count + 1))
    said = [*script.questions, *script.answers, *(script.drafts if kind.has_drafts else ())]
    return Results(
        savers=[
            Result(
                saver=name,
                stored=rounds[-1].stored[name],
                early=_over_memory(rounds, name, early),
                late=_over_memory(rounds, name, late),
                behind=median(r.behind[name][turn - 1] for r in rounds for turn in late) * 1000,
            )
            for name in NAMES
            if name != MEMORY
        ],
        handed_over=rounds[-1].handed_over,
        messages=sum(len(serialized(message)) for message in said),
        reference=(_milliseconds(rounds, early), _milliseconds(rounds, late)),
    )


def _over_memory(rounds: Sequence[Round], name: str, turns: Sequence[int]) -> float:
    return 1000 * median(
        each.turns[name][turn - 1] - each.turns[MEMORY][turn - 1]
        for each in rounds
        for turn in turns
    )


def _milliseconds(rounds: Sequence[Round], turns: Sequence[int]) -> float:
    return 1000 * median(each.turns[MEMORY][turn - 1] for each in rounds for turn in turns)


async def _round(kind: Kind, script: Script) -> Round:
    serializer = CountingSerializer()
    async with AsyncExitStack() as stack:
        talks: list[Talk] = []
        for name in NAMES:
            url = await stack.enter_async_context(placed(name))
            saver = await stack.enter_async_context(opened_at(name, url))
            if name == MEMORY:
                saver.serde = serializer
            graph = kind.build(script).compile(checkpointer=saver)
            talks.append(Talk(name, saver, url, graph))
        await _warm_up(talks, script)
        already = serializer.total
        settle()
        await hold(talks, script)
        handed_over = serializer.total - already
        await verify(talks)
        return Round(
            turns={talk.name: talk.turns for talk in talks},
            behind={talk.name: talk.behind for talk in talks},
            stored={talk.name: await footprint(talk.url) - talk.before for talk in talks},
            handed_over=handed_over,
        )


async def _warm_up(talks: Sequence[Talk], script: Script) -> None:
    other = config_of("warm-up")
    for talk in talks:
        for question in script.questions[:_WARM_UP_TURNS]:
            await talk.graph.ainvoke({"messages": [question]}, other)
        await caught_up(talk.saver)
        talk.before = await footprint(talk.url)


async def hold(talks: Sequence[Talk], script: Script) -> None:
    """Have the chat. Every saver has a turn, then every one the next: noise meets all alike."""
    middle = len(script.questions) // 2
    for number, question in enumerate(script.questions):
        first = number % len(talks)
        for talk in (*talks[first:], *talks[:first]):
            await talk.turn(question)
            if number == middle:
                talk.middle = (await talk.graph.aget_state(talk.config)).config


async def verify(talks: Sequence[Talk]) -> None:
    """Make sure that every saver holds what InMemorySaver does, at the end and half-way.

    Raises:
        AssertionError: One does not, so its figures would mean nothing.
    """
    found = {talk.name: await _states(talk) for talk in talks}
    for name, states in found.items():
        if states != found[MEMORY]:
            raise AssertionError(f"{name} holds another chat than {MEMORY}")


async def _states(talk: Talk) -> list[tuple[Any, ...]]:
    """Return what is stored, read anew."""
    if talk.middle is None:
        raise AssertionError("the chat was not had")
    snapshots = [await talk.graph.aget_state(config) for config in (talk.config, talk.middle)]
    if not all(snapshot.values["messages"] for snapshot in snapshots):
        raise AssertionError(f"{talk.name} holds no messages")
    return [(snapshot.values, snapshot.next, snapshot.metadata) for snapshot in snapshots]
