"""How the commands show things: a table, progress bars, JSON for machines."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from .metrics import PartitionLag, PartitionStatus, RestoreProgress, WorkerStatus


def lag_as_dict(lag: PartitionLag, problem: str | None) -> dict[str, Any]:
    """Return what `status --json` says of one partition."""
    progress = lag.progress
    return {
        "partition": lag.partition,
        "end": lag.end,
        "next": lag.next_offset,
        "lag": lag.lag,
        "generation": None if progress is None else progress.generation.hex(),
        "fold_version": None if progress is None else progress.fold_version,
        "problem": problem,
    }


def lag_table(title: str, lags: Sequence[tuple[PartitionLag, str | None]]) -> Table:
    """Return what `status` shows to people."""
    table = Table(title=title, title_justify="left")
    for name in ("partition", "log's end", "view's next", "lag"):
        table.add_column(name, justify="right")
    table.add_column("problem")
    for lag, problem in lags:
        numbers = (lag.partition, lag.end, lag.next_offset, lag.lag)
        table.add_row(*(f"{number:,}" for number in numbers), problem or "")
    return table


def restored_as_dict(progress: RestoreProgress) -> dict[str, Any]:
    """Return what `rebuild --json` says of one partition."""
    return {
        "partition": progress.partition,
        "next": progress.next_offset,
        "seconds": round(progress.seconds, 3),
        "rate": round(progress.rate, 1),
    }


def worker_as_dict(status: WorkerStatus) -> dict[str, Any]:
    """Return what `run --json` says now and then."""
    return {
        "state": status.state.value,
        "applied": status.applied,
        "rate": round(status.rate, 1),
        "error": status.error,
        "partitions": [_held_as_dict(each) for each in status.partitions],
    }


def _held_as_dict(status: PartitionStatus) -> dict[str, Any]:
    return {
        "partition": status.partition,
        "state": status.state.value,
        "next": status.next_offset,
        "lag": status.lag,
        "error": status.error,
    }


def worker_line(status: WorkerStatus) -> str:
    """Return what `run` logs now and then."""
    states = [each.state.value for each in status.partitions]
    counts = ", ".join(f"{states.count(name)} {name}" for name in sorted(set(states)))
    lag = sum(each.lag or 0 for each in status.partitions)
    return (
        f"partitions: {counts or 'none'}; lag {lag:,}; "
        f"{status.applied:,} offsets passed, {status.rate:,.0f}/s"
    )


class RestoreBars:
    """A progress bar per partition that is being restored; shows nothing where nobody looks."""

    def __init__(self, console: Console, *, is_shown: bool) -> None:
        self._progress = Progress(
            TextColumn("partition {task.fields[partition]}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
            console=console,
            disable=not (is_shown and console.is_terminal),
        )
        self._tasks: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, restored: RestoreProgress) -> None:
        """Draw one partition's bar."""
        task = self._tasks.get(restored.partition)
        if task is None:
            task = self._tasks[restored.partition] = self._progress.add_task(
                "restore", total=1, partition=restored.partition, rate=0.0
            )
        self._progress.update(
            task,
            completed=min(restored.next_offset, restored.target),
            total=restored.target,
            rate=restored.rate,
        )

    def keep_only(self, partitions: set[int]) -> None:
        """Remove the bars of all other partitions."""
        for number in [number for number in self._tasks if number not in partitions]:
            self._progress.remove_task(self._tasks.pop(number))
