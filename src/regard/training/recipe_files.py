"""Recipes by name: files of the working directory, and those that come with regard. Nothing here imports torch."""

from __future__ import annotations

from pathlib import Path

from regard.core.config import Table
from regard.core.errors import ConfigError, did_you_mean
from regard.core.registry import registered_names
from regard.core.version import __version__

FOLDER, SUFFIX = "recipes", ".toml"
_PACKAGE = Path(__file__).parents[1]


def packaged_folder() -> Path:
    """Return the folder of the recipes that come with regard: in the installed package, or in the repository."""
    installed = _PACKAGE / FOLDER
    return installed if installed.is_dir() else _PACKAGE.parents[1] / FOLDER


def packaged_recipes() -> dict[str, Path]:
    """Return name -> file of the recipes that come with regard."""
    return {path.stem: path for path in sorted(packaged_folder().glob(f"*{SUFFIX}"))}


def find_recipe(word: str) -> Path | None:
    """Return the file of a recipe: a path, or the name of one in ./recipes or in regard, with or without .toml.

    None if the word names no recipe. A word that ends in .toml and names none is an error.
    """
    path = Path(word)
    if path.suffix == SUFFIX and path.is_file():
        return path
    is_name = path.suffix in ("", SUFFIX) and path.parent in (Path(), Path(FOLDER))
    name = path.name.removesuffix(SUFFIX)
    local = Path(FOLDER) / f"{name}{SUFFIX}"
    if is_name and local.is_file():
        return local
    if is_name and name in packaged_recipes():
        return packaged_recipes()[name]
    if path.suffix == SUFFIX:
        raise ConfigError(f"{path}: no such recipe; {did_you_mean(name, packaged_recipes())}")
    return None


def unknown_word(word: str) -> ConfigError:
    """Return the error for a word that names neither a task nor a recipe."""
    path = Path(word)
    folder = path.parent if path.name == "config.json" else path
    if (folder / "config.json").is_file():
        return ConfigError(
            f"{word} is a run, not a recipe; continue it with: regard train --resume {folder}, or write its recipe "
            f"with: regard info {folder} --recipe > NAME{SUFFIX}"
        )
    tasks = registered_names("regard.tasks")
    return ConfigError(
        f"{word!r} is neither a task nor a recipe; {did_you_mean(word, [*tasks, *packaged_recipes()], tasks)}"
    )


def to_toml(table: Table, *, comment: str = "") -> str:
    """Return a recipe table as TOML; None is written as "none", which every optional setting accepts."""
    lines = [f"# {line}" for line in comment.splitlines()]
    return "\n".join([*lines, *_toml_lines(table, ())]).strip() + "\n"


def _toml_lines(table: Table, path: tuple[str, ...]) -> list[str]:
    plain = [f"{name} = {_toml_value(value)}" for name, value in table.items() if not isinstance(value, dict)]
    header = ["", f"[{'.'.join(path)}]"] if path and plain else []
    sections = [
        line for name, value in table.items() if isinstance(value, dict) for line in _toml_lines(value, (*path, name))
    ]
    return [*header, *plain, *sections]


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return _toml_text("none" if value is None else str(value))


def _toml_text(text: str) -> str:
    """Return a basic string: quotes, backslashes and control characters are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'


def recipe_comment(folder: Path, run_id: str | None) -> str:
    """Return the first line of the recipe of a run."""
    return f"The recipe of {folder.resolve().name}, run {run_id or 'without an id'}, written by regard {__version__}."
