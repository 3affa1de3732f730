"""`Services`: the verbs, over the state file, the processes and the three kinds of server."""

import contextlib
import functools
import shutil
import signal
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NoReturn

from . import kafka, postgres, redis
from .model import (
    SERVICE_NAMES,
    Addresses,
    Member,
    Service,
    ServiceError,
    ServiceName,
    addresses_of,
)
from .patience import holds_within
from .process import end, identity_of, is_alive, own_identity, send, spawn
from .state import StateFile
from .system import require

_START_TIME = 90.0  # seconds for a server to answer; a broker takes about 4
_ATTEMPTS = 3  # another program may take a port between its choice and its use

_DEFAULT_HOME = Path(__file__).parent.parent / ".services"

# What ends each kind fastest: their data is removed, so no server needs to say goodbye, but a
# killed PostgreSQL would leave shared memory behind.
_STOP_SIGNALS: dict[ServiceName, signal.Signals] = {
    "kafka": signal.SIGKILL,
    "kafka3": signal.SIGKILL,
    "redis": signal.SIGTERM,
    "postgres": signal.SIGQUIT,
}


class Services:
    """The servers of one folder. Safe to use from several processes at once."""

    def __init__(self, home: Path, *, jars: Path | None = None) -> None:
        """`home` holds state, data and logs; `jars` Kafka's code (default: the shared one)."""
        self.home = home.resolve()
        self._jars = (jars or _DEFAULT_HOME / "jars").resolve()
        self._state = StateFile(self.home)

    def start(self, *names: ServiceName) -> Addresses:
        """Starts the named services, or finds them running; they run until `stop`.

        Raises:
            ServiceError: a program is missing, or a server did not answer in time.
        """
        return self._start(names, is_kept=True)

    @contextlib.contextmanager
    def held(self, *names: ServiceName) -> Generator[Addresses]:
        """The named services for as long as the block runs.

        What was started by `start` goes on afterwards; anything else stops with its last holder,
        in whichever process that is. A holder that was killed counts no more.
        """
        try:
            yield self._start(names, is_kept=False)
        finally:
            self._release(names)

    def stop(self, *names: ServiceName) -> None:
        """Stops the named services (all when none is named), whoever uses them; removes data."""
        with self._state.locked() as services:
            for name in names or SERVICE_NAMES:
                if name in services:
                    self._remove(services, name)

    def status(self) -> dict[str, bool]:
        """Every member by name, and whether it answers."""
        with self._state.locked() as services:
            return {
                member.name: is_alive(member) and _answers(service, member, peers=1)
                for service in services.values()
                for member in service.members
            }

    def addresses(self) -> Addresses:
        """Where the services are that have been started."""
        with self._state.locked() as services:
            return addresses_of(list(services.values()))

    def kill(self, name: str) -> None:
        """Ends a service, or one member, with SIGKILL; its data stays for `restart`."""
        self._end(name, signal.SIGKILL)

    def terminate(self, name: str) -> None:
        """Asks a service, or one member, to shut down and waits for it; its data stays."""
        self._end(name, signal.SIGTERM)

    def pause(self, name: str) -> None:
        """Freezes a service, or one member: connections stay open, nothing answers."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Lets a paused service, or member, go on."""
        self._signal(name, signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Starts the dead members of a service, or one member: same ports, same data.

        Returns when they answer. Redis comes back empty: it saves nothing.
        """
        with self._state.locked() as services:
            service, members = _find(services, name)
            self._spawn(services, [member for member in members if not is_alive(member)])
            _wait_until_ready(service, members)

    def _start(self, names: Sequence[ServiceName], *, is_kept: bool) -> Addresses:
        with self._state.locked() as services:
            require(name for name in names if name not in services)
            for name in names:
                service = self._up(services, name)
                service.is_kept = service.is_kept or is_kept
                if not is_kept:
                    service.holders.append(own_identity())
                self._state.save(services)
            return addresses_of([services[name] for name in names])

    def _up(self, services: dict[ServiceName, Service], name: ServiceName) -> Service:
        if name in services:
            service = services[name]
            self._spawn(services, [member for member in service.members if not is_alive(member)])
            _wait_until_ready(service, service.members)
            return service
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._first_start(services, name)
            except _PortTakenError:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError

    def _first_start(self, services: dict[ServiceName, Service], name: ServiceName) -> Service:
        (self.home / "log").mkdir(parents=True, exist_ok=True)
        services[name] = service = Service(name, self._plan(name))
        try:
            self._spawn(services, service.members)
            _wait_until_ready(service, service.members)
        except BaseException:
            self._remove(services, name)
            raise
        return service

    def prepare(self, *names: ServiceName) -> None:
        """Fetches what these services need beyond the system's programs."""
        if {"kafka", "kafka3"}.intersection(names):
            with self._state.locked():
                kafka.fetch_jars(self._jars)

    def _plan(self, name: ServiceName) -> list[Member]:
        match name:
            case "kafka":
                return kafka.plan(self.home, self._jars, name=name, brokers=1)
            case "kafka3":
                return kafka.plan(self.home, self._jars, name=name, brokers=3)
            case "redis":
                return redis.plan(self.home)
            case "postgres":
                return postgres.plan(self.home)

    def _spawn(self, services: dict[ServiceName, Service], members: list[Member]) -> None:
        for member in members:
            spawn(member)
            # Before anything can fail: a server that is not in the state file is never stopped.
            self._state.save(services)

    def _release(self, names: Sequence[ServiceName]) -> None:
        with self._state.locked() as services:
            for name in names:
                service = services.get(name)
                if service is None:
                    continue
                if own_identity() in service.holders:
                    service.holders.remove(own_identity())
                service.holders = [(p, i) for p, i in service.holders if identity_of(p) == i]
                if not service.holders and not service.is_kept:
                    self._remove(services, name)
            self._state.save(services)

    def _remove(self, services: dict[ServiceName, Service], name: ServiceName) -> None:
        service = services[name]
        end(service.members, _STOP_SIGNALS[name])
        for member in service.members:
            shutil.rmtree(member.folder, ignore_errors=True)
        del services[name]
        self._state.save(services)

    def _end(self, name: str, number: signal.Signals) -> None:
        with self._state.locked() as services:
            end(_find(services, name)[1], number)

    def _signal(self, name: str, number: signal.Signals) -> None:
        with self._state.locked() as services:
            for member in _find(services, name)[1]:
                if not send(member, number):
                    raise ServiceError(f"{member.name} is not running")


class _PortTakenError(ServiceError):
    """The server found its port in use."""


@functools.cache
def default_services() -> Services:
    """The services of this repository, in the folder `.services`."""
    return Services(_DEFAULT_HOME)


def _find(services: dict[ServiceName, Service], name: str) -> tuple[Service, list[Member]]:
    for service in services.values():
        if service.name == name:
            return service, service.members
        members = [member for member in service.members if member.name == name]
        if members:
            return service, members
    raise ServiceError(f"{name} was not started")


def _answers(service: Service, member: Member, *, peers: int) -> bool:
    """True when the member does real work; a broker must also know of `peers` brokers."""
    match service.name:
        case "kafka" | "kafka3":
            return kafka.is_ready(member, peers)
        case "redis":
            return redis.is_ready(member)
        case "postgres":
            return postgres.is_ready(member)


def _wait_until_ready(service: Service, members: list[Member]) -> None:
    for member in members:
        _wait_until_member_ready(service, member)


def _wait_until_member_ready(service: Service, member: Member) -> None:
    def is_decided() -> bool:
        # Brokers that a test has killed on purpose are not waited for.
        peers = sum(is_alive(peer) for peer in service.members)
        return not is_alive(member) or _answers(service, member, peers=peers)

    if not holds_within(_START_TIME, is_decided):
        _raise_failure(member, f"does not answer after {_START_TIME:.0f} s")
    if not is_alive(member):
        _raise_failure(member, "ended")


def _raise_failure(member: Member, what: str) -> NoReturn:
    log = Path(member.log).read_text(errors="replace")
    last_lines = "\n".join(log.splitlines()[-15:])
    error = _PortTakenError if "ddress already in use" in last_lines else ServiceError
    raise error(f"{member.name} {what}; its log {member.log} ends with:\n{last_lines}")
