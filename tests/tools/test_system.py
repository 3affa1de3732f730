"""What the tool says and does where a server's program is missing."""

import os

import pytest

from services import cli, system
from services.system import Requirement

_MISSING = (
    Requirement("JDK 17 or newer (`java`)", lambda: None, ("openjdk-17-jdk-headless",)),
    Requirement("Maven (`mvn`)", lambda: None, ("maven",)),
)


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(system.REQUIREMENTS, "kafka", _MISSING)


def test_missing_programs_are_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["require", "kafka"]) == 1
    assert capsys.readouterr().err == (
        "services: missing on this system: JDK 17 or newer (`java`); Maven (`mvn`)"
        " (for `make test`: or a Docker engine)\n"
    )


def test_root_installs_what_is_missing_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[tuple[str, ...]] = []

    def remember(*arguments: str) -> None:
        commands.append(arguments)

    def is_offered(package: str) -> bool:
        return package in {"openjdk-17-jdk-headless", "maven"}

    monkeypatch.setattr(system, "_can_install", lambda: True)
    monkeypatch.setattr(system, "_is_offered", is_offered)
    monkeypatch.setattr(system, "_apt", remember)
    # Nothing was really installed, so it is named as missing in the end.
    assert cli.main(["require", "kafka"]) == 1
    said, missing = capsys.readouterr().err.splitlines()
    assert said == ("services: installing with apt-get: JDK 17 or newer (`java`); Maven (`mvn`)")
    assert missing.startswith("services: missing on this system")
    assert commands[0] == ("update",)
    assert commands[1][-2:] == ("openjdk-17-jdk-headless", "maven")
