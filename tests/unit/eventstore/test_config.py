"""The config refuses what cannot work, before anything connects, and shows no secret."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaClient, AIOKafkaProducer
from pydantic import SecretStr, ValidationError

from eventstore.config import CLIENT_OPTIONS, KafkaConfig
from eventstore.kafka.client import client_options

LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_username": "user",
    "sasl_password": "hunter2",
}


def test_every_field_has_a_default_and_a_sentence() -> None:
    """A config of nothing is complete, and its source explains each field."""
    config = KafkaConfig()
    source = inspect.getsource(KafkaConfig).splitlines()
    for name in type(config).model_fields:
        start = next(i for i, line in enumerate(source) if line.startswith(f"    {name}: "))
        explained = next(line for line in source[start + 1 :] if line.startswith('    """'))
        assert explained.rstrip('"').rstrip().endswith("."), name


def test_config_is_frozen_and_takes_no_unknown_key() -> None:
    """A misspelt key is an error and not a default."""
    with pytest.raises(ValidationError, match="Extra inputs"):
        KafkaConfig.model_validate({"bootstrap_server": "host:1"})
    with pytest.raises(ValidationError, match="frozen"):
        KafkaConfig().topic = "other"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topic": "no spaces"}, "topic"),
        ({"bootstrap_servers": ""}, "host:port"),
        ({"bootstrap_servers": "host:port"}, "host:port"),
        ({"partitions": 0}, "partitions"),
        ({"append_timeout": 0}, "append_timeout"),
        ({"append_timeout": float("inf")}, "append_timeout"),
        ({"request_timeout": 31}, "request_timeout must not be longer than append_timeout"),
        (
            {"min_compaction_lag": 9, "max_compaction_lag": 8},
            "min_compaction_lag must not be longer than max_compaction_lag",
        ),
        (
            {"max_batch_bytes": 5_000, "max_record_bytes": 4_000},
            "max_batch_bytes must not be larger than max_record_bytes",
        ),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile needs security_protocol SSL or SASL_SSL"),
        (
            {"security_protocol": "SSL", "ssl_keyfile": "key.pem"},
            "ssl_keyfile and ssl_key_password need ssl_certfile",
        ),
        ({"sasl_username": "user"}, "sasl_username and sasl_password need security_protocol"),
        ({"security_protocol": "SASL_SSL"}, "PLAIN needs sasl_username and sasl_password"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs sasl_oauth_token_provider in client_options",
        ),
        ({"client_options": {"acks": 1}}, "client_options has acks"),
        ({"client_options": {"bootstrap_servers": "x:1"}}, "client_options has bootstrap_servers"),
    ],
)
def test_fields_that_cannot_work_are_refused(fields: dict[str, Any], message: str) -> None:
    """Each refusal names the fields."""
    with pytest.raises(ValidationError, match=message):
        KafkaConfig.model_validate(fields)


def test_no_secret_is_ever_shown() -> None:
    """Not in the representation, and not in an error about another field."""
    secret = {
        **LOGIN,
        "security_protocol": "SASL_SSL",
        "ssl_certfile": "c",
        "ssl_key_password": "hunter2",
    }
    config = KafkaConfig.model_validate(
        {**secret, "client_options": {"sasl_oauth_token_provider": "hunter2"}}
    )
    assert "hunter2" not in repr(config) + str(config)
    with pytest.raises(ValidationError) as refused:
        KafkaConfig.model_validate({**secret, "request_timeout": 99})
    assert "hunter2" not in str(refused.value) + repr(refused.value)
    with pytest.raises(ValueError, match="Extra") as unknown:
        KafkaConfig.from_url("kafka://user:hunter2@host:1/topic?typo=1")
    assert "hunter2" not in str(unknown.value)


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("kafka://host:1", {"bootstrap_servers": "host:1"}),
        ("kafka:///topic", {"topic": "topic"}),
        (
            "kafka://a:1,b:2/topic?partitions=3&append_timeout=5.5&request_timeout=2",
            {
                "bootstrap_servers": "a:1,b:2",
                "topic": "topic",
                "partitions": 3,
                "append_timeout": 5.5,
                "request_timeout": 2.0,
            },
        ),
        (
            "kafka://us%40er:p%3Aw@host:1/topic",
            {
                "bootstrap_servers": "host:1",
                "topic": "topic",
                "security_protocol": "SASL_SSL",
                "sasl_username": "us@er",
                "sasl_password": SecretStr("p:w"),
            },
        ),
        (
            "kafka://u:p@host:1/t?security_protocol=SASL_PLAINTEXT&sasl_mechanism=SCRAM-SHA-512",
            {
                "bootstrap_servers": "host:1",
                "topic": "t",
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_username": "u",
                "sasl_password": SecretStr("p"),
            },
        ),
    ],
)
def test_url_says_the_same_as_fields(url: str, fields: dict[str, Any]) -> None:
    """What people paste becomes the config that they meant."""
    assert KafkaConfig.from_url(url) == KafkaConfig(**fields)


@pytest.mark.parametrize(
    "url",
    [
        "http://host:1/topic",
        "host:1",
        "kafka://host:1/t?client_options=x",
        "kafka://h:1/t?x",
        "kafka://[/t",
    ],
)
def test_url_that_is_none_of_ours_is_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
        KafkaConfig.from_url(url)


def test_environment_is_read_only_when_asked() -> None:
    """The prefixed variables are the fields; a misspelt one is an error."""
    config = KafkaConfig.from_env(
        {"LANGGRAPH_KAFKA_TOPIC": "t", "LANGGRAPH_KAFKA_PARTITIONS": "2", "PATH": "/bin"}
    )
    assert config == KafkaConfig(topic="t", partitions=2)
    with pytest.raises(ValidationError, match="Extra"):
        KafkaConfig.from_env({"LANGGRAPH_KAFKA_TOPICS": "t"})


@pytest.mark.parametrize("client", [AIOKafkaClient, AIOKafkaProducer])
def test_client_options_are_parameters_of_every_client(client: type[Any]) -> None:
    """What may be given is what aiokafka takes, and nothing that a field stands for."""
    parameters = set(inspect.signature(client).parameters)
    assert parameters >= CLIENT_OPTIONS
    given = client_options(KafkaConfig(**LOGIN, client_options={"retry_backoff_ms": 7}))
    assert parameters >= set(given)
    assert given["retry_backoff_ms"] == 7
    assert (given["sasl_plain_username"], given["sasl_plain_password"]) == ("user", "hunter2")
    assert not CLIENT_OPTIONS.intersection(KafkaConfig.model_fields)


def test_tls_is_verified_unless_told_otherwise() -> None:
    """The system's certificates and the host's name count by default."""
    context = client_options(KafkaConfig(security_protocol="SSL"))["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
    lax = KafkaConfig(security_protocol="SSL", ssl_check_hostname=False)
    assert not client_options(lax)["ssl_context"].check_hostname


def test_certificate_that_is_missing_is_named_by_the_system(tmp_path: Path) -> None:
    """A file that cannot be read fails before anything connects."""
    config = KafkaConfig(security_protocol="SSL", ssl_cafile=tmp_path / "missing.pem")
    with pytest.raises(FileNotFoundError):
        client_options(config)


@pytest.mark.parametrize(
    "fields",
    [
        {"sasl_mechanism": "GSSAPI"},
        {
            "sasl_mechanism": "OAUTHBEARER",
            "client_options": {"sasl_oauth_token_provider": object()},
        },
        {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "u", "sasl_password": "p"},
    ],
)
def test_every_way_to_log_in_can_be_configured(fields: dict[str, Any]) -> None:
    """Each mechanism needs its own facts and no others."""
    config = KafkaConfig(security_protocol="SASL_SSL", **fields)
    options = client_options(config)
    assert options["sasl_mechanism"] == fields["sasl_mechanism"]
    assert "ssl_context" in options
