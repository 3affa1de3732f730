"""The Dockerfile's steps, taken from the file and run in clean environments instead of images.

What this cannot show: that the base image can be pulled, and that the account `nobody` suffices.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


class _Stage:
    """One `FROM`: a clean virtual environment and a folder in place of the image's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workdir = root
        self.entrypoint: list[str] = []
        environment = root / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        self._programs = environment / "bin"

    def path(self, text: str) -> Path:
        """Where a path of the image lies here."""
        return self.root / text.lstrip("/") if text.startswith("/") else self.workdir / text

    def run(self, *command: str) -> str:
        """Runs a command as the image would, with its programs first and nothing of ours."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
        }
        environment["PATH"] = f"{self._programs}{os.pathsep}{environment['PATH']}"
        answer = subprocess.run(
            command,
            cwd=self.workdir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, f"{command} failed:\n{answer.stdout}"
        return answer.stdout


def _steps() -> list[tuple[str, str]]:
    lines = (_ROOT / "Dockerfile").read_text().splitlines()
    steps = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(verb, arguments) for verb, _, arguments in steps]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
    else:
        shutil.copy(source, target / source.name if target.is_dir() else target)


def _build(folder: Path) -> _Stage:
    stages: dict[str, _Stage] = {}
    stage: _Stage | None = None
    for verb, arguments in _steps():
        words = arguments.split()
        if verb == "FROM":
            name = words[2] if words[1:2] == ["AS"] else "final"
            stages[name] = stage = _Stage(folder / name)
            continue
        assert stage is not None
        match verb:
            case "WORKDIR":
                stage.workdir = stage.path(arguments)
                stage.workdir.mkdir(parents=True, exist_ok=True)
            case "COPY" if words[0].startswith("--from="):
                origin = stages[words[0].removeprefix("--from=")]
                _copy(origin.path(words[1]), stage.path(words[2]))
            case "COPY":
                for word in words[:-1]:
                    _copy(_ROOT / word, stage.path(words[-1]))
            case "RUN":
                stage.run("/bin/sh", "-c", arguments)
            case "ENTRYPOINT":
                stage.entrypoint = [word.strip('[]",') for word in words]
            case _:
                assert verb in {"USER", "CMD"}, f"a step that this test does not know: {verb}"
    assert stage is not None
    return stage


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_dockerfile_steps_give_a_working_command(tmp_path: Path) -> None:
    image = _build(tmp_path)
    assert "projector" in image.run(*image.entrypoint, "--help")
    assert "run" in image.run(*image.entrypoint, "projector", "--help")
    # Exactly what the lock allows, and all of it.
    image.run("pip", "check")


def test_docker_context_holds_what_is_copied() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (_ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        word
        for verb, arguments in _steps()
        if verb == "COPY" and not arguments.startswith("--from=")
        for word in arguments.split()[:-1]
    }
    assert copied == allowed
