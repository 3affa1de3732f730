"""One Redis or Valkey server that keeps its data in memory and never evicts."""

import shutil
import socket
from pathlib import Path

from .model import Member
from .port import free_ports
from .system import REDIS, path_of


def plan(home: Path) -> list[Member]:
    """The member, ready to be spawned."""
    folder = home / "data" / "redis"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (port,) = free_ports(1)
    settings = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(folder),
        "maxmemory-policy": "noeviction",
        "save": "",
        "appendonly": "no",
    }
    command = [path_of(REDIS)]
    for key, value in settings.items():
        command += [f"--{key}", value]
    log = str(home / "log" / "redis.log")
    return [Member(name="redis", command=command, port=port, folder=str(folder), log=log)]


def is_ready(member: Member) -> bool:
    """True when the server answers a PING."""
    try:
        with socket.create_connection(("127.0.0.1", member.port), timeout=2) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16) == b"+PONG\r\n"
    except OSError:
        return False
