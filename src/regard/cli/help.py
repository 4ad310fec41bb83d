"""Help output: the settings of tasks, models and strategies with default, type and meaning in plain language.

Settings are read from the source files without importing them (core/describe.py).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from typer.core import TyperCommand, TyperGroup

from regard.cli.examples import print_examples
from regard.core import trust
from regard.core.describe import defining_path, describe, read_constant, source_path, summary
from regard.core.errors import RegardError
from regard.core.registry import registered_names

MAX_COLUMN_WIDTHS = (30, 16, 20)  # columns are aligned up to this many characters


SEED = ("seed", "1", "int", "seed of the initial weights, the order of the batches and dropout")


class Section(NamedTuple):
    """A title and rows (name, default, type, meaning)."""

    title: str
    rows: Sequence[tuple[str, str, str, str]] = ()


def print_sections(sections: Iterable[Section]) -> None:
    """Print sections with aligned columns."""
    for section in sections:
        print(f"\n{section.title}")
        rows = [
            (name, describe_default(value), describe_type(kind), meaning) for name, value, kind, meaning in section.rows
        ]
        columns = list(zip(*rows, strict=True))[:3]
        widths = [
            min(limit, max(map(len, column), default=0))
            for limit, column in zip(MAX_COLUMN_WIDTHS, columns, strict=False)
        ]
        for row in rows:
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
            print("  " + "  ".join([*cells, row[-1]]).rstrip())


def of_class(path: Path, name: str, *, prefix: str = "", changed: Any = None) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of a dataclass in a file, including nested dataclasses; `changed` overrides defaults."""
    described = describe(path, name)
    path = defining_path(path, name)  # nested dataclasses are those of the file with the definition
    for setting in () if described is None else described.settings:
        default = (changed or {}).get(setting.name)
        if setting.annotation[0].isupper() and setting.annotation.isidentifier() and describe(path, setting.annotation):
            yield from of_class(path, setting.annotation, prefix=f"{prefix}{setting.name}.", changed=default)
        else:
            default_text = setting.default if default is None else repr(default)
            yield f"{prefix}{setting.name.removesuffix('_')}", default_text, setting.annotation, setting.comment


def _section(path: Path, title: str, *, prefix: str = "", changed: Any = None) -> Section:
    """Return the section of the Config in a file."""
    described = describe(path, "Config")
    more = "" if described is None else described.summary
    return Section(f"{title} {more}".rstrip(), tuple(of_class(path, "Config", prefix=prefix, changed=changed)))


def of_file(path: Path, name: str) -> Section:
    """Return the description and settings of a score, position scheme or decoding strategy."""
    return _section(path, f"{name}: {summary(path)}")


def options_section(task: str, verb: str = "") -> Section:
    """Return the request options of a task for a verb."""
    if _sets_options(task, verb):
        return Section(f"{verb} with a run of {task} has no options.")
    rows = tuple(of_class(source_path("regard.tasks", task), "Options"))
    title = f"Options of {task}, as key=value or --key value:" if rows else f"{task} has no options."
    return Section(title, rows)


def _sets_options(task: str, verb: str) -> bool:
    """Return True for a verb that sets an option itself, such as score: it reads no other option and no decoding."""
    return verb in (read_constant(source_path("regard.tasks", task), "VERB_OPTIONS") or {})


def of_decoding(name: str) -> Section:
    """Return the settings of a decoding strategy."""
    return _section(source_path("regard.decoding.strategies", name), f"Decoding, {name}.", prefix="decoding.")


def run_sections(args: Sequence[str], verb: str = "") -> list[Section]:
    """Return the options of the run among the arguments for a verb; empty if there is no run."""

    def sections_of(task: str, decoding: list[Section]) -> list[Section]:
        return [options_section(task, verb), *([] if _sets_options(task, verb) else decoding)]

    return _of_run(args, sections_of)


def evaluation_sections(args: Sequence[str]) -> list[Section]:
    """Return the evaluation options of the run among the arguments, or of all tasks if there is none."""

    def evaluation_of(task: str) -> list[Section]:
        path = source_path("regard.tasks", task)
        locations = read_constant(path, "DATA_SETTINGS") or ()
        rows = (*of_class(path, "Evaluation"), *(row for row in of_class(path, "Config") if row[0] in locations))
        qualified = tuple((f"data.{row[0]}" if row[0] in locations else row[0], *row[1:]) for row in rows)
        return [Section(f"Evaluation options of {task}, as key=value or --key value:", qualified)] if qualified else []

    return _of_run(args, lambda task, decoding: [*evaluation_of(task), *decoding]) or [
        section for task in registered_names("regard.tasks") for section in evaluation_of(task)
    ]


def _of_run(args: Sequence[str], sections_of: Callable[[str, list[Section]], list[Section]]) -> list[Section]:
    """Return sections for the task and the sections of the decoding strategy of the run among the arguments."""
    try:
        path = next(path for path in (Path(arg) / "config.json" for arg in args) if path.is_file())
        table = json.loads(path.read_text(encoding="utf-8"))
        decoding = table.get("decoding")
        if trust.external_modules(path.parent) and not ("--trust" in args or trust.is_trusted(path.parent)):
            return []  # to locate a module, Python imports its parent package
        return sections_of(table["task"], [of_decoding(decoding["name"])] if decoding else [])
    except (StopIteration, OSError, ValueError, LookupError, TypeError, AttributeError, RegardError):
        return []


def verb_sections(verb: str) -> list[Section]:
    """Return the options of every built-in task with this verb."""
    files = {task: source_path("regard.tasks", task) for task in registered_names("regard.tasks")}
    verbs = {task: (read_constant(path, "VERB"), *(read_constant(path, "VERBS") or ())) for task, path in files.items()}
    return [options_section(task, verb) for task in files if verb in verbs[task]]


def task_sections(task: str, model: str | None = None) -> list[Section]:
    """Return the training settings; `model` is by default the model of the task."""
    path = source_path("regard.tasks", task)
    defaults = read_constant(path, "DEFAULTS")
    defaults = defaults if isinstance(defaults, dict) else {}
    default_model = defaults.get("model", {}).get("name")
    model = model or default_model
    sections = [
        Section(f"{task}: {summary(path)}"),
        Section("Recipe.", ((SEED,) if "seed" not in defaults else ((SEED[0], str(defaults["seed"]), *SEED[2:]),))),
        _section(path, "Data.", prefix="data."),
        *(
            []
            if model is None
            else [model_section(model, changed=defaults.get("model") if model == default_model else None)]
        ),
    ]
    config = source_path("regard.training", "config")
    sections.append(_section(config, "Training.", prefix="training.", changed=defaults.get("training")))
    sections.append(Section("Pretrained weights.", tuple(of_class(config, "Pretrained", prefix="pretrained."))))
    decoding = defaults.get("decoding", {}).get("name")
    return [*sections, of_decoding(decoding)] if decoding else sections


def model_section(model: str, *, changed: Any = None) -> Section:
    """Return the settings of a model and its presets."""
    path = source_path("regard.models", model)
    section = _section(path, f"Model, {model}: {summary(path)}", prefix="model.", changed=changed)
    presets = read_constant(path, "PRESETS")
    rows = presets.items() if isinstance(presets, dict) else ()
    return section._replace(
        rows=(
            *section.rows,
            ("model.preset=auto", "", "", "sizes, vocabulary, batches and schedule follow the data (docs/training.md)"),
            *((f"model.preset={name}", "", "", preset(str(source))) for name, source in rows),
        )
    )


TYPE_NAMES = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "Path": "path"}
METAVARS = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT", "path": "PATH"}  # names of option values in usage lines


def describe_type(annotation: str) -> str:
    """Describe an annotation: 'int | None' -> 'whole number', "Literal['a', 'b']" -> 'a, b'."""
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
    """Write a default as the user would type it: None -> none, 'auto' -> auto, () -> []."""
    try:
        value = ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return ""  # a computed default
    return format_value(value)


def format_value(value: Any) -> str:
    """Write a plain value as in a setting."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, list | tuple):
        return ",".join(map(format_value, value)) if value else "[]"
    return str(value)


def preset(source: str) -> str:
    """Write a preset as settings: 'Config(layers=2, dim=64)' -> 'layers=2 dim=64'."""
    try:
        call = ast.parse(source, mode="eval").body
    except SyntaxError:
        return ""
    if not isinstance(call, ast.Call):
        return ""
    settings = [f"{item.arg}={describe_default(ast.unparse(item.value))}" for item in call.keywords if item.arg]
    return " ".join(settings) or "the defaults"


def _with_plain_types(parameters: Sequence[Any]) -> list[Any]:
    """Show plain type names for options, and none for flags and arguments."""
    for parameter in parameters:
        if hasattr(parameter, "display_type_rich") and "display_type_rich" not in vars(parameter):
            is_option = parameter.param_type_name != "argument"
            parameter.display_type_rich = partial(_metavar, parameter.display_type_rich if is_option else None)
    return list(parameters)


def _metavar(display_type: Callable[..., str | None] | None, **arguments: Any) -> str:
    """Translate the type name of typer, such as '<list[Path]>', to a metavar."""
    name = (display_type(**arguments) or "" if display_type else "").strip("<>").removeprefix("list[").removesuffix("]")
    return METAVARS.get(name.lower(), "")


class PlainCommand(TyperCommand):
    """A command whose help shows plain type names and examples."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_plain_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the command and its examples."""
        super().format_help(ctx, formatter)
        print_examples(ctx.command_path.partition(" ")[2])


class PlainGroup(TyperGroup):
    """A group of commands whose help shows plain type names."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _with_plain_types(super().get_params(ctx))
