"""One connection to the cluster: requests to partition leaders, retried until a deadline.

All that this package knows of aiokafka's requests and answers is here and in `producer`; aiokafka
carries no types. Its consumer is not used: it answers only after its long poll, hides where control
records end, and cannot tell "gone" from "not there yet".
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaError,
    LeaderNotAvailableError,
    NoError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from eventstore.config import KafkaConfig
from eventstore.errors import LogClosedError, LogUnavailableError

T = TypeVar("T")

LATEST: Final = -1
EARLIEST: Final = -2

ENDS: Final = ConnectionGroup.DEFAULT
READS: Final = ConnectionGroup.COORDINATION
"""A second connection to the same broker, which aiokafka names after its own use of it: a broker
answers the requests of one connection in turn, and a short one must not wait for a megabyte."""

RETRY_INTERVAL: Final = 0.1
_METADATA_TIME: Final = 1.0
_READ_UNCOMMITTED: Final = 0
_CONSUMER: Final = -1

FINAL_ERRORS: Final = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
"""Asking again does not help. Everything else is asked again until the deadline: aiokafka calls
errors non-retriable whose codes it does not know, a fenced leader among them."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A broker's answer for one partition."""

    error: type[KafkaError]
    end: int
    """The high watermark."""
    records: bytes


def client_options(config: KafkaConfig) -> dict[str, Any]:
    """Return the parameters that every aiokafka client of this log is made with.

    Raises:
        OSError, ssl.SSLError: A certificate or key cannot be read.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": config.bootstrap_servers,
        "client_id": config.client_id,
        "security_protocol": config.security_protocol,
        **config.client_options,
    }
    if config.security_protocol.endswith("SSL"):
        options["ssl_context"] = _tls(config)
    if config.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = config.sasl_mechanism
        options["sasl_plain_username"] = config.sasl_username
        if config.sasl_password is not None:
            options["sasl_plain_password"] = config.sasl_password.get_secret_value()
    return options


def _tls(config: KafkaConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=config.ssl_cafile)
    context.check_hostname = config.ssl_check_hostname
    if config.ssl_certfile is not None:
        password = config.ssl_key_password
        context.load_cert_chain(
            config.ssl_certfile,
            config.ssl_keyfile,
            None if password is None else password.get_secret_value(),
        )
    return context


class ClusterClient:
    """Requests to a cluster, for one topic."""

    def __init__(self, config: KafkaConfig, options: Mapping[str, Any]) -> None:
        self.topic = config.topic
        self.timeout = config.request_timeout
        self._is_started = False
        self._is_closed = False
        self._client: Any = AIOKafkaClient(
            request_timeout_ms=int(config.request_timeout * 1000), **options
        )

    async def start(self) -> None:
        """Connect.

        Raises:
            LogUnavailableError: No broker answered in time.
        """
        try:
            await self.until_answered("connecting to the cluster", self._bootstrap)
            self._is_started = True
        except BaseException:
            await self.close()
            raise

    async def _bootstrap(self) -> None:
        """Make the first contact; when cancelled, come to its end first, if that is near.

        aiokafka leaves its first connection open when it is cancelled while it waits for metadata.
        """
        contact = asyncio.ensure_future(self._client.bootstrap())
        try:
            await asyncio.shield(contact)
        except asyncio.CancelledError:
            await asyncio.wait([contact], timeout=_METADATA_TIME)
            if not contact.cancel() and not contact.cancelled():
                contact.exception()  # so that nobody reports it as never looked at
            raise

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Requests under way raise `LogClosedError`."""
        self._is_closed = True
        await self._client.close()

    async def follow_topic(self) -> None:
        """Ask for the topic's metadata from now on. A missing topic would be created by that."""
        await asyncio.wait([self._client.set_topics([self.topic])], timeout=_METADATA_TIME)

    def partitions(self) -> Mapping[int, int]:
        """Return the known partitions with their leaders; -1 stands for none at present."""
        cluster = self._client.cluster
        found: set[int] = cluster.partitions_for_topic(self.topic) or set()
        return {p: self.leader(p) for p in found}

    def leader(self, partition: int) -> int:
        """Return the node that leads a partition, -1 if there is none or it is not known."""
        node = self._client.cluster.leader_for_partition(TopicPartition(self.topic, partition))
        return -1 if node is None else int(node)

    def brokers(self) -> int:
        """Return how many brokers the cluster has."""
        return len(self._client.cluster.brokers())

    async def refresh(self) -> None:
        """Ask for metadata again, and wait for it a while."""
        # A client that is closed meanwhile never answers.
        await asyncio.wait([self._client.force_metadata_update()], timeout=_METADATA_TIME)

    async def ask(self, request: Any, *, node: int | None = None, group: Any = ENDS) -> Any:
        """Send one request to one node, or any, and return its answer. Not retried."""
        if node is None:
            node = self._client.get_random_node()
        return await self._client.send(node, request, group=group)

    async def ask_controller(self, request: Any) -> Any:
        """Send one request to the controller, or the broker that speaks for it. Not retried."""
        controller = self._client.cluster.controller
        return await self.ask(request, node=None if controller is None else controller.nodeId)

    async def until_answered(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return what `attempt` returns, made again after an error until the request timeout.

        Raises:
            LogUnavailableError: Time is over, or an error that asking again does not cure.
            LogClosedError: The client was closed meanwhile.
        """
        last: BaseException | None = None
        try:
            async with asyncio.timeout(self.timeout):
                while True:
                    try:
                        return await attempt()
                    except FINAL_ERRORS as error:
                        raise LogUnavailableError(what, reason=str(error)) from error
                    except (KafkaError, OSError) as error:  # TimeoutError is an OSError
                        last = error
                    if self._is_closed:
                        raise LogClosedError(f"topic {self.topic}") from last
                    await asyncio.sleep(RETRY_INTERVAL)
                    # Before the first contact there is nobody to refresh anything.
                    if self._is_started:
                        await self.refresh()
        except TimeoutError as error:
            reason = f"no answer within {self.timeout:g} s"
            if last is not None:
                reason += f"; last error: {last!s}" if str(last) else f"; last error: {last!r}"
            raise LogUnavailableError(what, reason=reason) from last or error

    async def offsets(self, partitions: Collection[int], *, which: int) -> dict[int, int]:
        """Return the LATEST or EARLIEST offset of each partition, by one request per leader.

        Raises:
            LogUnavailableError: No answer in time.
        """
        return await self.until_answered(
            "asking for offsets", lambda: self._offsets(partitions, which)
        )

    async def _offsets(self, partitions: Collection[int], which: int) -> dict[int, int]:
        found: dict[int, int] = {}
        groups = self.by_leader(partitions)
        if len(groups) == 1:
            ((node, members),) = groups.items()
            return await self._offsets_at(node, members, which)
        answers = [self._offsets_at(node, members, which) for node, members in groups.items()]
        for answer in await asyncio.gather(*answers):
            found.update(answer)
        return found

    async def _offsets_at(self, node: int, partitions: list[int], which: int) -> dict[int, int]:
        topics = [(self.topic, [(p, which) for p in partitions])]
        answer = await self.ask(OffsetRequest(_CONSUMER, _READ_UNCOMMITTED, topics), node=node)
        found: dict[int, int] = {}
        for _, entries in answer.topics:
            for partition, code, _timestamp, offset in entries:
                error = for_code(code)
                if error is not NoError:
                    raise error(f"partition {partition}")
                found[partition] = offset
        if missing := set(partitions) - set(found):
            raise LeaderNotAvailableError(f"partitions {sorted(missing)}")
        return found

    def by_leader(self, partitions: Collection[int]) -> dict[int, list[int]]:
        """Return the partitions grouped by the node that leads them.

        Raises:
            LeaderNotAvailableError: One has none.
        """
        groups: dict[int, list[int]] = {}
        for partition in partitions:
            node = self.leader(partition)
            if node == -1:
                raise LeaderNotAvailableError(f"partition {partition}")
            groups.setdefault(node, []).append(partition)
        return groups

    async def fetch(
        self, node: int, offsets: Mapping[int, int], *, max_bytes: int, max_wait: float
    ) -> dict[int, Fetched]:
        """Fetch from the given offsets of partitions that one node leads. Not retried.

        A record beyond `max_bytes` is given all the same when it is the first.
        """
        wanted = [(partition, offset, max_bytes) for partition, offset in offsets.items()]
        request = FetchRequest(
            int(max_wait * 1000), 1, max_bytes, _READ_UNCOMMITTED, [(self.topic, wanted)]
        )
        answer = await self.ask(request, node=node, group=READS)
        found: dict[int, Fetched] = {}
        for _, entries in answer.topics:
            # What stands between differs from version to version.
            for partition, code, end, *_, records in entries:
                found[partition] = Fetched(for_code(code), end, records or b"")
        return found
