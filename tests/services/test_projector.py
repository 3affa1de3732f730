"""The projector as a service on a real Kafka and Redis: restored, shared, killed, drained."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from eventstore.config import KafkaConfig
from eventstore.kafka import KafkaEventLog
from projector.applier import Applier
from projector.cli import ExitCode
from projector.redis import RedisView
from services import Services
from tests.contracts.view_suite import deleted, saved, wrote
from tests.projections import Dump, sqlite_ground
from tests.waiting import wait_until

PARTITIONS = 4
PATIENCE = 25.0
"""Seconds until something that takes about one second counts as never happening."""


@dataclass
class Deployment:
    """One topic and its view in Redis, as a test looks at them."""

    url: str
    log: KafkaEventLog
    view: RedisView
    client: Any
    appended: int = 0

    async def append(self, count: int) -> None:
        """Append events of some threads."""
        first, self.appended = self.appended, self.appended + count
        waiting: list[Any] = []
        for number in range(first, first + count):
            thread = f"thread {number % 13}"
            event = saved(thread, f"{number:06}", {"channel": b"%d" % number})
            if number % 3 == 0:
                event = wrote(thread, f"{number - 13:06}", "task", (0, "channel", b"value"))
            elif number % 97 == 1:
                event = deleted(thread)
            waiting.append(self.log.append(event))
        await asyncio.gather(*waiting)

    async def is_caught_up(self) -> bool:
        """Tell whether every partition's view has reached the log's end."""
        ends = await self.log.end_position(range(PARTITIONS))
        progress = [await self.view.progress(p) for p in range(PARTITIONS)]
        return all(p and p.next_offset >= ends.next_offset(n) for n, p in enumerate(progress))

    async def catches_up(self) -> None:
        is_there: bool = await wait_until(
            self.is_caught_up, description="the view has caught up", timeout=PATIENCE
        )
        assert is_there

    async def dump(self) -> list[Dump]:
        """Return what the view holds at the log's end.

        Somebody may have erased something just now, which nobody has applied yet.
        """
        applier = Applier(self.log, self.view)
        for partition in range(PARTITIONS):
            await applier.advance(partition, await applier.end(partition))
        return [await self.view.dump(partition) for partition in range(PARTITIONS)]

    async def fold(self) -> list[Dump]:
        """What a view holds that is made from the log anew, somewhere else."""
        ends = await self.log.end_position(range(PARTITIONS))
        async with sqlite_ground() as ground:
            applier = Applier(self.log, ground.view)
            for partition in range(PARTITIONS):
                await applier.advance(partition, ends.next_offset(partition))
            return [await ground.view.dump(partition) for partition in range(PARTITIONS)]

    async def holders(self) -> list[bytes | None]:
        """Who holds the lease of each partition."""
        keys = [self.view.keys.base(partition) + b"lease" for partition in range(PARTITIONS)]
        return [await self.client.get(key) for key in keys]

    async def is_shared_by(self, count: int) -> bool:
        """Tell whether so many projectors hold all partitions in equal parts."""
        holders = await self.holders()
        shares = [holders.count(each) for each in {*holders}]
        return None not in holders and sorted(shares) == [PARTITIONS // count] * count

    async def becomes_shared_by(self, count: int) -> None:
        is_shared: bool = await wait_until(
            lambda: self.is_shared_by(count),
            description=f"{count} projectors share all partitions",
            timeout=PATIENCE,
        )
        assert is_shared


@asynccontextmanager
async def deployed(kafka: str, topic: str, redis: str) -> AsyncGenerator[Deployment, None]:
    """Open a new topic and a view for it."""
    config = KafkaConfig(bootstrap_servers=kafka, topic=topic, partitions=PARTITIONS)
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(KafkaEventLog(config))
        view = RedisView.from_url(redis, prefix=topic)
        stack.push_async_callback(view.close)
        client: Any = cast("Any", Redis).from_url(redis)
        stack.push_async_callback(client.aclose)
        url = f"kafka://{kafka}/{topic}?redis={redis}"
        yield Deployment(url, log, view, client)


@pytest.fixture
async def deployment(
    kafka_bootstrap: str, topic: str, own_redis_url: str
) -> AsyncIterator[Deployment]:
    async with deployed(kafka_bootstrap, topic, own_redis_url) as opened:
        yield opened


class Projector:
    """A projector process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def kill(self) -> None:
        self.process.kill()

    async def terminate(self) -> int:
        """Ask it to end; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()


@asynccontextmanager
async def projector(url: str, *options: str) -> AsyncGenerator[Projector, None]:
    """Run `projector run` as long as the block lasts."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "projector", "run", "--url", url, *options),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Projector(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def command(url: str, *arguments: str) -> tuple[int, str]:
    """Run one of the commands to its end; return the exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "projector", *arguments, "--url", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.timeout(90)
async def test_service_restores_and_follows(deployment: Deployment) -> None:
    """What was in the log before, and what comes later, ends in the view: the fold of the log."""
    await deployment.append(300)
    async with projector(deployment.url) as running:
        await deployment.catches_up()
        await deployment.append(200)
        await deployment.catches_up()
        assert await running.terminate() == ExitCode.OK
    assert await deployment.dump() == await deployment.fold()


@pytest.mark.timeout(90)
async def test_terminated_service_gives_its_leases_back(deployment: Deployment) -> None:
    """SIGTERM drains: exit code 0, and nothing is left for others to wait for."""
    await deployment.append(50)
    async with projector(deployment.url) as running:
        await deployment.becomes_shared_by(1)
        await deployment.append(500)
        assert await running.terminate() == ExitCode.OK
        assert await deployment.holders() == [None] * PARTITIONS


@pytest.mark.chaos
@pytest.mark.timeout(90)
async def test_killed_service_is_replaced(deployment: Deployment) -> None:
    """Two share the partitions; what the killed one held the other one takes."""
    async with projector(deployment.url) as first, projector(deployment.url) as second:
        await deployment.becomes_shared_by(2)
        await deployment.append(300)
        first.kill()
        await deployment.append(300)
        await deployment.becomes_shared_by(1)
        await deployment.catches_up()
        assert await second.terminate() == ExitCode.OK
    assert await deployment.dump() == await deployment.fold()


@pytest.mark.timeout(90)
async def test_newcomer_gets_its_share(deployment: Deployment) -> None:
    """Partitions change hands while events come, and the view stays the fold of the log."""
    async with projector(deployment.url) as first:
        await deployment.becomes_shared_by(1)
        async with projector(deployment.url) as second:
            await deployment.append(300)
            await deployment.becomes_shared_by(2)
            await deployment.append(300)
            assert await first.terminate() == ExitCode.OK
            await deployment.becomes_shared_by(1)
            await deployment.append(100)
            await deployment.catches_up()
            assert await second.terminate() == ExitCode.OK
    assert await deployment.dump() == await deployment.fold()


@pytest.mark.chaos
@pytest.mark.timeout(90)
async def test_flushed_redis_is_filled_again(deployment: Deployment) -> None:
    """FLUSHALL while the projector runs, with events and without: the view comes back."""
    await deployment.append(300)
    async with projector(deployment.url):
        await deployment.catches_up()
        await deployment.client.flushall()
        await deployment.catches_up()
        await deployment.append(100)
        await deployment.client.flushall()
        await deployment.append(100)
        await deployment.catches_up()
    assert await deployment.dump() == await deployment.fold()


@pytest.mark.chaos
@pytest.mark.timeout(90)
async def test_dead_redis_is_waited_for(deployment: Deployment, own_services: Services) -> None:
    """A projector outlives its Redis, which comes back empty."""
    await deployment.append(300)
    async with projector(deployment.url) as running:
        await deployment.catches_up()
        own_services.kill("redis")
        await deployment.append(100)
        own_services.restart("redis")
        await deployment.catches_up()
        assert await running.terminate() == ExitCode.OK
    assert await deployment.dump() == await deployment.fold()


@pytest.mark.timeout(90)
async def test_rebuilt_view_equals_the_one_before(deployment: Deployment) -> None:
    """`rebuild` makes a new generation, of all partitions or of one, that holds the same."""
    await deployment.append(300)
    code, out = await command(deployment.url, "rebuild", "--json")
    assert code == ExitCode.OK
    assert [each["partition"] for each in json.loads(out)["partitions"]] == [0, 1, 2, 3]
    before = await deployment.dump()
    assert before == await deployment.fold()
    old = [await deployment.view.progress(partition) for partition in range(PARTITIONS)]
    code, out = await command(deployment.url, "rebuild", "--partition", "2")
    assert code == ExitCode.OK
    assert "rebuilt 1 partition" in out
    assert await deployment.dump() == before
    new = [await deployment.view.progress(partition) for partition in range(PARTITIONS)]
    generations = [a and b and a.generation == b.generation for a, b in zip(old, new, strict=True)]
    assert generations == [True, True, False, True]


@pytest.mark.timeout(90)
async def test_rebuild_beside_a_running_service(deployment: Deployment) -> None:
    """A projector that runs meanwhile does no harm, and follows the new view."""
    await deployment.append(300)
    async with projector(deployment.url) as running:
        await deployment.catches_up()
        assert (await command(deployment.url, "rebuild"))[0] == ExitCode.OK
        await deployment.append(100)
        await deployment.catches_up()
        assert await running.terminate() == ExitCode.OK
    assert await deployment.dump() == await deployment.fold()


@pytest.mark.timeout(90)
async def test_status_tells_what_is_healthy(deployment: Deployment) -> None:
    """Exit code 3 and a reason as long as a view lacks or lags, 0 when all are there."""
    await deployment.append(100)
    code, out = await command(deployment.url, "status", "--json")
    answer = json.loads(out)
    assert (code, answer["is_healthy"]) == (ExitCode.UNHEALTHY, False)
    assert {each["problem"] for each in answer["partitions"]} == {"no view"}
    assert (await command(deployment.url, "rebuild"))[0] == ExitCode.OK
    code, out = await command(deployment.url, "status", "--json")
    answer = json.loads(out)
    assert (code, answer["is_healthy"]) == (ExitCode.OK, True)
    assert [each["lag"] for each in answer["partitions"]] == [0] * PARTITIONS
    await deployment.append(100)
    code, out = await command(deployment.url, "status", "--max-lag", "3")
    assert code == ExitCode.UNHEALTHY
    assert "lags by" in out
    assert (await command(deployment.url, "status"))[0] == ExitCode.OK


@pytest.mark.timeout(90)
async def test_unreachable_services_fail_the_command(
    deployment: Deployment, unused_tcp_port: int
) -> None:
    """A command whose servers do not answer ends with exit code 1."""
    url = f"{deployment.url.partition('?')[0]}?redis=redis://127.0.0.1:{unused_tcp_port}"
    assert (await command(url, "status"))[0] == ExitCode.FAILED
