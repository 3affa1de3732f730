"""One PostgreSQL server for the benchmarks, with a fresh cluster that trusts local clients."""

import os
import pwd
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from .model import Member, ServiceError
from .port import free_ports
from .system import POSTGRES, path_of

_ACCOUNT = "postgres"


def plan(home: Path) -> list[Member]:
    """Makes the cluster and returns the member, ready to be spawned."""
    server = path_of(POSTGRES)
    # PostgreSQL refuses to run as root, and its account may not enter the folders above `home`.
    user = _ACCOUNT if os.geteuid() == 0 else None
    if user is None:
        folder = home / "data" / "postgres"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
    else:
        folder = Path(tempfile.mkdtemp(prefix="services-postgres-"))
        shutil.chown(folder, user, pwd.getpwnam(user).pw_gid)
    initdb = [str(Path(server).with_name("initdb")), "--auth=trust", "--encoding=UTF8", "--no-sync"]
    result = subprocess.run(
        [*initdb, "-D", str(folder), "-U", "postgres"],
        cwd=folder,
        user=user,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise ServiceError(f"initdb failed: {result.stdout}{result.stderr}")
    (port,) = free_ports(1)
    command = [server, "-D", str(folder), "-p", str(port), "-h", "127.0.0.1", "-k", str(folder)]
    command += ["-c", "max_connections=300"]
    log = str(home / "log" / "postgres.log")
    return [
        Member(name="postgres", command=command, port=port, folder=str(folder), log=log, user=user)
    ]


def is_ready(member: Member) -> bool:
    """True when the server lets a client in and waits for its first query."""
    parameters = b"user\0postgres\0database\0postgres\0\0"
    protocol_3 = 3 << 16
    try:
        with socket.create_connection(("127.0.0.1", member.port), timeout=2) as connection:
            connection.sendall(struct.pack(">ii", len(parameters) + 8, protocol_3) + parameters)
            with connection.makefile("rb") as stream:
                return _reaches_ready(stream.read)
    except (OSError, struct.error):
        return False


def _reaches_ready(read: Callable[[int], bytes]) -> bool:
    while True:
        kind, size = struct.unpack(">ci", read(5))
        read(size - 4)
        if kind in b"EZ":
            return bool(kind == b"Z")
