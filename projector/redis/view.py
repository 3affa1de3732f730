"""RedisView: the port on Redis core commands and scripts."""

from __future__ import annotations

from typing import Any, Self

from redis.asyncio import Redis

from .keys import KeySpace
from .reader import RedisReader
from .server import CALL_TIMEOUT, Server, client_at
from .writer import RedisWriter


class RedisView(RedisWriter, RedisReader):
    """A `CheckpointView` in one Redis; several may share a server, told apart by their prefix.

    Any number of processes may use the same view at the same time. `prefix` names the deployment,
    the log's topic for instance. A client that is handed in must answer in bytes
    (`decode_responses=False`); `close` closes it only with `owns_client`.
    """

    def __init__(
        self,
        client: Redis,
        *,
        prefix: str,
        call_timeout: float = CALL_TIMEOUT,
        owns_client: bool = False,
    ) -> None:
        keys = KeySpace(prefix)
        server = Server(client, prefix=prefix, call_timeout=call_timeout, owns_client=owns_client)
        super().__init__(server, keys)

    @classmethod
    def from_url(
        cls, url: str, *, prefix: str, call_timeout: float = CALL_TIMEOUT, **client_options: Any
    ) -> Self:
        """Return a view with a connection pool of its own, which `close` closes.

        A call fails after `call_timeout` seconds without an answer. `client_options` are those of a
        redis-py connection pool; by default all calls share 32 connections.
        """
        client = client_at(url, **client_options)
        return cls(client, prefix=prefix, call_timeout=call_timeout, owns_client=True)

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
