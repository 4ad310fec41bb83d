"""Describe the fields of a Config dataclass (name, type, default, comment) for help texts and schemas.

The source is parsed, not imported, so that help texts do not import torch and settings are documented only once.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import io
import tokenize
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import ConfigError


class Setting(NamedTuple):
    """One field of a dataclass."""

    name: str
    annotation: str  # source text
    default: str  # source text; "" if the field has no default
    comment: str  # the comment at the end of the line


class Description(NamedTuple):
    """A dataclass: the first line of its docstring, and its fields."""

    summary: str
    settings: tuple[Setting, ...]


def source_path(package: str, name: str) -> Path:
    """Return the source file of a registered name, or of a dotted name from any package."""
    module = name if "." in name else f"{package}.{name}"
    parent, _, last = module.rpartition(".")
    try:  # look up the parent: finding the module itself would import the parent
        spec = importlib.util.find_spec(parent)
    except ModuleNotFoundError:
        spec = None
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        for path in (Path(folder, f"{last}.py"), Path(folder, last, "__init__.py")):
            if path.is_file():
                return path
    raise ConfigError(f"no module {module!r} to describe")


@lru_cache(maxsize=256)  # the settings of one task need the same files many times
def _parse(source: str) -> ast.Module:
    """Parse the source of a file; callers must not change the tree."""
    return ast.parse(source)


def summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring as one line, without references to other files."""
    return _first_paragraph(_parse(path.read_text(encoding="utf-8"))).partition(" See also ")[0]


def describe(path: Path, name: str) -> Description | None:
    """Describe the dataclass `name` that a file defines or imports; None if it does neither."""
    definition = _find_class(path, name)
    if definition is None:
        return None
    path, node = definition
    comments = _comments(path.read_text(encoding="utf-8"))
    settings = (_setting(part, comments) for part in node.body if isinstance(part, ast.AnnAssign))
    expanded = (item._replace(annotation=expand_aliases(item.annotation, path)) for item in settings)
    return Description(_first_paragraph(node), tuple(expanded))


def defining_path(path: Path, name: str) -> Path:
    """Return the file with the definition of a class that a file defines or imports; `path` if it does neither."""
    definition = _find_class(path, name)
    return path if definition is None else definition[0]


def _find_class(path: Path, name: str) -> tuple[Path, ast.ClassDef] | None:
    """Return the file and the definition of a class that a file defines or imports; None if it does neither."""
    for node in _parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return path, node
        if isinstance(node, ast.ImportFrom) and "." in (node.module or "") and name in {x.name for x in node.names}:
            return _find_class(source_path("", str(node.module)), name)
    return None


def expand_aliases(annotation: str, path: Path) -> str:
    """Replace the names of choices in an annotation: 'Activation' -> "Literal['relu', 'gelu']"."""
    tree = ast.parse(annotation, mode="eval")
    return ast.unparse(_AliasExpander(path).visit(tree))


class _AliasExpander(ast.NodeTransformer):
    """Replaces names that a file defines or imports as `Name = Literal[…]`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _find_choices(self._path, node.id) or node


def _find_choices(path: Path, name: str) -> ast.expr | None:
    if hasattr(builtins, name):
        return None
    for node in _parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(x, ast.Name) and x.id == name for x in node.targets):
            return node.value if ast.unparse(node.value).startswith("Literal[") else None
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
            if any(alias.name == name and alias.asname is None for alias in node.names):
                return _find_choices(source_path("", str(node.module)), name)
    return None


def read_constant(path: Path, name: str) -> Any:
    """Return the value of a module constant, None if there is none. Values that are not literals stay source text."""
    for node in _parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return _literal(node.value)
    return None


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return {_literal(key): _literal(value) for key, value in pairs if key is not None}
        return ast.unparse(node)


def _first_paragraph(node: ast.Module | ast.ClassDef) -> str:
    paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def _setting(node: ast.AnnAssign, comments: dict[int, str]) -> Setting:
    default = "" if node.value is None else ast.unparse(node.value)
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    comment = " ".join(comments[line] for line in lines if line in comments)
    return Setting(ast.unparse(node.target), ast.unparse(node.annotation), default, comment)


@lru_cache(maxsize=256)
def _comments(source: str) -> dict[int, str]:
    """Return line number -> the comment on that line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
