"""What the documentation names is there: tests, files, targets, errors; and its code runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import langgraph.checkpoint.kafka as facade

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()

NAMED_FILE = re.compile(r"`((?:tests|examples|docs)/[\w./-]+)(?:::(\w+))?`")
NAMED_TEST = re.compile(r"`(test_\w+)`")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
TARGET = re.compile(r"`make ([a-z][a-z-]+)`")
ERROR = re.compile(r"`(\w+Error)`")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"print\(.*\)  # (.*)$", re.MULTILINE)

BUILTIN_ERRORS = {"ValueError", "TypeError", "KeyError", "RuntimeError", "ImportError"}

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def every_test() -> set[str]:
    """Return the names of all tests that there are."""
    sources = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    return {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}


@pages
def test_named_files_and_tests_exist(page: Path) -> None:
    """A path in backticks is there, and a test behind `::` stands in that file."""
    for path, name in NAMED_FILE.findall(page.read_text()):
        assert (ROOT / path).exists(), path
        if name:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"


@pages
def test_bare_test_names_exist(page: Path) -> None:
    """A test that is named without its file is somewhere."""
    modules = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert set(NAMED_TEST.findall(page.read_text())) <= every_test() | modules


@pages
def test_links_lead_somewhere(page: Path) -> None:
    """Links within the repository point at files that are there."""
    for link in LINK.findall(page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), link


@pages
def test_named_make_targets_exist(page: Path) -> None:
    """What people are told to run can be run."""
    rules = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    assert set(TARGET.findall(page.read_text())) <= targets


def test_named_errors_can_be_imported() -> None:
    """Each error of the README is one of the facade's names, or one of Python's."""
    for name in ERROR.findall(README):
        assert hasattr(facade, name) or name in BUILTIN_ERRORS, name


def test_readme_names_the_oldest_release_that_is_tested() -> None:
    """What `make test-oldest` installs is what the README says."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (pinned,) = [each for each in groups["oldest"] if each.startswith("langgraph-checkpoint==")]
    assert f"`langgraph-checkpoint` {pinned.partition('==')[2]} and newer" in README


def test_first_screen_has_the_two_commands() -> None:
    """Whoever opens the README sees what to run."""
    first_screen = "\n".join(README.splitlines()[:30])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_readme_code_runs(tmp_path: Path) -> None:
    """Every Python block, one behind the other in one folder, prints what its comments say."""
    blocks = PYTHON_BLOCK.findall(README)
    assert blocks
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == PRINTED.findall(block)
