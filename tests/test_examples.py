"""Every example runs, in a process of its own as a reader would start it, and ends well."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from langgraph.checkpoint.kafka import AsyncKafkaSaver
from tests.fundamentals.graphs import START_STATE, line

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SMALL = ("human_in_the_loop", "time_travel", "rebuild_view")
MAX_LINES = 60


async def run(*arguments: str, status: int = 0) -> str:
    """Run an example; return what it printed. Another status than the given one fails the test."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", *arguments, cwd=ROOT, stdout=PIPE, stderr=STDOUT
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode()
    assert process.returncode == status, text
    return text


def test_every_example_is_tested() -> None:
    found = {path.stem for path in EXAMPLES.glob("*.py")}
    assert found == {"quickstart", "stage", *SMALL}


@pytest.mark.parametrize("name", SMALL)
async def test_small_example_runs(name: str) -> None:
    """It ends well, and is short enough to be read at a glance."""
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= MAX_LINES
    assert await run(f"examples/{name}.py")


async def test_person_is_asked_and_answers() -> None:
    printed = await run("examples/human_in_the_loop.py")
    assert printed.splitlines() == [
        "waiting: Buy a bicycle?",
        "still waiting at: ('buy',)",
        "outcome: bought",
    ]


async def test_rebuilt_view_reads_as_before() -> None:
    assert "9 states before, the same after: True" in await run("examples/rebuild_view.py")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_quickstart_is_the_same_each_time() -> None:
    """The demo runs to its end without a server, and prints the same twice, event ids apart."""
    first, second = await asyncio.gather(*[run("-m", "examples.quickstart") for _ in range(2)])
    assert first.rstrip().endswith("All of it as it should be.")
    assert "runs: back_up 1, deploy 2, announce 1" in first
    assert without_ids(first) == without_ids(second)


async def test_quickstart_fails_when_something_is_not_so(tmp_path: Path) -> None:
    """Its status tells, also a machine: here the log knows one of the demo's threads already."""
    url = f"sqlite:///{tmp_path / 'used.db'}"
    async with AsyncKafkaSaver.from_conn_string(url) as saver:
        await line(saver, "a").ainvoke(START_STATE, {"configurable": {"thread_id": "ops"}})
    assert "not so" in await run("-m", "examples.quickstart", url, status=1)


@pytest.mark.timeout(120)
async def test_quickstart_on_kafka(kafka_bootstrap: str, redis_url: str, topic: str) -> None:
    """On Kafka and Redis, with the projector as a service that stops when it is told to."""
    printed = await run(
        "-m", "examples.quickstart", f"kafka://{kafka_bootstrap}/{topic}?redis={redis_url}"
    )
    assert "told to stop, it finished its work and left" in printed
    assert printed.rstrip().endswith("All of it as it should be.")


def without_ids(printed: str) -> str:
    """Return a text without event ids, which are random."""
    return re.sub(r"\b[0-9a-f]{8}\b", "event id", printed)
