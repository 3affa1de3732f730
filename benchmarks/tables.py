"""The tables of the benchmarks that have more to say than one line per saver."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.table import Column, Table

from .chat import EARLY, LATE_TURNS, Results
from .graphs import Kind
from .savers import POSTGRES
from .sizes import SMALL_THREADS, Large, Small

_MEGA = 1_000_000


def chat_table(kind: Kind, turns: int, found: Results) -> Table:
    """Return the table of one kind of chat."""
    early, late = found.reference
    table = Table(
        Column("saver", no_wrap=True),
        "log MB",
        "view MB",
        "both MB",
        "turn 30 ms (x)",
        f"turn {turns} ms (x)",
        "behind ms",
        title=kind.description,
        caption=(
            f"The messages alone are {found.messages / _MEGA:.2f} MB, what LangGraph hands over "
            f"{found.handed_over / _MEGA:.1f} MB. ms: medians of turns {EARLY[0]} to {EARLY[-1]} "
            f"and of the last {LATE_TURNS}, without InMemorySaver's {early:.1f} and {late:.1f}; "
            f"x: to Postgres; behind: from the answer until the view has the turn."
        ),
    )
    reference = next(each for each in found.savers if each.saver == POSTGRES)
    for each in found.savers:
        stored = each.stored
        table.add_row(
            each.saver,
            megabytes(stored.log),
            megabytes(stored.view),
            megabytes(stored.whole),
            f"{each.early:.1f} ({each.early / reference.early:.2f})",
            f"{each.late:.1f} ({each.late / reference.late:.2f})",
            "" if each.stored.log is None else f"{each.behind:.1f}",
        )
    return table


def large_table(found: Sequence[Large]) -> Table:
    """Return the table of the large state's puts and gets."""
    table = Table(
        Column("saver", no_wrap=True),
        "put s (x)",
        "get at once s (x)",
        "get s (x)",
        "peak MB put",
        "peak MB get",
        caption=(
            "Medians; x: to Postgres. get at once: right after the put, so the view may have to "
            "catch up first. peak: of resident memory in a process of its own, above what it was "
            "with the state in it; put until the view has it, get with what it returns."
        ),
    )
    reference = next(each for each in found if each.saver == POSTGRES)
    for each in found:
        if each.refusal is not None:
            table.add_row(each.saver, each.refusal.partition(":")[0])
            continue
        table.add_row(
            each.saver,
            _compared(each.puts, reference.puts),
            _compared(each.first_gets, reference.first_gets),
            _compared(each.gets, reference.gets),
            "" if each.peak is None else f"{each.peak.put / _MEGA:.0f}",
            "" if each.peak is None else f"{each.peak.get / _MEGA:.0f}",
        )
    return table


def small_table(found: Sequence[Small]) -> Table:
    """Return the table of the small puts."""
    table = Table(
        Column("saver", no_wrap=True),
        "large puts meanwhile",
        "small puts",
        "p50 ms",
        "p99 ms",
        "longest ms",
        "longest stall ms",
        title=f"Small puts of {SMALL_THREADS} other threads at once",
        caption="stall: between two turns of the event loop that all of them run on",
    )
    for each in found:
        table.add_row(
            each.saver,
            f"{each.large or 'none'}",
            f"{each.count:,}",
            f"{each.p50:.1f}",
            f"{each.p99:.1f}",
            f"{each.longest:.1f}",
            f"{each.stall:.1f}",
        )
    return table


def _compared(durations: Sequence[float], reference: Sequence[float]) -> str:
    found = f"{median(durations):.3f}"
    return f"{found} ({median(durations) / median(reference):.2f})" if reference else found


def megabytes(size: int | None) -> str:
    """Return a size in millions of bytes."""
    return "" if size is None else f"{size / _MEGA:.2f}"
