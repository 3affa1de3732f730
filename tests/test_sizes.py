"""Sizes that keep code readable: lines of a file, lines of a function.

What is larger on purpose stands in `sizes.toml` with the size it has; it may shrink, not grow.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_FOLDERS = (
    "eventstore",
    "projector",
    "saver",
    "langgraph",
    "services",
    "tests",
    "benchmarks",
    "examples",
)
_BASELINE = Path(__file__).with_name("sizes.toml")

_LONGEST_FILE = 400
_LONGEST_FUNCTION = 60


def _functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _too_large() -> Iterator[tuple[str, int]]:
    for folder in _FOLDERS:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            name = path.relative_to(_ROOT).as_posix()
            lines = len(path.read_text().splitlines())
            if lines > _LONGEST_FILE:
                yield name, lines
            for function, node in _functions(path):
                if _lines(node) > _LONGEST_FUNCTION:
                    yield f"{name}::{function}", _lines(node)


def test_sizes_are_within_their_limits() -> None:
    baseline: dict[str, int] = tomllib.loads(_BASELINE.read_text())["sizes"]
    found = dict(_too_large())
    grown = {name: size for name, size in found.items() if size > baseline.get(name, 0)}
    assert not grown, f"larger than allowed: {grown}"
    shrunk = {name: size for name, size in baseline.items() if found.get(name, 0) < size}
    assert not shrunk, f"smaller now; write the new size into {_BASELINE.name}: {shrunk}"
