"""SaverSettings, KafkaSaverConfig: all that can be set about a saver; connection strings."""

from __future__ import annotations

from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from eventstore.config import KafkaConfig
from projector.catch_up import DEFAULT_DEADLINE, DEFAULT_PATIENCE
from projector.config import ProjectorConfig

from .errors import InvalidConfigError
from .place import ReadLevel

REDIS_SCHEMES: Final = ("redis://", "rediss://", "unix://")


class SaverSettings(BaseModel):
    """How a saver reads and projects, wherever log and view are. Frozen; unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    projector: ProjectorConfig | None = ProjectorConfig()
    """The projector inside this process; None when services do all the applying."""

    read_level: ReadLevel = ReadLevel.LINEARIZABLE
    """What a read is certain to see, unless the call says otherwise."""

    read_timeout: float = Field(default=DEFAULT_DEADLINE, gt=0, allow_inf_nan=False)
    """How long, in seconds, a read may take to bring the view to what it wants to see."""

    read_patience: float = Field(default=DEFAULT_PATIENCE, ge=0, allow_inf_nan=False)
    """How long, in seconds, a read waits for a projector before it applies the log itself."""

    reads_plain: bool = False
    """Whether a saver with an `EncryptedSerializer` also reads what was stored in plain."""

    seal_metadata: bool = False
    """Whether metadata is encrypted like values. `run_id` never is: runs are found by it."""

    readable_metadata: frozenset[str] = frozenset()
    """Keys of metadata that are not encrypted with `seal_metadata` either."""

    remembered_checkpoints: int = Field(default=16_384, ge=64)
    """How many checkpoints a saver remembers, so that what continues them needs no read."""

    @model_validator(mode="after")
    def _metadata_is_sealed_where_some_is_readable(self) -> Self:
        if self.readable_metadata and not self.seal_metadata:
            raise ValueError("readable_metadata means nothing without seal_metadata")
        return self


class KafkaSaverConfig(SaverSettings):
    """A saver's settings and where its log and view are.

    Either `kafka` and `redis_url`, or `sqlite_path`.
    """

    kafka: KafkaConfig | None = None
    """The log on Kafka."""

    redis_url: SecretStr | None = None
    """The view in Redis or Valkey: `redis://`, `rediss://` or `unix://`, as redis-py takes it."""

    sqlite_path: str | None = None
    """Log and view in one SQLite file, or `:memory:`."""

    @model_validator(mode="after")
    def _wiring_is_complete(self) -> Self:
        if self.sqlite_path is not None:
            if self.kafka is not None or self.redis_url is not None:
                raise ValueError("sqlite_path excludes kafka and redis_url")
        elif self.kafka is None or self.redis_url is None:
            raise ValueError("either kafka and redis_url are needed, or sqlite_path")
        return self

    def servers(self) -> tuple[KafkaConfig, SecretStr]:
        """Return the log's and the view's addresses, of a config without `sqlite_path`."""
        if self.kafka is None or self.redis_url is None:
            raise ValueError("kafka and redis_url are not set")
        return self.kafka, self.redis_url

    @classmethod
    def from_conn_string(cls, conn_string: str, **settings: Any) -> Self:
        """Return the config that a connection string means; `settings` are further fields.

        `sqlite:///relative/path`, `sqlite:////absolute/path`, `sqlite:///:memory:`, or
        `kafka://host:9092,host2:9092/topic?redis=redis://host:6379/0`. In the latter the query also
        takes the fields of `KafkaConfig`; a Redis URL with `&` in it must be percent-encoded.

        Raises:
            InvalidConfigError: The string means nothing of that; no message shows a secret.
        """
        try:
            parts = urlsplit(conn_string)
        except ValueError:
            raise InvalidConfigError("conn_string", reason="not a valid URL") from None
        if not parts.scheme:
            raise InvalidConfigError("conn_string", reason="expected sqlite:///… or kafka://…")
        if parts.scheme == "sqlite":
            return cls(sqlite_path=_sqlite_path(conn_string), **settings)
        if parts.scheme != "kafka":
            raise InvalidConfigError(
                "conn_string",
                reason=f"expected sqlite:///… or kafka://…, found the scheme {parts.scheme!r}",
            )
        query = parse_qsl(parts.query, keep_blank_values=True)
        redis = [value for name, value in query if name == "redis"]
        if len(redis) != 1 or not redis[0].startswith(REDIS_SCHEMES):
            raise InvalidConfigError(
                "conn_string", reason="needs ?redis=redis://host:port/db, exactly once"
            )
        rest = urlencode([pair for pair in query if pair[0] != "redis"])
        try:
            kafka = KafkaConfig.from_url(parts._replace(query=rest).geturl())
            return cls(kafka=kafka, redis_url=SecretStr(redis[0]), **settings)
        except ValidationError as error:
            raise InvalidConfigError("conn_string", reason=_in_short(error)) from error
        except ValueError as error:
            raise InvalidConfigError("conn_string", reason=str(error)) from error


def _in_short(error: ValidationError) -> str:
    """Return which fields are wrong and why, in one line and without what was given."""
    wrong: list[str] = []
    for each in error.errors(include_url=False, include_input=False):
        field = ".".join(str(part) for part in each["loc"])
        wrong.append(f"{field}: {each['msg']}" if field else each["msg"])
    return "; ".join(wrong)


def _sqlite_path(conn_string: str) -> str:
    rest = conn_string.removeprefix("sqlite:")
    if not rest.startswith("///") or len(rest) == len("///"):
        raise InvalidConfigError(
            "conn_string",
            reason="expected sqlite:///relative/path, sqlite:////absolute/path or "
            "sqlite:///:memory:",
        )
    path = rest.removeprefix("///")
    if "?" in path or "#" in path:
        raise InvalidConfigError("conn_string", reason="a SQLite path takes no ? and no #")
    return path
