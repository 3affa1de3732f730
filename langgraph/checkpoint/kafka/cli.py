"""The command `langgraph-kafka`: only assembles the packages' own groups."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from projector.cli import make_app
from saver.wiring import open_parts

app = typer.Typer(
    name="langgraph-kafka",
    no_args_is_help=True,
    help="Operate LangGraph checkpoints on Kafka.",
)
app.add_typer(make_app(open_parts), name="projector")


@app.callback()
def langgraph_kafka() -> None:
    """Keep the command a group, however few groups it has."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments, those of the process by default."""
    app(args=arguments)
