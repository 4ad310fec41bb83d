"""The settings of a dataclass as its source has them: name, type, default and the comment beside it.

Read from the file without importing it, so that help texts need not wait for torch and nothing is written twice.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import tokenize
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import ConfigError


class Setting(NamedTuple):
    """One field of a dataclass."""

    name: str
    annotation: str  # its annotation, as written
    default: str  # as written; "" where it must be given
    comment: str  # the comment beside it


class Description(NamedTuple):
    """A dataclass: its docstring's first line and its fields."""

    summary: str
    settings: tuple[Setting, ...]


def source_path(package: str, name: str) -> Path:
    """The file of a listed name, or of a dotted name of another package."""
    module = name if "." in name else f"{package}.{name}"
    parent, _, last = module.rpartition(".")
    try:  # the parent's place, not the module's own: to find that, Python would import the parent
        spec = importlib.util.find_spec(parent)
    except ModuleNotFoundError:
        spec = None
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        for path in (Path(folder, f"{last}.py"), Path(folder, last, "__init__.py")):
            if path.is_file():
                return path
    raise ConfigError(f"no module {module!r} to describe")


def summary(path: Path) -> str:
    """The first line of a file's docstring."""
    return _first_line(ast.parse(path.read_text(encoding="utf-8")))


def describe(path: Path, name: str) -> Description | None:
    """The dataclass `name` of a file, or of the file that it is imported from; None where there is none."""
    source = path.read_text(encoding="utf-8")
    comments = _comments(source)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
            return Description(_first_line(node), tuple(_setting(part, comments) for part in fields))
        if isinstance(node, ast.ImportFrom) and "." in (node.module or "") and name in {x.name for x in node.names}:
            return describe(source_path("", str(node.module)), name)
    return None


def read_constant(path: Path, name: str) -> Any:
    """The value of a file's constant; what is not written in plain values stays source text. None where it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return _plain(node.value)
    return None


def _plain(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return {_plain(key): _plain(value) for key, value in pairs if key is not None}
        return ast.unparse(node)


def _first_line(node: ast.Module | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").split("\n")[0]


def _setting(node: ast.AnnAssign, comments: dict[int, str]) -> Setting:
    default = "" if node.value is None else ast.unparse(node.value)
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    meaning = " ".join(comments[line] for line in lines if line in comments)
    return Setting(ast.unparse(node.target), ast.unparse(node.annotation), default, meaning)


def _comments(source: str) -> dict[int, str]:
    """Line -> the comment at its end."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
