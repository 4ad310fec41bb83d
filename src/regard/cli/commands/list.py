"""`regard list`: what there is to choose from, and the settings of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import help
from regard.cli.help import Section
from regard.cli.settings import START
from regard.core.describe import read_constant, source_path, summary
from regard.core.errors import ConfigError, did_you_mean
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


def run(
    kind: Annotated[str | None, typer.Argument(help=f"{', '.join(PACKAGES)} or {RECIPES}.", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(help="One of them, for its settings.", show_default=False)] = None,
) -> None:
    """List tasks, models, scores, positions, decoders or recipes, or every setting of one: regard list model NAME."""
    if kind is None:
        help.print_sections([Section(f"{each}: {', '.join(named)}") for each, named in _all().items() if named])
        print("\nregard list KIND says what each is, regard list KIND NAME its settings")
        return
    plural = kind if kind.endswith("s") else f"{kind}s"
    if plural not in _all():
        raise ConfigError(f"nothing of the kind {kind!r} to list; {did_you_mean(plural, _all())}")
    if name is not None:
        help.print_sections(list(_one(plural, name)))
        return
    for each, path in _all()[plural].items():
        print(f"{each:<20} {_summary(path)}")
    if not _all()[plural]:
        print(f"none here; the folder {RECIPES}/ of the repository has one for each published figure")


def _all() -> dict[str, dict[str, Path]]:
    """Kind -> name -> its file."""
    listed = {
        kind: {name: source_path(package, name) for name in registered_names(package)}
        for kind, package in PACKAGES.items()
    }
    repository = Path(__file__).parents[4] / RECIPES  # where the package runs from a copy of it
    folder = Path(RECIPES) if Path(RECIPES).is_dir() else repository
    return {**listed, RECIPES: {path.stem: path for path in sorted(folder.glob("*.toml"))}}


def _summary(path: Path) -> str:
    if path.suffix == ".toml":
        return path.read_text(encoding="utf-8").split("\n")[0].lstrip("# ")
    return summary(path)


def _one(kind: str, name: str) -> Iterator[Section]:
    """All that a file says of itself."""
    listed = _all()[kind]
    if name not in listed and ("." not in name or kind == RECIPES):
        raise ConfigError(f"unknown {kind.removesuffix('s')} {name!r}; {did_you_mean(name, listed)}")
    if kind == RECIPES:
        print(listed[name].read_text(encoding="utf-8"), end="")
        return
    path = source_path(PACKAGES[kind], name)
    if kind == "tasks":
        yield from help.task_sections(name)
        yield help.options_section(name)
        yield Section(f"Its verb: regard {read_constant(path, 'VERB')} RUN …")
    elif kind == "models":
        yield help.model_section(name)
    else:
        yield help.of_file(path, name)
