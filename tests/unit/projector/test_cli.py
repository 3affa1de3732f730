"""The commands on SQLite: what they print, and what they end with."""

from __future__ import annotations

import asyncio
import io
import json
import signal
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from eventstore.errors import UnsafeTopicError
from eventstore.log import LogIdentity
from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from projector.cli import ExitCode, Parts, make_app
from projector.config import ProjectorConfig
from projector.display import RestoreBars
from projector.lease import LeaseBoard, OpenBoard
from projector.metrics import RestoreProgress
from projector.projection import FOLD_VERSION
from projector.sqlite import SqliteView
from tests.contracts.view_suite import saved
from tests.projections import FaultyLog, Ground, from_the_future, raising, sqlite_ground


class TerminatingBoard(OpenBoard):
    """A board on which every member is told to stop as soon as it works."""

    async def wait(self, timeout: float) -> None:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(timeout)


class BrokenBoard(OpenBoard):
    """A board that fails in a way that nobody foresaw."""

    async def claim(self, partitions: Collection[int]) -> frozenset[int]:
        raise ZeroDivisionError("unforeseen")


class Commands:
    """Runs commands on a file, with the parts that a test wants."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.board: LeaseBoard = OpenBoard()
        self.changes: dict[str, object] = {}
        self.opened: list[str] = []

    def run(self, *arguments: str, url: str | None = "test://", **env: str) -> Result:
        options = [] if url is None else ["--url", url]
        return CliRunner().invoke(make_app(self._open), [*arguments, *options], env=env)

    @asynccontextmanager
    async def _open(self, url: str) -> AsyncGenerator[Parts, None]:
        self.opened.append(url)
        if not url.startswith("test://"):
            raise ValueError("expected test://…")
        async with SqliteDatabase(self._path) as database:
            log, view = FaultyLog(SqliteEventLog(database)), SqliteView(database)
            for name, value in self.changes.items():
                setattr(log, name, value)
            try:
                yield Parts(log, view, self.board, ProjectorConfig())
            finally:
                await view.close()
                await log.close()


def another_log(identity: LogIdentity) -> LogIdentity:
    return LogIdentity(identity.log_id, 7)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """Commands on a log that holds three checkpoints of one thread, and no view."""

    async def fill() -> None:
        async with sqlite_ground(tmp_path / "file") as ground:
            await ground.append(*[saved("thread", f"{n}") for n in range(3)])

    asyncio.run(fill())
    return Commands(tmp_path / "file")


def test_status_of_a_missing_view_is_unhealthy(commands: Commands) -> None:
    """A log with events and no view: exit code 3, and the table says why."""
    result = commands.run("status")
    assert result.exit_code == ExitCode.UNHEALTHY
    assert "no view" in result.stdout


def test_status_of_an_empty_log_is_healthy(tmp_path: Path) -> None:
    """A log without events needs no view."""
    assert Commands(tmp_path / "new").run("status").exit_code == ExitCode.OK


def test_status_as_json(commands: Commands) -> None:
    """One JSON object on stdout, with numbers for machines."""
    commands.run("rebuild")
    result = commands.run("status", "--json")
    assert result.exit_code == ExitCode.OK
    answer = json.loads(result.stdout)
    assert answer["is_healthy"] is True
    (partition,) = answer["partitions"]
    assert (partition["end"], partition["next"], partition["lag"]) == (4, 4, 0)
    assert (partition["fold_version"], partition["problem"]) == (FOLD_VERSION, None)


def test_status_knows_the_view_of_another_log(commands: Commands, tmp_path: Path) -> None:
    """A view that was built from another log is unhealthy, however far it is."""
    commands.run("rebuild")
    commands.changes["log_identity"] = another_log
    result = commands.run("status")
    assert result.exit_code == ExitCode.UNHEALTHY
    assert "another log" in result.stdout


def test_lag_within_the_limit_is_healthy(commands: Commands, tmp_path: Path) -> None:
    """How much a view may lack is the operator's choice."""
    commands.run("rebuild")

    async def fill() -> None:
        async with sqlite_ground(tmp_path / "file") as ground:
            await ground.append(saved("thread", "4"), saved("thread", "5"))

    asyncio.run(fill())
    assert commands.run("status", "--max-lag", "2").exit_code == ExitCode.OK
    result = commands.run("status", "--max-lag", "1")
    assert result.exit_code == ExitCode.UNHEALTHY
    assert "lags by 2" in result.stdout


def test_rebuild_makes_the_view(commands: Commands) -> None:
    """The view is there afterwards, of a new generation each time."""
    generations: set[str] = set()
    for _ in range(2):
        result = commands.run("rebuild", "--json")
        assert result.exit_code == ExitCode.OK
        assert json.loads(result.stdout)["partitions"][0]["next"] == 4
        status = json.loads(commands.run("status", "--json").stdout)
        generations.add(status["partitions"][0]["generation"])
    assert len(generations) == 2


def test_rebuild_of_an_unknown_partition_is_wrong_usage(commands: Commands) -> None:
    """Nothing is discarded when a partition is named that the log does not have."""
    result = commands.run("rebuild", "--partition", "1")
    assert result.exit_code == ExitCode.USAGE
    assert "partitions 0 to 0" in result.stderr


def test_rebuild_that_cannot_go_on_fails(commands: Commands) -> None:
    """An event from the future is an error, with its place."""
    commands.changes["changed"] = {2: from_the_future}
    result = commands.run("rebuild")
    assert result.exit_code == ExitCode.FAILED
    assert "offset 2" in result.stderr


def test_unknown_url_is_wrong_usage(commands: Commands) -> None:
    """A connection string that means nothing ends with 2 and says what was expected."""
    result = commands.run("status", url="foo://")
    assert result.exit_code == ExitCode.USAGE
    assert "expected test://" in result.stderr


def test_missing_url_is_wrong_usage(commands: Commands) -> None:
    """Without a connection string, no command does anything."""
    result = commands.run("status", url=None)
    assert result.exit_code == ExitCode.USAGE
    assert commands.opened == []


def test_url_comes_from_the_environment(commands: Commands) -> None:
    """The connection string, which may hold a password, need not stand on the command line."""
    commands.run("status", url=None, LANGGRAPH_KAFKA_URL="test://environment")
    assert commands.opened == ["test://environment"]


def test_error_of_the_log_fails_the_command(commands: Commands) -> None:
    """What the log or the view refuses is printed, and the exit code is 1."""
    unsafe = UnsafeTopicError("topic", setting="policy", value="bad", cure="change it")
    commands.changes["before_setup"] = raising(unsafe)
    result = commands.run("status")
    assert result.exit_code == ExitCode.FAILED
    assert "change it" in result.stderr


def test_run_ends_when_it_is_told_to(commands: Commands) -> None:
    """SIGTERM ends it in order; what it did is told in the end."""
    commands.board = TerminatingBoard()
    result = commands.run("run", "--json")
    assert result.exit_code == ExitCode.OK
    assert json.loads(result.stdout.splitlines()[-1])["state"] == "stopped"


def test_run_that_cannot_go_on_fails(commands: Commands) -> None:
    """A projector that stops by itself ends the command with 1."""
    commands.board = BrokenBoard()
    result = commands.run("run", "--json")
    assert result.exit_code == ExitCode.FAILED
    last = json.loads(result.stdout.splitlines()[-1])
    assert last["state"] == "failed"
    assert "unforeseen" in last["error"]


def test_bars_show_what_is_restored(ground: Ground) -> None:
    """On a terminal each partition has a bar, as long as it is restored."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with RestoreBars(console, is_shown=True) as bars:
        bars.show(RestoreProgress(3, 0, 500, 1_000, 0.5))
        bars.show(RestoreProgress(3, 0, 1_000, 1_000, 1.0))
        bars.show(RestoreProgress(4, 0, 10, 1_000, 1.0))
        bars.keep_only({4})
    assert isinstance(console.file, io.StringIO)
    assert "partition 4" in console.file.getvalue()


def test_bars_show_nothing_to_a_file() -> None:
    """Where nobody looks there are no bars."""
    console = Console(file=io.StringIO())
    with RestoreBars(console, is_shown=True) as bars:
        bars.show(RestoreProgress(3, 0, 500, 1_000, 0.5))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().strip() == ""
