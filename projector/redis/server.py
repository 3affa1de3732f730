"""The connection to the server: commands and scripts out, answers or our own errors back."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from projector.errors import UnsafeViewError, ViewUnavailableError

from .scripts import Script

CALL_TIMEOUT: Final = 5.0
"""Seconds until a call that gets no answer counts as failed."""
MAX_CONNECTIONS: Final = 32
"""Connections of one view; calls beyond that number wait for one to come free."""
_CURE = "set maxmemory-policy to noeviction, so that a full server refuses instead of forgetting"


def client_at(url: str, **options: Any) -> Redis:
    """Return a client with a connection pool of its own.

    Raises:
        ValueError: It is not a Redis URL.
    """
    defaults: dict[str, Any] = {
        # A call has one deadline of its own, which costs less than the client's for each part.
        "socket_timeout": None,
        "timeout": None,
        "max_connections": MAX_CONNECTIONS,
        # Once and at once: for a pooled connection that the server has closed meanwhile.
        "retry": Retry(NoBackoff(), 1),
    }
    # The library's own annotations are incomplete here.
    pools = cast("Any", BlockingConnectionPool)
    try:
        return Redis.from_pool(pools.from_url(url, **{**defaults, **options}))
    except ValueError:
        # The cause may quote a part of the URL that is a password.
        raise ValueError(
            "not a Redis URL: it begins with redis://, rediss:// or unix://, and special "
            "characters of user and password are percent-encoded"
        ) from None


class Server:
    """A client of one Redis. Nothing of the client library leaves it, exceptions included."""

    def __init__(
        self, client: Redis, *, prefix: str, call_timeout: float, owns_client: bool
    ) -> None:
        settings: dict[str, Any] = client.connection_pool.connection_kwargs
        if settings.get("decode_responses"):
            raise ValueError("the client must be made with decode_responses=False")
        # The library's own annotations are incomplete for what is called here.
        self._client = cast("Any", client)
        self._call_timeout = call_timeout
        self._owns_client = owns_client
        self._is_closed = False
        self.name = f"Redis view {prefix!r} at {_address(settings)}"

    async def call(self, script: Script, keys: list[bytes], args: list[bytes]) -> Any:
        """Run a script."""
        count = b"%d" % len(keys)
        try:
            return await self._execute(b"EVALSHA", script.sha, count, *keys, *args)
        except NoScriptError:
            # The server was restarted or its scripts were flushed. EVAL stores the script again.
            return await self.command(b"EVAL", script.text, count, *keys, *args)
        except (RedisError, OSError) as error:
            raise self._unavailable(error) from error

    async def command(self, *args: bytes) -> Any:
        """Run a plain command."""
        try:
            return await self._execute(*args)
        except (RedisError, OSError) as error:
            raise self._unavailable(error) from error

    async def verify(self) -> None:
        """Make sure that the server never drops keys by itself."""
        try:
            async with asyncio.timeout(self._call_timeout):
                memory: dict[str, Any] = await self._client.info("memory")
        except (RedisError, OSError) as error:
            raise self._unavailable(error) from error
        policy = memory.get("maxmemory_policy", "unknown")
        if policy != "noeviction":
            raise UnsafeViewError(
                self.name, setting="maxmemory-policy", value=str(policy), cure=_CURE
            )

    async def close(self) -> None:
        """Close the client if it was opened here."""
        self._is_closed = True
        if self._owns_client:
            await self._client.aclose()

    async def _execute(self, *args: bytes) -> Any:
        if self._is_closed:
            raise ViewUnavailableError(self.name, reason="it is closed")
        # A call that ends half-way, by this deadline or by cancellation, must not leave its answer
        # to the connection's next user: the client closes such a connection.
        async with asyncio.timeout(self._call_timeout):
            return await self._client.execute_command(*args)

    def _unavailable(self, error: Exception) -> ViewUnavailableError:
        told = str(error) or f"no answer within {self._call_timeout:g} s"
        return ViewUnavailableError(self.name, reason=f"{type(error).__name__}: {told}")


def _address(settings: dict[str, Any]) -> str:
    """Return where a client connects to, of which no part is a secret."""
    database = settings.get("db") or 0
    if "path" in settings:
        return f"{settings['path']}, database {database}"
    return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}/{database}"
