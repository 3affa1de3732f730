"""RedisView: the port on Redis core commands and scripts."""

from __future__ import annotations

from typing import Any, Self

from redis.asyncio import Redis

from .keys import KeySpace
from .reader import RedisReader
from .server import Server, client_at
from .writer import RedisWriter


class RedisView(RedisWriter, RedisReader):
    """A `CheckpointView` in one Redis; several may share a server, told apart by their prefix.

    Any number of processes may use the same view at the same time. `prefix` names the deployment,
    the log's topic for instance. A client that is handed in must answer in bytes
    (`decode_responses=False`); `close` closes it only with `owns_client`.
    """

    def __init__(self, client: Redis, *, prefix: str, owns_client: bool = False) -> None:
        keys = KeySpace(prefix)
        super().__init__(Server(client, prefix=prefix, owns_client=owns_client), keys)

    @classmethod
    def from_url(cls, url: str, *, prefix: str, **client_options: Any) -> Self:
        """Return a view with a connection pool of its own, which `close` closes.

        `client_options` are those of a redis-py connection pool. By default a call fails after 5 s
        without an answer, and 32 connections are shared by all calls.
        """
        return cls(client_at(url, **client_options), prefix=prefix, owns_client=True)

    @property
    def name(self) -> str:
        """See `ViewWriter`."""
        return self._server.name

    @property
    def server(self) -> Server:
        """Return the connection, for what else is kept beside the view."""
        return self._server

    @property
    def keys(self) -> KeySpace:
        """Return the names of the keys, for what else is kept beside the view."""
        return self._keys

    async def setup(self) -> None:
        """See `ViewWriter`."""
        await self._server.verify()

    async def close(self) -> None:
        """See `ViewWriter`."""
        await self._server.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._server.name}>"
