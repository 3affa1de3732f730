"""Fixtures that start real servers, or find them running. None of them ever skips a test."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from services import ServiceError, ServiceName, Services, default_services

pytest_plugins = ["tests.wirings"]

# A fixture's name and the service behind it; a variable of the environment replaces the service.
_SERVICES: dict[str, tuple[ServiceName, str]] = {
    "kafka_bootstrap": ("kafka", "LGK_KAFKA"),
    "kafka3_bootstrap": ("kafka3", "LGK_KAFKA3"),
    "redis_url": ("redis", "LGK_REDIS"),
    "postgres_url": ("postgres", "LGK_POSTGRES"),
}
_OWN = {"own_services", "own_redis_url"}

_held = pytest.StashKey[contextlib.ExitStack]()
_found = pytest.StashKey[dict[ServiceName, str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_held] = contextlib.ExitStack()
    config.stash[_found] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test that asks for a server, before `-m` chooses."""
    for item in items:
        if _OWN.union(_SERVICES).intersection(_fixture_names(item)):
            item.add_marker(pytest.mark.services)
        if "postgres_url" in _fixture_names(item):
            item.add_marker(pytest.mark.benchmarks)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts what the chosen tests need, outside of any test's time limit."""
    if session.config.option.collectonly:
        return
    wanted = {name for item in session.items for name in _fixture_names(item)}
    try:
        for fixture in sorted(wanted.intersection(_SERVICES)):
            _address(session.config, fixture)
    except ServiceError as error:
        pytest.exit(f"a service did not come up: {error}", returncode=1)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Lets go of the servers: those that nobody else uses or keeps stop."""
    config.stash[_held].close()


@pytest.fixture(scope="session")
def kafka_bootstrap(pytestconfig: pytest.Config) -> str:
    """The bootstrap address of one real broker."""
    return _address(pytestconfig, "kafka_bootstrap")


@pytest.fixture(scope="session")
def kafka3_bootstrap(pytestconfig: pytest.Config) -> str:
    """The bootstrap addresses of three real brokers."""
    return _address(pytestconfig, "kafka3_bootstrap")


@pytest.fixture(scope="session")
def redis_url(pytestconfig: pytest.Config) -> str:
    """The URL of a real Redis that other tests use at the same time: no FLUSHALL here."""
    return _address(pytestconfig, "redis_url")


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> str:
    """The URL of a real PostgreSQL."""
    return _address(pytestconfig, "postgres_url")


@pytest.fixture
def topic() -> str:
    """A topic name that nothing has used before."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def own_services(tmp_path: Path) -> Iterator[Services]:
    """Servers for one test alone, to be killed, paused and restarted."""
    services = Services(tmp_path / "services")
    try:
        yield services
    finally:
        services.stop()


@pytest.fixture
def own_redis_url(own_services: Services) -> str:
    """The URL of an empty Redis for one test alone."""
    address = own_services.start("redis").redis
    assert address is not None
    return address


def _address(config: pytest.Config, fixture: str) -> str:
    name, variable = _SERVICES[fixture]
    given = os.environ.get(variable)
    if given:
        return given
    found = config.stash[_found]
    if name not in found:
        held = config.stash[_held].enter_context(default_services().held(name))
        found[name] = str(getattr(held, name))
    return found[name]


def _fixture_names(item: pytest.Item) -> set[str]:
    return set(item.fixturenames) if isinstance(item, pytest.Function) else set()
