"""`regard list`: list tasks, models, scores, positions, strategies and recipes, or the settings of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import help
from regard.cli.help import Section
from regard.cli.settings import START, Json
from regard.core import config as configs
from regard.core.describe import read_constant, source_path, summary
from regard.core.errors import ConfigError, did_you_mean
from regard.core.pretrained_runs import PREFIX, PretrainedCard, pretrained_folders
from regard.core.registry import registered_names

PANEL = START
PACKAGES = {
    "tasks": "regard.tasks",
    "models": "regard.models",
    "scores": "regard.attention.scores",
    "positions": "regard.layers.positions",
    "decoders": "regard.decoding.strategies",
}
RECIPES = "recipes"
PRETRAINED = "pretrained"


def run(
    kind: Annotated[
        str | None, typer.Argument(help=f"{', '.join(PACKAGES)}, {RECIPES} or {PRETRAINED}.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Argument(help="One of them, for its settings.", show_default=False)] = None,
    *,
    as_json: Json = False,
) -> None:
    """List tasks, models, scores, positions, decoders, recipes or pretrained runs, or the settings of one of them."""
    if as_json:
        print(json.dumps(_table(kind, name), ensure_ascii=False))
        return
    if kind is None:
        help.print_sections(
            [Section(f"{plural}: {', '.join(entries)}") for plural, entries in _all().items() if entries]
        )
        print(f"{PRETRAINED}: {', '.join(pretrained_folders())}")
        print("\nregard list KIND describes each, regard list KIND NAME lists its settings")
        return
    if kind == PRETRAINED:
        _print_pretrained()
        return
    plural = _plural(kind)
    if name is not None:
        help.print_sections(list(_sections(plural, name)))
        return
    for entry, path in _all()[plural].items():
        print(f"{entry:<20} {_summary(path)}")
    if not _all()[plural]:
        print(f"none found; the folder {RECIPES}/ of the repository has one for each published figure")


def _plural(kind: str) -> str:
    plural = kind if kind.endswith("s") else f"{kind}s"
    if plural not in _all():
        raise ConfigError(f"cannot list {kind!r}; {did_you_mean(plural, _all())}")
    return plural


def _table(kind: str | None, name: str | None) -> dict[str, Any]:
    """Return the listing as plain values: names by kind, descriptions by name, or the settings of one entry."""
    if kind is None:
        return {plural: list(entries) for plural, entries in _all().items()} | {PRETRAINED: list(pretrained_folders())}
    if kind == PRETRAINED:
        return {
            PRETRAINED: {name: asdict(PretrainedCard.read(folder)) for name, folder in pretrained_folders().items()}
        }
    plural = _plural(kind)
    if name is None:
        return {plural: {entry: _summary(path) for entry, path in _all()[plural].items()}}
    if plural == RECIPES:
        return {"name": name, "recipe": configs.read_toml(_entry(plural, name))}
    settings = [
        {"name": row[0], "default": help.describe_default(row[1]), "type": help.describe_type(row[2]), "help": row[3]}
        for section in _sections(plural, name)
        for row in section.rows
    ]
    return {"name": name, "kind": plural.removesuffix("s"), "settings": settings}


def _entry(kind: str, name: str) -> Path:
    entries = _all()[kind]
    if name not in entries:
        raise ConfigError(f"unknown {kind.removesuffix('s')} {name!r}; {did_you_mean(name, entries)}")
    return entries[name]


def _print_pretrained() -> None:
    """Print two lines about each run that ships with the package."""
    folders = pretrained_folders()
    if not folders:
        print("no pretrained runs in this installation")
    for name, folder in folders.items():
        card = PretrainedCard.read(folder)
        megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        print(f"{PREFIX}{name}: {card.task}, {card.model}, {card.metric} {card.score:.4g}, {megabytes:.1f} MB")
        print(f"    trained on {card.data} ({card.license}) by the recipe {card.recipe}")


def _all() -> dict[str, dict[str, Path]]:
    """Return kind -> name -> file."""
    from regard.training import recipe_files

    entries = {
        kind: {name: source_path(package, name) for name in registered_names(package)}
        for kind, package in PACKAGES.items()
    }
    folder = Path(RECIPES) if Path(RECIPES).is_dir() else recipe_files.packaged_folder()
    return {**entries, RECIPES: {path.stem: path for path in sorted(folder.glob("*.toml"))}}


def _summary(path: Path) -> str:
    if path.suffix == ".toml":
        return path.read_text(encoding="utf-8").split("\n")[0].lstrip("# ")
    return summary(path)


def _sections(kind: str, name: str) -> Iterator[Section]:
    """Yield the description and settings of one entry."""
    if kind == RECIPES:
        print(_entry(kind, name).read_text(encoding="utf-8"), end="")
        return
    if "." not in name:
        _entry(kind, name)
    path = source_path(PACKAGES[kind], name)
    if kind == "tasks":
        yield from help.task_sections(name)
        yield help.options_section(name)
        yield Section(f"Verb: regard {read_constant(path, 'VERB')} RUN …")
    elif kind == "models":
        yield help.model_section(name)
    else:
        yield help.of_file(path, name)
