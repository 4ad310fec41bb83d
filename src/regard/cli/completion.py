"""Shell completion of run folders, tasks, recipes and settings.

`regard --install-completion` installs it for the current shell. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import escape, glob
from pathlib import Path

import typer

from regard.cli import help
from regard.cli.help import Section
from regard.core import config as configs
from regard.core.errors import RegardError
from regard.core.registry import registered_names

ARGS_META_KEY = "regard words"  # key of the arguments in the meta dictionary of a click context
PACKAGE_BY_SETTING = {
    "model": "regard.models",
    "model.score": "regard.attention.scores",
    "model.position": "regard.layers.positions",
    "decoding": "regard.decoding.strategies",
}


def runs(incomplete: str) -> list[str]:
    """Complete run folders, and folders that may contain run folders."""
    prefixes = [incomplete, *(["runs/"] if not incomplete else [])]
    folders = [Path(path) for prefix in prefixes for path in sorted(glob(escape(prefix) + "*")) if Path(path).is_dir()]
    return [str(path) if (path / "config.json").is_file() else f"{path}/" for path in folders]


def complete_train(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a task or a recipe, and then its settings."""
    from regard.training import recipe_files

    typed: Sequence[str] = context.meta.get(ARGS_META_KEY, [])
    task = next((task for task in map(task_of, typed) if task), None)
    if task is None:
        files = sorted(glob(escape(incomplete) + "*.toml"))
        return _with_prefix(incomplete, [*registered_names("regard.tasks"), *recipe_files.packaged_recipes(), *files])
    models = [arg.partition("=")[2] for arg in typed if arg.startswith("model=")]
    return _settings(incomplete, help.task_sections(task, models[-1] if models else None))


def complete_predict(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the options of the run among the arguments."""
    return _settings(incomplete, help.run_sections(context.meta.get(ARGS_META_KEY, [])))


def complete_compare(context: typer.Context, incomplete: str) -> list[str]:
    """Complete further runs, or their options."""
    return [*runs(incomplete), *(complete_predict(context, incomplete) if incomplete else [])]


def task_of(argument: str) -> str | None:
    """Return the task that an argument names: a task, or the task of a recipe; otherwise None."""
    from regard.training import recipe_files

    try:
        recipe = None if argument in registered_names("regard.tasks") else recipe_files.find_recipe(argument)
        task = argument if recipe is None else configs.read_toml(recipe).get("task")
    except RegardError:
        return None
    return task if isinstance(task, str) and task in registered_names("regard.tasks") else None


def _settings(incomplete: str, sections: Iterable[Section]) -> list[str]:
    key, equals, _ = incomplete.partition("=")
    if equals:
        values = registered_names(PACKAGE_BY_SETTING[key]) if key in PACKAGE_BY_SETTING else []
        return _with_prefix(incomplete, [f"{key}={value}" for value in values])
    keys = [row[0] for section in sections for row in section.rows]
    return _with_prefix(incomplete, ["model=", "decoding=", *(key if "=" in key else f"{key}=" for key in keys)])


def _with_prefix(prefix: str, candidates: Iterable[str]) -> list[str]:
    return [candidate for candidate in candidates if candidate.startswith(prefix)]
