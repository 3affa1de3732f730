"""Starts and stops real servers for tests, benchmarks and people: Kafka, Redis, PostgreSQL.

On the command line `python -m services start | stop | status | env`; in Python `start`, `stop`, or
a `Services` of its own folder where servers are killed and restarted on purpose. Standard library
only, no part of the distribution.
"""

from .control import Services, default_services
from .model import SERVICE_NAMES, Addresses, ServiceError, ServiceName

__all__ = [
    "SERVICE_NAMES",
    "Addresses",
    "ServiceError",
    "ServiceName",
    "Services",
    "default_services",
    "kill",
    "restart",
    "start",
    "stop",
]


def start(*names: ServiceName) -> Addresses:
    """Starts the named services, or finds them running, and keeps them until `stop`."""
    return default_services().start(*names)


def stop(*names: ServiceName) -> None:
    """Stops the named services (all of them when none is named) and removes their data."""
    default_services().stop(*names)


def kill(name: str) -> None:
    """Ends a service, or one of its members, with SIGKILL; its data stays."""
    default_services().kill(name)


def restart(name: str) -> None:
    """Starts the dead members of a service again: same ports, same data."""
    default_services().restart(name)
