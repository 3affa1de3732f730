"""Kafka brokers in KRaft mode, from the Maven artifacts: one broker, or three.

The jars are fetched once into the folder `jars`, whatever folder the brokers' data is in.
"""

import base64
import hashlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import uuid
from pathlib import Path

from .model import Member, ServiceError
from .port import free_ports
from .system import JAVA, MAVEN, path_of

_POM = Path(__file__).with_name("pom.xml")
_HEAP = "512m"
_METADATA, _VERSION, _CORRELATION = 3, 4, 17  # the newest version without tagged fields is 8


def plan(home: Path, jars: Path, *, name: str, brokers: int) -> list[Member]:
    """Formats the data folders of a cluster and returns its members, ready to be spawned."""
    java, classpath = path_of(JAVA), f"{fetch_jars(jars)}/*"
    ports = free_ports(2 * brokers)
    listeners, controllers = ports[:brokers], ports[brokers:]
    # Kafka takes 16 random bytes in URL-safe base64 without padding.
    # The first digit is fixed: a leading dash would be taken for an option.
    cluster = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    members: list[Member] = []
    for node in range(1, brokers + 1):
        member_name = name if brokers == 1 else f"{name}-{node}"
        folder = home / "data" / member_name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config = folder / "server.properties"
        config.write_text(_properties(node, folder / "log", listeners, controllers))
        base = [java, "-cp", classpath, "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        _format(base, config, cluster)
        members.append(
            Member(
                name=member_name,
                command=[*base, f"-Xmx{_HEAP}", "-XX:+UseG1GC", "kafka.Kafka", str(config)],
                port=listeners[node - 1],
                folder=str(folder),
                log=str(home / "log" / f"{member_name}.log"),
            )
        )
    return members


def is_ready(member: Member, brokers: int) -> bool:
    """True when this broker answers a metadata request and knows of all `brokers`."""
    try:
        with socket.create_connection(("127.0.0.1", member.port), timeout=2) as connection:
            client = b"services"
            header = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, len(client)) + client
            # No topics, and none to be created.
            body = header + struct.pack(">i?", 0, False)  # noqa: FBT003  # the wire's boolean
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                answer = stream.read(size)
        correlation, _throttle, count = struct.unpack_from(">iii", answer)
    except (OSError, struct.error):
        return False
    return bool(correlation == _CORRELATION and count >= brokers)


def fetch_jars(folder: Path) -> Path:
    """The folder with the broker's jars, fetched by Maven unless it is complete."""
    wanted = hashlib.sha256(_POM.read_bytes()).hexdigest()
    stamp = folder / "pom.sha256"
    if stamp.exists() and stamp.read_text() == wanted:
        return folder
    print("services: fetching Kafka's jars with Maven (about 50 MB)", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder.resolve()}"]
    result = subprocess.run(
        [
            path_of(MAVEN),
            "--batch-mode",
            "--quiet",
            "-Dstyle.color=never",
            "--file",
            str(_POM),
            *goal,
        ],
        env={**os.environ, "JAVA_HOME": str(Path(path_of(JAVA)).resolve().parents[1])},
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=False,
    )
    if result.returncode != 0:
        raise ServiceError(f"Maven could not fetch Kafka's jars ({result.returncode})")
    # Last: a fetch that was interrupted has no stamp and is done again.
    stamp.write_text(wanted)
    return folder


def _format(base: list[str], config: Path, cluster: str) -> None:
    tool = [*base, "-Xmx128m", "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format"]
    result = subprocess.run(
        [*tool, "--cluster-id", cluster, "--config", str(config)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise ServiceError(f"Kafka's StorageTool failed: {result.stdout}{result.stderr}")


def _properties(node: int, data: Path, listeners: list[int], controllers: list[int]) -> str:
    """One broker's settings; anything not named here has Kafka's own default."""
    brokers = len(listeners)
    in_sync = 1 if brokers == 1 else 2
    voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in enumerate(controllers, start=1))
    port, controller = listeners[node - 1], controllers[node - 1]
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "default.replication.factor": brokers,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": brokers,
        "transaction.state.log.replication.factor": brokers,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": brokers,
        "share.coordinator.state.topic.min.isr": in_sync,
        # A broker that was killed may register again only when its session has ended (default 9 s);
        # shorter still, and a busy machine would lose live ones.
        "broker.session.timeout.ms": 5_000,
        "broker.heartbeat.interval.ms": 1_000,
        # A group of one consumer need not wait 3 s for a second.
        "group.initial.rebalance.delay.ms": 0,
        # Fifty partitions of offsets only make the first commit slower.
        "offsets.topic.num.partitions": 4,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
