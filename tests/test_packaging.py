"""What users install: the names in the wheel, whose they are, and what the facade offers."""

import importlib.util
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

DISTRIBUTION = "langgraph-checkpoint-kafka"
TOP_LEVEL = {"eventstore", "projector", "saver", "langgraph"}

_ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was built from it."""
    given = os.environ.get("LGK_WHEEL")
    if given:
        return Path(given).parent.resolve()
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(_ROOT)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel_files(built: Path) -> set[PurePosixPath]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {PurePosixPath(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist_files(built: Path) -> set[PurePosixPath]:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = [PurePosixPath(member.name) for member in archive.getmembers() if member.isfile()]
    return {PurePosixPath(*path.parts[1:]) for path in members}


def test_wheel_has_exactly_our_top_level_names(wheel_files: set[PurePosixPath]) -> None:
    names = {path.parts[0] for path in wheel_files}
    assert {name for name in names if not name.endswith(".dist-info")} == TOP_LEVEL


def test_wheel_leaves_the_namespace_to_langgraph(wheel_files: set[PurePosixPath]) -> None:
    """An `__init__` in one of the two shared folders would hide the installed LangGraph."""
    ours = {path.parts[:3] for path in wheel_files if path.parts[0] == "langgraph"}
    assert ours == {("langgraph", "checkpoint", "kafka")}


def test_wheel_is_typed_and_complete(
    wheel_files: set[PurePosixPath], sdist_files: set[PurePosixPath]
) -> None:
    for package in ("eventstore", "projector", "saver", "langgraph/checkpoint/kafka"):
        assert PurePosixPath(package, "py.typed") in wheel_files
    packaged = {path for path in sdist_files if path.parts[0] in TOP_LEVEL}
    assert packaged == {path for path in wheel_files if path.parts[0] in TOP_LEVEL}


def test_sdist_holds_sources_only(sdist_files: set[PurePosixPath]) -> None:
    folders = {path.parts[0] for path in sdist_files if len(path.parts) > 1}
    assert folders == TOP_LEVEL


def test_oldest_langgraph_checkpoint_is_the_tested_one() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    (allowed,) = (
        requirement
        for requirement in project["project"]["dependencies"]
        if requirement.startswith("langgraph-checkpoint")
    )
    tested = project["dependency-groups"]["oldest"][0].partition("==")[2]
    assert allowed == f"langgraph-checkpoint>={tested.removesuffix('.0')},<5"


def test_top_level_names_are_ours_alone() -> None:
    """Another distribution with one of these names would overwrite ours without a word."""
    owners = metadata.packages_distributions()
    for name in TOP_LEVEL - {"langgraph"}:
        # An editable install has a path in place of the names.
        assert set(owners.get(name, [DISTRIBUTION])) == {DISTRIBUTION}


def test_sources_are_away_where_the_wheel_is_tested() -> None:
    specification = importlib.util.find_spec("eventstore")
    assert specification is not None
    assert specification.origin is not None
    is_beside_the_tests = Path(specification.origin).is_relative_to(_ROOT)
    assert is_beside_the_tests == ("LGK_WHEEL" not in os.environ)


def test_facade_and_langgraph_share_the_namespace() -> None:
    program = (
        "import langgraph.graph, langgraph.checkpoint.memory\n"
        "import langgraph.checkpoint.kafka as facade\n"
        "print(facade.__version__)\n"
        "missing = [name for name in facade.__all__ if not hasattr(facade, name)]\n"
        "assert not missing, missing\n"
    )
    answer = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == metadata.version(DISTRIBUTION)
