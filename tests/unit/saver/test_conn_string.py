"""Connection strings: what people paste, and what they are told when it means nothing."""

from __future__ import annotations

import pytest

from langgraph.checkpoint.kafka import InvalidConfigError, KafkaSaverConfig

REDIS = "redis=redis://:hunter2@host:6379/0"


@pytest.mark.parametrize(
    ("conn_string", "path"),
    [
        ("sqlite:///relative/path.db", "relative/path.db"),
        ("sqlite:////absolute/path.db", "/absolute/path.db"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite:///with space.db", "with space.db"),
    ],
)
def test_sqlite_has_a_path(conn_string: str, path: str) -> None:
    assert KafkaSaverConfig.from_conn_string(conn_string).sqlite_path == path


def test_kafka_has_servers_topic_and_redis() -> None:
    config = KafkaSaverConfig.from_conn_string(f"kafka://one:9092,two:9092/agents?{REDIS}")
    assert config.kafka is not None
    assert config.kafka.bootstrap_servers == "one:9092,two:9092"
    assert config.kafka.topic == "agents"
    assert config.redis_url is not None
    assert config.redis_url.get_secret_value() == "redis://:hunter2@host:6379/0"


def test_query_takes_fields_of_the_log() -> None:
    config = KafkaSaverConfig.from_conn_string(f"kafka://one:9092/agents?{REDIS}&partitions=32")
    assert config.kafka is not None
    assert config.kafka.partitions == 32


def test_settings_are_fields_of_the_saver() -> None:
    config = KafkaSaverConfig.from_conn_string("sqlite:///a.db", projector=None, read_timeout=3)
    assert config.projector is None
    assert config.read_timeout == 3


@pytest.mark.parametrize(
    ("conn_string", "told"),
    [
        ("agent.db", "expected sqlite:///… or kafka://…"),
        ("sqlite://agent.db", "expected sqlite:///relative/path"),
        ("sqlite:///", "expected sqlite:///relative/path"),
        ("sqlite:///agent.db?mode=ro", "takes no ?"),
        ("postgres://user:hunter2@host/db", "found the scheme 'postgres'"),
        ("kafka://one:9092/agents", "needs ?redis="),
        ("kafka://one:9092/agents?redis=host:6379", "needs ?redis="),
        ("kafka://one:9092/agents?redis=http://host", "needs ?redis="),
        (f"kafka://one:9092/agents?{REDIS}&{REDIS}", "exactly once"),
        (f"kafka://one:port/agents?{REDIS}", "bootstrap_servers: "),
        (f"kafka://one:9092/agents/more?{REDIS}", "topic: "),
        (f"kafka://one:9092/agents?{REDIS}&partitions=many", "partitions: "),
        (f"kafka://one:9092/agents?{REDIS}&partitons=8", "partitons: "),
        (f"kafka://user:hunter2@one:9092/agents?{REDIS}&sasl_mechanism=NONE", "sasl_mechanism: "),
    ],
)
def test_what_means_nothing_is_refused(conn_string: str, told: str) -> None:
    """In one line that names what is wrong, and without any secret."""
    with pytest.raises(InvalidConfigError) as caught:
        KafkaSaverConfig.from_conn_string(conn_string)
    message = str(caught.value)
    assert told in message
    assert "\n" not in message
    assert "hunter2" not in message


def test_no_secret_is_shown() -> None:
    config = KafkaSaverConfig.from_conn_string(f"kafka://user:hunter2@one:9092/agents?{REDIS}")
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config)
