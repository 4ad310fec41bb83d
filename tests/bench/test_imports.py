"""Tests that the benchmarks use only names that exist: most of them run too long to be run by tests."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
FILES = sorted(BENCH.rglob("*.py"))


@cache
def syntax_of(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@cache
def defined_in(file: Path) -> frozenset[str]:
    """Return all names that a benchmark defines or imports."""
    names: set[str] = set()
    for node in syntax_of(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    return frozenset(names)


def imported_value(module: str, name: str) -> Any:
    """Return what `from module import name` binds; None if there is no such name."""
    value = getattr(importlib.import_module(module), name, None)
    try:
        return importlib.import_module(f"{module}.{name}") if value is None else value
    except ModuleNotFoundError:
        return None


def missing_names(file: Path) -> Iterator[str]:
    """Yield the names of regard and of other benchmarks that a benchmark uses, and that do not exist."""
    modules: dict[str, ModuleType] = {}
    for node in syntax_of(file):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        other = (BENCH / node.module.replace(".", "/")).with_suffix(".py")
        for alias in node.names:
            if node.module.partition(".")[0] == "regard":
                value = imported_value(node.module, alias.name)
                if value is None:
                    yield f"{node.module}.{alias.name}"
                elif isinstance(value, ModuleType):
                    modules[alias.asname or alias.name] = value
            elif other.is_file() and alias.name not in defined_in(other):
                yield f"{node.module}.{alias.name}"
    for node in syntax_of(file):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            modules.pop(node.id, None)  # a variable of the same name
    for node in syntax_of(file):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if not hasattr(module, node.attr):
                yield f"{module.__name__}.{node.attr}"


@pytest.mark.parametrize("file", FILES, ids=[file.relative_to(BENCH).as_posix() for file in FILES])
def test_every_imported_name_exists(file: Path) -> None:
    assert list(missing_names(file)) == []
