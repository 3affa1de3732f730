"""The files that Docker and the forge read: valid by their schemas, and true to the rest."""

import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

_ROOT = Path(__file__).parents[2]


def _schema(name: str) -> dict[str, Any]:
    schemas = importlib.resources.files("check_jsonschema.builtin_schemas")
    found: dict[str, Any] = json.loads((schemas / "vendor" / f"{name}.json").read_text())
    return found


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((_ROOT / "docker-compose.yml").read_text())
    return found


def test_compose_file_fits_the_compose_specification(compose: dict[str, Any]) -> None:
    jsonschema.validate(compose, _schema("compose-spec"))


def test_workflow_fits_its_schema() -> None:
    text = (_ROOT / ".github" / "workflows" / "ci.yml").read_text()
    # YAML 1.1 reads the key `on` as a boolean.
    workflow = yaml.safe_load(re.sub(r"^on:", '"on":', text, flags=re.MULTILINE))
    jsonschema.validate(workflow, _schema("github-workflows"))


def test_compose_runs_the_broker_that_the_tests_run(compose: dict[str, Any]) -> None:
    pom = (_ROOT / "services" / "pom.xml").read_text()
    version = re.search(r"<artifactId>kafka_2.13</artifactId>\s*<version>(.+)</version>", pom)
    assert version is not None
    assert compose["services"]["kafka"]["image"] == f"apache/kafka:{version.group(1)}"


def test_compose_serves_the_documented_addresses(compose: dict[str, Any]) -> None:
    services = compose["services"]
    (kafka_port,) = services["kafka"]["ports"]
    host, published, target = kafka_port.split(":")
    assert (host, published) == ("127.0.0.1", "9092")
    environment = services["kafka"]["environment"]
    assert f"HOST://:{target}" in environment["KAFKA_LISTENERS"].split(",")
    advertised = environment["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert advertised == ["INTERNAL://kafka:9092", "HOST://localhost:9092"]
    assert services["redis"]["ports"] == ["127.0.0.1:6379:6379"]


def test_compose_redis_never_evicts(compose: dict[str, Any]) -> None:
    command = compose["services"]["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


def test_projector_waits_for_healthy_servers(compose: dict[str, Any]) -> None:
    projector = compose["services"]["projector"]
    assert projector["build"] == "."
    for name, condition in projector["depends_on"].items():
        assert condition == {"condition": "service_healthy"}
        assert "healthcheck" in compose["services"][name]
    assert projector["environment"]["LANGGRAPH_KAFKA_URL"] == (
        "kafka://kafka:9092/langgraph-checkpoints?redis=redis://redis:6379/0"
    )
