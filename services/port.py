"""Free TCP ports."""

import contextlib
import random
import socket

# Below the ports that systems hand out to outgoing connections (from 32768 on Linux): while a
# killed server's port is unused, a client's connection could take it, even one to that very port.
_FIRST, _LAST = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """`count` different ports of 127.0.0.1 that nobody listens on at this moment."""
    found: list[int] = []
    for port in random.SystemRandom().sample(range(_FIRST, _LAST), 2_000):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found
