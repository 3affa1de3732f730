"""KafkaConfig: everything that can be set about the log on Kafka. Durations are in seconds.

Nothing here connects, reads a file or looks into the environment by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

DEFAULT_TOPIC: Final = "langgraph-checkpoints"
DEFAULT_PARTITIONS: Final = 8
DEFAULT_APPEND_TIMEOUT: Final = 30.0
DEFAULT_REQUEST_TIMEOUT: Final = 10.0

DEFAULT_RECORD_BYTES: Final = 1_000_000
"""Below Kafka's default limit for a batch (`max.message.bytes`, 1,048,588), framing included."""

DEFAULT_MAX_COMPACTION_LAG: Final = 7 * 24 * 3600.0

ENVIRONMENT_PREFIX: Final = "LANGGRAPH_KAFKA_"

CLIENT_OPTIONS: Final = frozenset(
    {
        "connections_max_idle_ms",
        "metadata_max_age_ms",
        "retry_backoff_ms",
        "sasl_kerberos_domain_name",
        "sasl_kerberos_service_name",
        "sasl_oauth_token_provider",
    }
)
"""aiokafka's parameters that every client takes and that no field of `KafkaConfig` stands for."""

_LARGEST_BATCH: Final = 1_000_000

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class KafkaConfig(BaseModel):
    """Where the log is, how to get in, and how long to wait. Frozen; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    bootstrap_servers: str = "localhost:9092"
    """The first brokers to ask: `host:port`, several with commas between."""

    topic: str = Field(default=DEFAULT_TOPIC, pattern=r"^[A-Za-z0-9._-]{1,249}$")
    """The topic that holds the log."""

    client_id: str = "langgraph-checkpoint-kafka"
    """The name under which the broker's own metrics and logs list this process."""

    partitions: int = Field(default=DEFAULT_PARTITIONS, ge=1, le=100_000)
    """How many partitions a new topic gets, fixed for its life; an existing topic keeps its own."""

    replication_factor: int | None = Field(default=None, ge=1)
    """On how many brokers a new topic stands; None: on three, or on all if there are fewer."""

    min_compaction_lag: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """For how long, in seconds, an erased record of a new topic is kept at least."""

    max_compaction_lag: Seconds = DEFAULT_MAX_COMPACTION_LAG
    """After how long, in seconds, a new topic's erased records must be cleaned; less costs I/O."""

    append_timeout: Seconds = DEFAULT_APPEND_TIMEOUT
    """How long, in seconds, an append may take before its outcome is looked up in the log."""

    request_timeout: Seconds = DEFAULT_REQUEST_TIMEOUT
    """How long, in seconds, any other request may take, its retries included."""

    max_record_bytes: int = Field(default=DEFAULT_RECORD_BYTES, ge=1_000, le=100_000_000)
    """The largest record in bytes; the topic's own limit counts too if it is lower."""

    max_batch_bytes: int = Field(default=128 * 1024, ge=1_000, le=_LARGEST_BATCH)
    """How many bytes of records of one partition go out together at most."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to talk to the brokers: with TLS (`SSL`), a login (`SASL`), both, or neither."""

    ssl_cafile: Path | None = None
    """The certificates (PEM) that sign the brokers'; None: those of the system."""

    ssl_certfile: Path | None = None
    """This client's own certificate chain (PEM), for mutual TLS."""

    ssl_keyfile: Path | None = None
    """The private key (PEM) of `ssl_certfile`, unless it stands in the same file."""

    ssl_key_password: SecretStr | None = None
    """The password of the private key."""

    ssl_check_hostname: bool = True
    """Whether a broker's certificate must name the host it was reached at."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"] = (
        "PLAIN"
    )
    """How to log in, where `security_protocol` has SASL."""

    sasl_username: str | None = None
    """The user of PLAIN and SCRAM."""

    sasl_password: SecretStr | None = None
    """The password of PLAIN and SCRAM."""

    client_options: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    """More aiokafka parameters for every client, by its own names: those of `CLIENT_OPTIONS`."""

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return the config that `kafka://[user:password@]host:port[,host:port]/topic?field=value`
        describes.

        The query takes every field but `client_options` by its name. A user makes SASL_SSL the
        default of `security_protocol`.

        Raises:
            ValueError: The URL or a value in it is not valid; no message shows the password.
        """  # noqa: D205 - the form of the URL does not fit beside the verb
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ValueError("not a valid URL") from None
        if parts.scheme != "kafka":
            raise ValueError(f"expected a URL of the form kafka://…, found {parts.scheme!r}")
        login, _, servers = parts.netloc.rpartition("@")
        fields: dict[str, Any] = {}
        if servers:
            fields["bootstrap_servers"] = servers
        if parts.path.strip("/"):
            fields["topic"] = parts.path.strip("/")
        if login:
            user, _, password = login.partition(":")
            fields["sasl_username"] = unquote(user)
            fields["sasl_password"] = unquote(password)
            fields["security_protocol"] = "SASL_SSL"
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        for name, value in query:
            if name == "client_options":
                raise ValueError("client_options cannot stand in a URL")
            fields[name] = value
        return cls.model_validate(fields)

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Self:
        """Return the config that the variables `LANGGRAPH_KAFKA_<FIELD>` describe.

        Raises:
            ValueError: A variable has the prefix and no field has that name, or a value is wrong.
        """
        return cls.model_validate(
            {
                name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
                for name, value in environment.items()
                if name.startswith(ENVIRONMENT_PREFIX)
            }
        )

    @field_validator("bootstrap_servers")
    @classmethod
    def _servers_are_named(cls, value: str) -> str:
        for server in value.split(","):
            host, _, port = server.strip().rpartition(":")
            if not (host or port) or (host and not port.isdecimal()):
                raise ValueError("expected host:port, several with commas between")
        return value

    @field_validator("client_options")
    @classmethod
    def _options_are_known(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        unknown = sorted(set(value) - CLIENT_OPTIONS)
        if unknown:
            raise ValueError(
                f"client_options has {', '.join(unknown)}; it may have: "
                f"{', '.join(sorted(CLIENT_OPTIONS))}"
            )
        return dict(value)

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.request_timeout > self.append_timeout:
            raise ValueError("request_timeout must not be longer than append_timeout")
        if self.min_compaction_lag > self.max_compaction_lag:
            raise ValueError("min_compaction_lag must not be longer than max_compaction_lag")
        if self.max_batch_bytes > self.max_record_bytes:
            raise ValueError("max_batch_bytes must not be larger than max_record_bytes")
        self._check_tls()
        self._check_login()
        return self

    def _check_tls(self) -> None:
        given = [
            name
            for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_key_password")
            if getattr(self, name) is not None
        ]
        if given and "SSL" not in self.security_protocol.split("_"):
            raise ValueError(f"{given[0]} needs security_protocol SSL or SASL_SSL")
        if self.ssl_certfile is None and (self.ssl_keyfile or self.ssl_key_password):
            raise ValueError("ssl_keyfile and ssl_key_password need ssl_certfile")

    def _check_login(self) -> None:
        login = self.sasl_username is not None, self.sasl_password is not None
        if not self.security_protocol.startswith("SASL"):
            if any(login):
                raise ValueError(
                    "sasl_username and sasl_password need security_protocol SASL_SSL or "
                    "SASL_PLAINTEXT"
                )
            return
        if self.sasl_mechanism == "OAUTHBEARER":
            if "sasl_oauth_token_provider" not in self.client_options:
                raise ValueError(
                    "sasl_mechanism OAUTHBEARER needs sasl_oauth_token_provider in client_options"
                )
        elif self.sasl_mechanism != "GSSAPI" and not all(login):
            raise ValueError(
                f"sasl_mechanism {self.sasl_mechanism} needs sasl_username and sasl_password"
            )
