"""The state file: which servers were started, by pid. Read and written under one file lock."""

import contextlib
import fcntl
import json
from collections.abc import Generator
from pathlib import Path

from .model import Service, ServiceName


class StateFile:
    """The services of one folder, shared by every process that uses that folder."""

    def __init__(self, home: Path) -> None:
        """`home` is the folder that holds the state, the data and the logs."""
        self._home = home
        self._path = home / "state.json"

    @contextlib.contextmanager
    def locked(self) -> Generator[dict[ServiceName, Service]]:
        """The services, for this caller alone; `save` what changes before the block ends.

        Another process, or another OS thread, waits here until the block ends.
        """
        self._home.mkdir(parents=True, exist_ok=True)
        with (self._home / "lock").open("w") as lock:
            # Released when the file is closed, so a killed process never leaves it locked.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._load()

    def save(self, services: dict[ServiceName, Service]) -> None:
        """Replaces the state in one step: a crash leaves the old or the new one."""
        scratch = self._path.with_suffix(".new")
        content = [service.to_json() for service in services.values()]
        scratch.write_text(json.dumps(content, indent=2) + "\n")
        scratch.replace(self._path)

    def _load(self) -> dict[ServiceName, Service]:
        if not self._path.exists():
            return {}
        found = [Service.from_json(data) for data in json.loads(self._path.read_text())]
        return {service.name: service for service in found}
