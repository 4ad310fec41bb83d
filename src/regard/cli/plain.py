"""Help in plain words: what kind of value is wanted, and what it is unless told, without the words of Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

KINDS = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "Path": "path"}
OPTIONS = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT", "path": "PATH"}  # of what follows an option


def kind(annotation: str) -> str:
    """A type as a file writes it, in words: 'int | None' -> 'whole number', "Literal['a', 'b']" -> 'a, b'."""
    if not annotation:
        return ""
    parts = [_part(node) for node in _union(ast.parse(annotation, mode="eval").body)]
    return " or ".join(dict.fromkeys(part for part in parts if part))


def _union(node: ast.expr) -> list[ast.expr]:
    return [*_union(node.left), *_union(node.right)] if isinstance(node, ast.BinOp) else [node]


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        if node.value.id == "Literal":
            choices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return ", ".join(default(ast.unparse(choice)) for choice in choices)
        return "list"
    return KINDS.get(node.id, "") if isinstance(node, ast.Name) else ""


def default(source: str) -> str:
    """A default as a file writes it, as one would give it: None -> none, 'auto' -> auto, () -> []."""
    try:
        value = ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return ""  # something that is computed
    return given(value)


def given(value: Any) -> str:
    """A plain value as one would give it in a setting."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, list | tuple):
        return ",".join(map(given, value)) if value else "[]"
    return str(value)


def preset(source: str) -> str:
    """A preset as a file writes it, as settings: 'Config(layers=2, dim=64)' -> 'layers=2 dim=64'."""
    try:
        call = ast.parse(source, mode="eval").body
    except SyntaxError:
        return ""
    if not isinstance(call, ast.Call):
        return ""
    settings = [f"{word.arg}={default(ast.unparse(word.value))}" for word in call.keywords if word.arg]
    return " ".join(settings) or "the defaults"


def _said(parameters: Sequence[Any]) -> list[Any]:
    """The same parameters, whose kind is said in words: none for a flag, and none for an argument, which has a name."""
    for parameter in parameters:
        if hasattr(parameter, "display_type_rich") and "display_type_rich" not in vars(parameter):
            named = parameter.param_type_name != "argument"
            parameter.display_type_rich = partial(_option, parameter.display_type_rich if named else None)
    return list(parameters)


def _option(said: Callable[..., str | None] | None, **given: Any) -> str:
    """typer's own word for the kind of an option, '<list[Path]>', in words."""
    word = (said(**given) or "" if said else "").strip("<>").removeprefix("list[").removesuffix("]")
    return OPTIONS.get(word.lower(), "")


class PlainCommand(TyperCommand):
    """A command with such help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its arguments and options."""
        return _said(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A command with commands of its own, with such help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options."""
        return _said(super().get_params(ctx))
