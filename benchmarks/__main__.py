"""`python -m benchmarks`: run them and print their tables."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from . import reads, supersteps
from .machine import description
from .savers import ALL, KAFKA_INSIDE, POSTGRES, SQLITE

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


def _run(work: Coroutine[Any, Any, T], *, uvloop: bool) -> T:
    if uvloop:
        import uvloop as fast  # noqa: PLC0415 - an option, not needed otherwise

        return fast.run(work)
    return asyncio.run(work)


if __name__ == "__main__":
    app()
