"""A broker that wants TLS and a password: every part of the log shows them."""

from __future__ import annotations

import subprocess
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from eventstore.errors import LogUnavailableError
from services import Services
from services.port import free_ports
from services.system import JAVA, path_of
from tests.kafka_logs import config_for, opened, read_all, task_ids, writes_event

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

STORE_PASSWORD = "not a secret"  # noqa: S105 - of a key made for one test


def make_key(folder: Path) -> tuple[Path, Path]:
    """Return a key store for the broker and the certificate by which clients know it."""
    store, certificate = folder / "broker.p12", folder / "broker.pem"
    keytool = str(Path(path_of(JAVA)).resolve().with_name("keytool"))
    common = ["-keystore", str(store), "-storepass", STORE_PASSWORD, "-alias", "broker"]
    for arguments in (
        ["-genkeypair", *common, "-keyalg", "EC", "-dname", "CN=localhost", "-storetype", "PKCS12",
         "-ext", "SAN=dns:localhost,ip:127.0.0.1", "-ext", "BC:critical=ca:true"],
        ["-exportcert", *common, "-rfc", "-file", str(certificate)],
    ):  # fmt: skip
        subprocess.run([keytool, *arguments], check=True, capture_output=True)
    return store, certificate


@pytest.fixture
def secured(own_services: Services, tmp_path: Path) -> dict[str, Any]:
    """Give a broker of this test a second listener, with TLS and a login, and return its fields."""
    own_services.start("kafka")
    own_services.kill("kafka")
    store, certificate = make_key(tmp_path)
    (port,) = free_ports(1)
    properties = own_services.home / "data" / "kafka" / "server.properties"
    settings = dict(line.split("=", 1) for line in properties.read_text().splitlines())
    settings["listeners"] += f",SECURED://127.0.0.1:{port}"
    settings["advertised.listeners"] += f",SECURED://127.0.0.1:{port}"
    settings["listener.security.protocol.map"] += ",SECURED:SASL_SSL"
    settings["inter.broker.listener.name"] = "PLAINTEXT"
    settings["listener.name.secured.sasl.enabled.mechanisms"] = "PLAIN"
    settings["listener.name.secured.plain.sasl.jaas.config"] = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="saver" password="open sesame" user_saver="open sesame";'
    )
    settings["listener.name.secured.ssl.keystore.location"] = str(store)
    settings["listener.name.secured.ssl.keystore.password"] = STORE_PASSWORD
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    own_services.restart("kafka")
    return {
        "bootstrap": f"127.0.0.1:{port}",
        "security_protocol": "SASL_SSL",
        "ssl_cafile": certificate,
        "sasl_username": "saver",
        "sasl_password": "open sesame",
    }


async def test_every_part_connects_with_tls_and_password(
    secured: dict[str, Any], topic: str
) -> None:
    """Creating, appending, reading, asking for the end and following all get in."""
    async with opened(config_for(**secured, topic=topic, partitions=2)) as log:
        appended = await log.append(writes_event("task"))
        partition = appended.partition
        assert task_ids(await read_all(log, partition)) == ["task"]
        async with aclosing(log.tail({partition: 0})) as batches:
            assert (await anext(batches)).records
        await log.erase(partition, [b"thread/" + b"00" * 16 + b"/0"])

    wrong: dict[str, Any] = {**secured, "sasl_password": "open barley", "request_timeout": 1}
    with pytest.raises(LogUnavailableError) as refused:
        async with opened(config_for(**wrong, topic=topic)):
            pass
    assert "barley" not in str(refused.value)

    strange: dict[str, Any] = {**secured, "ssl_cafile": None, "request_timeout": 1}
    with pytest.raises(LogUnavailableError):
        async with opened(config_for(**strange, topic=topic)):
            pass
