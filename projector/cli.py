"""The commands `projector run | status | rebuild`, without knowing where log and view come from.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 lagging or unhealthy (`status` only).
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Annotated, Any, Final, Protocol, TypeAlias

import typer
from rich.console import Console

from eventstore.errors import EventStoreError, LogIdentityError, LogTruncatedError
from eventstore.log import EventLog

from .applier import Applier
from .config import ProjectorConfig
from .display import (
    RestoreBars,
    lag_as_dict,
    lag_table,
    restored_as_dict,
    worker_as_dict,
    worker_line,
)
from .lease import LeaseBoard
from .metrics import PartitionLag, RestoreProgress, WorkerState, WorkerStatus, measure
from .restore import restore
from .view import ViewWriter
from .worker import Worker

URL_VARIABLE: Final = "LANGGRAPH_KAFKA_URL"

DEFAULT_MAX_LAG: Final = 1_000
"""From how many offsets on `status` calls a partition lagging."""

BAR_INTERVAL: Final = 0.2  # seconds between two looks at what is being restored

logger = logging.getLogger("langgraph_checkpoint_kafka.projector")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the commands work with. `setup` is called by the commands, `close` by who opened it."""

    log: EventLog
    view: ViewWriter
    board: LeaseBoard
    config: ProjectorConfig


class Opener(Protocol):
    """Opens log, view and board for a connection string, and closes them when the block ends.

    Raises `ValueError` for a string that it does not understand; no message may show a secret.
    """

    def __call__(self, url: str, /) -> AbstractAsyncContextManager[Parts]:
        """Open; nothing is set up yet."""
        ...


class ExitCode(IntEnum):
    """What the commands end with."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNHEALTHY = 3


Url: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar=URL_VARIABLE,
        show_envvar=True,
        metavar="URL",
        help="kafka://host:9092,host2:9092/topic?redis=redis://host:6379/0 or sqlite:///path",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def make_app(open_parts: Opener) -> typer.Typer:
    """Return the group `projector`. `open_parts` is called once per command, with `--url`."""
    app = typer.Typer(
        no_args_is_help=True,
        help="Keep the view up to date with the log, look at it, or make it anew. "
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 lagging or unhealthy.",
    )

    @app.command()
    def run(
        url: Url,
        *,
        as_json: Json = False,
        report: Annotated[
            float, typer.Option(min=0.1, help="Seconds between two lines about progress.")
        ] = 10.0,
    ) -> None:
        """Project until told to stop (SIGTERM or SIGINT), then finish the batch in hand."""
        _execute(open_parts, url, _Output(is_json=as_json), partial(_run, report=report))

    @app.command()
    def status(
        url: Url,
        *,
        as_json: Json = False,
        max_lag: Annotated[
            int, typer.Option(min=0, help="How many offsets a view may lack and be healthy.")
        ] = DEFAULT_MAX_LAG,
    ) -> None:
        """Show how far each partition's view is; exit code 3 if one lags, lacks or is wrong."""
        _execute(open_parts, url, _Output(is_json=as_json), partial(_status, max_lag=max_lag))

    @app.command()
    def rebuild(
        url: Url,
        *,
        partition: Annotated[
            list[int] | None, typer.Option(help="Only this one; may be given several times.")
        ] = None,
        accept_loss: Annotated[
            bool,
            typer.Option("--accept-loss", help="Make it from what is left of a truncated log."),
        ] = False,
        as_json: Json = False,
    ) -> None:
        """Discard the view and make it anew from the log. Reads wait or fail meanwhile."""
        command = partial(_rebuild, partitions=partition, accepts_loss=accept_loss)
        _execute(open_parts, url, _Output(is_json=as_json), command)

    return app


class _Output:
    """Where a command writes: results to stdout, everything else to stderr."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self.results = Console()
        self.errors = Console(stderr=True)

    def print_json(self, value: Any) -> None:
        """Print one line of JSON as a result."""
        self.results.file.write(json.dumps(value) + "\n")
        self.results.file.flush()

    def fail(self, error: Exception) -> None:
        """Say why nothing came of it."""
        self.errors.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)


Command: TypeAlias = Callable[[Parts, _Output], Awaitable[ExitCode]]


def _execute(open_parts: Opener, url: str, output: _Output, command: Command) -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    code = asyncio.run(_opened(open_parts, url, output, command))
    if code is not ExitCode.OK:
        raise typer.Exit(code)


async def _opened(open_parts: Opener, url: str, output: _Output, command: Command) -> ExitCode:
    async with AsyncExitStack() as stack:
        try:
            parts = await stack.enter_async_context(open_parts(url))
        except ValueError as error:
            output.fail(error)
            return ExitCode.USAGE
        try:
            await parts.log.setup()
            await parts.view.setup()
            return await command(parts, output)
        except EventStoreError as error:
            output.fail(error)
            return ExitCode.FAILED


async def _run(parts: Parts, output: _Output, *, report: float) -> ExitCode:
    worker = Worker(
        parts.log, parts.view, Applier(parts.log, parts.view), parts.board, parts.config
    )
    async with _told_to_stop() as told:
        await worker.start()
        ended = asyncio.create_task(worker.wait())
        stop = asyncio.create_task(told.wait())
        until_report = report
        with RestoreBars(output.errors, is_shown=not output.is_json) as bars:
            while not (ended.done() or stop.done()):
                await asyncio.wait(
                    {ended, stop}, timeout=BAR_INTERVAL, return_when=asyncio.FIRST_COMPLETED
                )
                status = worker.status
                restoring = [each.restore for each in status.partitions if each.restore]
                bars.keep_only({each.partition for each in restoring})
                for each in restoring:
                    bars.show(each)
                until_report -= BAR_INTERVAL
                if until_report <= 0:
                    until_report = report
                    _report(status, output)
        stop.cancel()
        await worker.stop()
        await ended
    _report(worker.status, output)
    if worker.status.state is WorkerState.FAILED:
        return ExitCode.FAILED
    return ExitCode.OK


def _report(status: WorkerStatus, output: _Output) -> None:
    if output.is_json:
        output.print_json(worker_as_dict(status))
    else:
        logger.info("%s", worker_line(status))


async def _status(parts: Parts, output: _Output, *, max_lag: int) -> ExitCode:
    lags = await measure(parts.log, parts.view, range(parts.log.partition_count))
    found = [(lag, await _problem(parts.log, lag, max_lag)) for lag in lags]
    is_healthy = all(problem is None for _, problem in found)
    if output.is_json:
        answer: dict[str, Any] = {
            "log": parts.log.name,
            "view": parts.view.name,
            "is_healthy": is_healthy,
            "partitions": [lag_as_dict(lag, problem) for lag, problem in found],
        }
        output.print_json(answer)
    else:
        output.results.print(lag_table(f"{parts.view.name} on {parts.log.name}", found))
    return ExitCode.OK if is_healthy else ExitCode.UNHEALTHY


async def _problem(log: EventLog, lag: PartitionLag, max_lag: int) -> str | None:
    """Return what is wrong with one partition, None when nothing is."""
    if lag.progress is None:
        # A partition without a single event of a thread needs no view to be read.
        return None if lag.end <= 1 else lag.problem
    if lag.problem is not None:
        return lag.problem
    try:
        if await log.identity(lag.partition) != lag.progress.identity:
            return "the view of another log"
        first = (await log.first_position([lag.partition])).next_offset(lag.partition)
    except LogIdentityError as error:
        return str(error)
    except LogTruncatedError as error:
        first = error.first
    if lag.next_offset < first:
        return f"the log begins at {first}: records that the view lacks are gone"
    return f"lags by {lag.lag}" if lag.lag > max_lag else None


async def _rebuild(
    parts: Parts, output: _Output, *, partitions: Sequence[int] | None, accepts_loss: bool
) -> ExitCode:
    count = parts.log.partition_count
    wanted = sorted(set(partitions or range(count)))
    if not all(0 <= number < count for number in wanted):
        output.fail(ValueError(f"the log has the partitions 0 to {count - 1}"))
        return ExitCode.USAGE
    applier = Applier(parts.log, parts.view)
    slots = asyncio.Semaphore(parts.config.restore_concurrency)

    async def rebuilt(number: int, bars: RestoreBars) -> RestoreProgress:
        async with slots:
            await applier.discard(number, accepts_loss=accepts_loss)
            return await restore(parts.log, applier, number, on_progress=bars.show)

    with RestoreBars(output.errors, is_shown=not output.is_json) as bars:
        done = await asyncio.gather(*[rebuilt(number, bars) for number in wanted])
    if output.is_json:
        output.print_json({"partitions": [restored_as_dict(each) for each in done]})
    else:
        total = sum(each.next_offset for each in done)
        output.results.print(f"rebuilt {len(done)} partitions with {total:,} offsets")
    return ExitCode.OK


@asynccontextmanager
async def _told_to_stop() -> AsyncGenerator[asyncio.Event, None]:
    """Give an event that SIGTERM and SIGINT set, instead of ending the process."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    handled: list[signal.Signals] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        # Windows has no such handlers: there an interrupt ends the process, which loses nothing.
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, told.set)
            handled.append(number)
    try:
        yield told
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
