"""What settings there are, from the source of the files that have them: name, default, kind and meaning.

Help in plain words: what kind of value is wanted, and what it is unless told, without the words of Python.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from typer.core import TyperCommand, TyperGroup

from regard.core import trust
from regard.core.describe import describe, read_constant, source_path, summary
from regard.core.errors import RegardError
from regard.core.registry import registered_names

MAX_COLUMN_WIDTHS = (30, 16, 20)  # columns are aligned up to so many characters


class Section(NamedTuple):
    """A title and rows of name, default, kind and meaning."""

    title: str
    rows: Sequence[tuple[str, str, str, str]] = ()


def print_sections(sections: Iterable[Section]) -> None:
    """Print them, columns aligned."""
    for section in sections:
        print(f"\n{section.title}")
        said = [
            (name, describe_default(value), describe_type(kind), meaning) for name, value, kind, meaning in section.rows
        ]
        columns = list(zip(*said, strict=True))[:3]
        widths = [
            min(most, max(map(len, column), default=0))
            for most, column in zip(MAX_COLUMN_WIDTHS, columns, strict=False)
        ]
        for row in said:
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
            print("  " + "  ".join([*cells, row[-1]]).rstrip())


def of_class(path: Path, name: str, *, prefix: str = "", changed: Any = None) -> Iterator[tuple[str, str, str, str]]:
    """The rows of a dataclass of a file, those of the dataclasses in it included; `changed` are other defaults."""
    described = describe(path, name)
    for setting in () if described is None else described.settings:
        default = (changed or {}).get(setting.name)
        if setting.annotation[0].isupper() and setting.annotation.isidentifier() and describe(path, setting.annotation):
            yield from of_class(path, setting.annotation, prefix=f"{prefix}{setting.name}.", changed=default)
        else:
            shown = setting.default if default is None else repr(default)
            yield f"{prefix}{setting.name.removesuffix('_')}", shown, setting.annotation, setting.comment


def _section(path: Path, title: str, *, prefix: str = "", changed: Any = None) -> Section:
    """The Config of a file."""
    described = describe(path, "Config")
    more = "" if described is None else described.summary
    return Section(f"{title} {more}".rstrip(), tuple(of_class(path, "Config", prefix=prefix, changed=changed)))


def of_file(path: Path, name: str) -> Section:
    """A score, a position scheme or a decoder: what it is, and its settings where it has any."""
    return _section(path, f"{name}: {summary(path)}")


def options_section(task: str) -> Section:
    """What one can ask of a run of a task."""
    rows = tuple(of_class(source_path("regard.tasks", task), "Options"))
    title = f"Asked of {task}, as key=value or --key value:" if rows else f"{task} has no options of its own."
    return Section(title, rows)


def of_decoding(name: str) -> Section:
    """The settings of a decoder."""
    return _section(source_path("regard.decoding.strategies", name), f"The search, {name}.", prefix="decoding.")


def run_sections(args: Sequence[str]) -> list[Section]:
    """What one can ask of the run that is among the words; nothing where none is."""
    return _of_run(args, lambda task: [options_section(task)])


def evaluation_sections(args: Sequence[str]) -> list[Section]:
    """What an evaluation of the run that is among the words can be told; nothing where none is."""

    def told(task: str) -> list[Section]:
        path = source_path("regard.tasks", task)
        places = read_constant(path, "DATA_SETTINGS") or ()
        rows = (*of_class(path, "Evaluation"), *(row for row in of_class(path, "Config") if row[0] in places))
        named = tuple((f"data.{row[0]}" if row[0] in places else row[0], *row[1:]) for row in rows)
        return [Section(f"Told to an evaluation of {task}, as key=value or --key value:", named)] if named else []

    return _of_run(args, told)


def _of_run(words: Sequence[str], told: Callable[[str], list[Section]]) -> list[Section]:
    """Sections about the task of the run that is among the words, and about its decoder."""
    try:
        path = next(path for path in (Path(word) / "config.json" for word in words) if path.is_file())
        table = json.loads(path.read_text(encoding="utf-8"))
        decoding = table.get("decoding")
        if trust.external_modules(path.parent) and not ("--trust" in words or trust.is_trusted(path.parent)):
            return []  # to find the file of a module, Python imports the package it is in
        return [*told(table["task"]), *([of_decoding(decoding["name"])] if decoding else [])]
    except (StopIteration, OSError, ValueError, LookupError, TypeError, AttributeError, RegardError):
        return []


def verb_sections(verb: str) -> list[Section]:
    """What one can ask of a run of the listed tasks that have a verb."""
    files = {task: source_path("regard.tasks", task) for task in registered_names("regard.tasks")}
    verbs = {task: (read_constant(path, "VERB"), *(read_constant(path, "VERBS") or ())) for task, path in files.items()}
    return [options_section(task) for task in files if verb in verbs[task]]


def task_sections(task: str, model: str | None = None) -> list[Section]:
    """The settings of a training: the task's data, the model (the task's own unless one is named), and the rest."""
    path = source_path("regard.tasks", task)
    defaults = read_constant(path, "DEFAULTS")
    defaults = defaults if isinstance(defaults, dict) else {}
    own = defaults.get("model", {}).get("name")
    model = model or own
    sections = [
        Section(f"{task}: {summary(path)}"),
        _section(path, "The data.", prefix="data."),
        *([] if model is None else [model_section(model, changed=defaults.get("model") if model == own else None)]),
    ]
    config = source_path("regard.training", "config")
    sections.append(_section(config, "The training.", prefix="training.", changed=defaults.get("training")))
    sections.append(Section("The weights it starts from.", tuple(of_class(config, "Start", prefix="start."))))
    decoding = defaults.get("decoding", {}).get("name")
    return [*sections, of_decoding(decoding)] if decoding else sections


def model_section(model: str, *, changed: Any = None) -> Section:
    """The settings of a model, and its presets."""
    path = source_path("regard.models", model)
    section = _section(path, f"The model, {model}: {summary(path)}", prefix="model.", changed=changed)
    presets = read_constant(path, "PRESETS")
    rows = presets.items() if isinstance(presets, dict) else ()
    return section._replace(
        rows=(*section.rows, *((f"model.preset={name}", "", "", preset(str(what))) for name, what in rows))
    )


TYPE_NAMES = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "Path": "path"}
METAVARS = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT", "path": "PATH"}  # of what follows an option


def describe_type(annotation: str) -> str:
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
            return ", ".join(describe_default(ast.unparse(choice)) for choice in choices)
        return "list"
    return TYPE_NAMES.get(node.id, "") if isinstance(node, ast.Name) else ""


def describe_default(source: str) -> str:
    """A default as a file writes it, as one would give it: None -> none, 'auto' -> auto, () -> []."""
    try:
        value = ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return ""  # something that is computed
    return format_value(value)


def format_value(value: Any) -> str:
    """A plain value as one would give it in a setting."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, list | tuple):
        return ",".join(map(format_value, value)) if value else "[]"
    return str(value)


def preset(source: str) -> str:
    """A preset as a file writes it, as settings: 'Config(layers=2, dim=64)' -> 'layers=2 dim=64'."""
    try:
        call = ast.parse(source, mode="eval").body
    except SyntaxError:
        return ""
    if not isinstance(call, ast.Call):
        return ""
    settings = [f"{word.arg}={describe_default(ast.unparse(word.value))}" for word in call.keywords if word.arg]
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
    return METAVARS.get(word.lower(), "")


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
