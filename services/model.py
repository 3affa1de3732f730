"""What a service, its members and its addresses are. No processes, no files."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

ServiceName = Literal["kafka", "kafka3", "redis", "postgres"]
"""`kafka` is one broker, `kafka3` a cluster of three: they can run side by side."""

SERVICE_NAMES: tuple[ServiceName, ...] = get_args(ServiceName)


class ServiceError(Exception):
    """A server is missing, did not come up, or was asked for something it cannot do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Addresses:
    """Where clients reach the services that run; None for those that do not."""

    kafka: str | None = None
    """Bootstrap address of the single broker, `host:port`."""
    kafka3: str | None = None
    """Bootstrap addresses of the three brokers, comma-separated."""
    redis: str | None = None
    """`redis://host:port/0`."""
    postgres: str | None = None
    """`postgresql://postgres@host:port/postgres`, no password."""

    def environment(self) -> dict[str, str]:
        """The running services as environment variables that the tests and benchmarks read."""
        found = dataclasses.asdict(self)
        return {f"LGK_{name.upper()}": address for name, address in found.items() if address}


@dataclasses.dataclass(slots=True)
class Member:
    """One server process of a service, and all that is needed to start it again."""

    name: str
    """`kafka`, `kafka3-1` … `kafka3-3`, `redis` or `postgres`."""
    command: list[str]
    port: int
    folder: str
    """Its data, removed when the service is stopped."""
    log: str
    user: str | None = None
    """The account it runs as, where it refuses to run as root."""
    pid: int | None = None
    identity: str | None = None
    """Tells this process from a later one with the same pid."""


@dataclasses.dataclass(slots=True)
class Service:
    """The members of one service and who wants it to run."""

    name: ServiceName
    members: list[Member]
    is_kept: bool = False
    """Started by a person: runs until it is stopped, whoever else lets go of it."""
    holders: list[tuple[int, str]] = dataclasses.field(default_factory=list[tuple[int, str]])
    """Processes (pid, identity) that use it; the last one to let go stops it."""

    @property
    def address(self) -> str:
        """What `Addresses` says of this service."""
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        match self.name:
            case "kafka" | "kafka3":
                return hosts
            case "redis":
                return f"redis://{hosts}/0"
            case "postgres":
                return f"postgresql://postgres@{hosts}/postgres"

    def to_json(self) -> dict[str, Any]:
        """This service as the state file holds it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The service that `to_json` wrote."""
        members = [Member(**member) for member in data["members"]]
        holders = [(int(pid), str(identity)) for pid, identity in data["holders"]]
        return cls(data["name"], members, is_kept=data["is_kept"], holders=holders)


def addresses_of(services: Sequence[Service]) -> Addresses:
    """The addresses of these services."""
    return Addresses(**{service.name: service.address for service in services})
