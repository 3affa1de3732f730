"""`python -m benchmarks`: run them and print their tables."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from . import chat as chats
from . import reads, supersteps
from . import sizes as larges
from .graphs import KINDS
from .machine import description
from .messages import RANDOM, WORDS, script_of
from .savers import ALL, KAFKA_INSIDE, POSTGRES, SQLITE
from .states import BYTES
from .tables import chat_table, large_table, small_table

T = TypeVar("T")

app = typer.Typer(help=__doc__, no_args_is_help=False)
console = Console(width=110)

Uvloop = Annotated[bool, typer.Option("--uvloop", help="Run on uvloop, not asyncio's own loop.")]


@app.callback(invoke_without_command=True)
def everything(context: typer.Context) -> None:
    """Run all of them with their defaults."""
    if context.invoked_subcommand is None:
        throughput()
        latency()
        chat()
        sizes()


@app.command()
def throughput(
    threads: int = 128, seconds: float = 10.0, warm_up: float = 3.0, *, uvloop: Uvloop = False
) -> None:
    """Super-steps per second at many threads: two tasks' writes at once, then a checkpoint."""
    table = Table("saver", "super-steps/s", "x Postgres", "p50 ms", "p99 ms", "lag at the end")
    reference = 0.0
    for name in ALL:
        found = _run(
            supersteps.measure(name, threads=threads, seconds=seconds, warm_up=warm_up),
            uvloop=uvloop,
        )
        if name == POSTGRES:
            reference = found.steps_per_second
        table.add_row(
            name,
            f"{found.steps_per_second:,.0f}",
            f"{found.steps_per_second / reference:.1f}",
            f"{found.p50:.1f}",
            f"{found.p99:.1f}",
            "" if found.lag is None else f"{found.lag:,}",
        )
    console.print(description(loop="uvloop" if uvloop else "asyncio"))
    console.print(f"{threads} threads at once, {seconds:g} s after {warm_up:g} s of warming up")
    console.print(table)


@app.command()
def latency(checkpoints: str = "10,100000", repeats: int = 500, *, uvloop: Uvloop = False) -> None:
    """Latencies of reads, with few and with many checkpoints in the view."""
    sizes = [int(size) for size in checkpoints.split(",")]
    table = Table("saver", "checkpoints", "read", "p50 ms", "p99 ms")
    for name in (KAFKA_INSIDE, SQLITE, POSTGRES):
        for found in _run(reads.measure(name, checkpoints=sizes, repeats=repeats), uvloop=uvloop):
            table.add_row(
                found.saver,
                f"{found.checkpoints:,}",
                found.read,
                f"{found.p50:.2f}",
                f"{found.p99:.2f}",
            )
    console.print(description(loop="uvloop" if uvloop else "asyncio"))
    console.print(table)


@app.command()
def chat(
    turns: int = 300,
    repeats: int = 1,
    message_bytes: int = 600,
    kinds: str = ",".join(KINDS),
    *,
    random: Annotated[bool, typer.Option("--random", help="Base64 text, not words.")] = False,
    uvloop: Uvloop = False,
) -> None:
    """Bytes stored and time per turn of a long chat through a graph, on one thread."""
    text = RANDOM if random else WORDS
    script = script_of(turns, size=message_bytes, kind=text)
    console.print(description(loop="uvloop" if uvloop else "asyncio"))
    console.print(
        f"{turns} turns, {repeats} times; messages of {message_bytes} bytes each, text: {text} "
        f"(zlib leaves {script.compressed:.0%} of a message); langgraph {version('langgraph')}"
    )
    for name in kinds.split(","):
        kind = KINDS[name]
        found = _run(chats.measure(kind, script, repeats=repeats), uvloop=uvloop)
        console.print(chat_table(kind, turns, found))


@app.command()
def sizes(
    megabytes: float = 50.0,
    state: str = BYTES,
    repeats: int = 3,
    seconds: float = 5.0,
    *,
    uvloop: Uvloop = False,
) -> None:
    """Put and get of one large state (bytes, text or list), and small puts beside it."""
    size = round(megabytes * 1_000_000)
    stall = larges.serialization(size=size, kind=state, repeats=repeats)
    large = _run(larges.large(size=size, kind=state, repeats=repeats), uvloop=uvloop)
    small = _run(
        larges.small(size=size, kind=state, seconds=seconds, repeats=repeats), uvloop=uvloop
    )
    console.print(description(loop="uvloop" if uvloop else "asyncio"))
    console.print(
        f"one state of {megabytes:g} MB ({state}), {repeats} times; LangGraph's serializer alone "
        f"takes {stall * 1000:.1f} ms for it"
    )
    console.print(large_table(large))
    for found in large:
        if found.refusal is not None:
            console.print(f"{found.saver} {found.refusal}")
    console.print(small_table(small))


def _run(work: Coroutine[Any, Any, T], *, uvloop: bool) -> T:
    if uvloop:
        import uvloop as fast  # noqa: PLC0415 - an option, not needed otherwise

        return fast.run(work)
    return asyncio.run(work)


if __name__ == "__main__":
    app()
