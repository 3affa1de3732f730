"""Who may import LangGraph.

The other contracts are import-linter's (pyproject.toml); it cannot name a part of a namespace that
holds a package of ours as well.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


@pytest.mark.parametrize("package", ["eventstore", "projector"])
def test_lower_packages_do_not_know_langgraph(package: str) -> None:
    found = {
        f"{path.relative_to(_ROOT)}: {name}"
        for path in (_ROOT / package).rglob("*.py")
        for name in _imports(path)
        if name.partition(".")[0] in {"langgraph", "langchain", "langchain_core"}
    }
    assert not found


def test_namespace_folders_have_no_init() -> None:
    """Both folders above it belong to LangGraph's namespace, so they are no packages of ours."""
    assert not (_ROOT / "langgraph" / "__init__.py").exists()
    assert not (_ROOT / "langgraph" / "checkpoint" / "__init__.py").exists()
