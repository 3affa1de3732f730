"""The tool that starts real servers: found again, shared, killed, restarted, never left behind."""

import asyncio
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from services import ServiceError, Services, cli
from services import model as services_model
from services.process import identity_of, is_alive, own_identity
from services.state import StateFile
from tests.waiting import wait_in_thread

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]


def _members(services: Services) -> dict[str, services_model.Member]:
    with StateFile(services.home).locked() as state:
        return {member.name: member for found in state.values() for member in found.members}


def _ping(url: str) -> bytes:
    host, _, port = url.removeprefix("redis://").removesuffix("/0").partition(":")
    with socket.create_connection((host, int(port)), timeout=2) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16)


def test_second_start_finds_the_first(own_services: Services) -> None:
    first = own_services.start("redis")
    pid = _members(own_services)["redis"].pid
    assert Services(own_services.home).start("redis") == first
    assert _members(own_services)["redis"].pid == pid


def test_concurrent_starts_share_one_server(own_services: Services) -> None:
    with ThreadPoolExecutor(4) as pool:
        starts = [pool.submit(Services(own_services.home).start, "redis") for _ in range(4)]
    assert len({start.result() for start in starts}) == 1
    assert own_services.status() == {"redis": True}


def test_stop_leaves_neither_process_nor_data(own_services: Services) -> None:
    own_services.start("redis")
    member = _members(own_services)["redis"]
    own_services.stop()
    assert not is_alive(member)
    assert not Path(member.folder).exists()
    assert own_services.status() == {}


def test_last_holder_stops_the_server(own_services: Services) -> None:
    with own_services.held("redis"):
        with Services(own_services.home).held("redis") as addresses:
            assert addresses.redis is not None
        assert own_services.status() == {"redis": True}
    assert own_services.status() == {}


def test_killed_holder_counts_no_more(own_services: Services) -> None:
    program = (
        "import pathlib, sys, services\n"
        "with services.Services(pathlib.Path(sys.argv[1])).held('redis'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(own_services.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        holder.wait()
    assert own_services.status() == {"redis": True}
    with own_services.held("redis"):
        pass
    assert own_services.status() == {}


def test_started_server_outlives_its_holders(own_services: Services) -> None:
    own_services.start("redis")
    with own_services.held("redis"):
        pass
    assert own_services.status() == {"redis": True}


def test_killed_redis_comes_back_on_its_port(own_services: Services) -> None:
    address = own_services.start("redis").redis
    assert address is not None
    own_services.kill("redis")
    assert own_services.status() == {"redis": False}
    with pytest.raises(ConnectionRefusedError):
        _ping(address)
    own_services.restart("redis")
    assert _ping(address) == b"+PONG\r\n"


def test_paused_redis_answers_once_resumed(own_services: Services) -> None:
    address = own_services.start("redis").redis
    assert address is not None
    own_services.pause("redis")
    with pytest.raises(TimeoutError):
        _ping(address)
    own_services.resume("redis")
    assert _ping(address) == b"+PONG\r\n"


def test_foreign_process_with_our_pid_is_not_ours(own_services: Services) -> None:
    """A pid that was reused after a crash must never be signalled."""
    own_services.start("redis")
    real = _members(own_services)["redis"]
    own_services.kill("redis")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as foreign:
        with StateFile(own_services.home).locked() as state:
            state["redis"].members[0].pid = foreign.pid
            StateFile(own_services.home).save(state)
        own_services.stop()
        assert foreign.poll() is None
        foreign.communicate(b"\n")
    assert foreign.returncode == 0
    assert not is_alive(real)


def test_unknown_member_is_named(own_services: Services) -> None:
    with pytest.raises(ServiceError, match="redis was not started"):
        own_services.kill("redis")


def test_own_identity_is_stable_and_dead_has_none() -> None:
    pid, identity = own_identity()
    assert identity_of(pid) == identity
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        # Not reaped yet: a zombie is dead too.
        wait_in_thread(lambda: identity_of(ended.pid) is None, description="the process ended")


async def _append(bootstrap: str, topic: str) -> None:
    producer: Any = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"kept")
    finally:
        await producer.stop()


async def _read_one(bootstrap: str, topic: str) -> bytes:
    consumer: Any = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None
    )
    await consumer.start()
    try:
        return bytes((await consumer.getone()).value)
    finally:
        await consumer.stop()


async def test_killed_kafka_keeps_what_it_acknowledged(own_services: Services, topic: str) -> None:
    bootstrap = (await asyncio.to_thread(own_services.start, "kafka")).kafka
    assert bootstrap is not None
    await _append(bootstrap, topic)
    await asyncio.to_thread(own_services.kill, "kafka")
    await asyncio.to_thread(own_services.restart, "kafka")
    assert await _read_one(bootstrap, topic) == b"kept"


async def test_three_brokers_survive_the_loss_of_one(own_services: Services, topic: str) -> None:
    bootstrap = (await asyncio.to_thread(own_services.start, "kafka3")).kafka3
    assert bootstrap is not None
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=3)])
    finally:
        await admin.close()
    await asyncio.to_thread(own_services.kill, "kafka3-2")
    await _append(bootstrap, topic)
    assert await asyncio.to_thread(own_services.status) == {
        "kafka3-1": True,
        "kafka3-2": False,
        "kafka3-3": True,
    }
    await asyncio.to_thread(own_services.restart, "kafka3-2")
    assert await _read_one(bootstrap, topic) == b"kept"


@pytest.mark.benchmarks
def test_postgres_answers_and_stops(own_services: Services) -> None:
    address = own_services.start("postgres").postgres
    assert address is not None
    assert address.startswith("postgresql://postgres@127.0.0.1:")
    assert own_services.status() == {"postgres": True}


def test_command_line_prints_addresses(
    own_services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = cli.main
    monkeypatch.setattr(cli, "default_services", lambda: own_services)
    assert run(["start", "redis"]) == 0
    assert run(["env"]) == 0
    assert run(["status"]) == 0
    assert run(["stop"]) == 0
    started, exported, status = capsys.readouterr().out.splitlines()
    assert started.startswith("LGK_REDIS=redis://127.0.0.1:")
    assert exported == f"export {started}"
    assert status == "redis: answers"
    assert run(["status"]) == 1
