"""What a shell offers when a word of a command is begun: run folders, tasks, recipes, settings (Tab).

`regard --install-completion` sets it up for the shell it is called from. Nothing here imports torch.
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

ARGS_META_KEY = "regard words"  # where the words of a call are kept in its context
PACKAGE_BY_SETTING = {
    "model": "regard.models",
    "model.score": "regard.attention.scores",
    "model.position": "regard.layers.positions",
    "decoding": "regard.decoding.strategies",
}


def runs(incomplete: str) -> list[str]:
    """Run folders that begin so, and folders that may have some in them."""
    begun = [incomplete, *(["runs/"] if not incomplete else [])]
    found = [Path(path) for begin in begun for path in sorted(glob(escape(begin) + "*")) if Path(path).is_dir()]
    return [str(path) if (path / "config.json").is_file() else f"{path}/" for path in found]


def complete_train(context: typer.Context, incomplete: str) -> list[str]:
    """A task or a recipe; behind it, its settings."""
    typed: Sequence[str] = context.meta.get(ARGS_META_KEY, [])
    task = next((task for task in map(task_of, typed) if task), None)
    if task is None:
        return _beginning(incomplete, [*registered_names("regard.tasks"), *sorted(glob(escape(incomplete) + "*.toml"))])
    models = [word.partition("=")[2] for word in typed if word.startswith("model=")]
    return _settings(incomplete, help.task_sections(task, models[-1] if models else None))


def complete_predict(context: typer.Context, incomplete: str) -> list[str]:
    """What can be asked of the run that is named."""
    return _settings(incomplete, help.run_sections(context.meta.get(ARGS_META_KEY, [])))


def complete_compare(context: typer.Context, incomplete: str) -> list[str]:
    """Further runs, or what can be asked of them."""
    return [*runs(incomplete), *(complete_predict(context, incomplete) if incomplete else [])]


def task_of(word: str) -> str | None:
    """The task that a word names: itself, or that of a recipe."""
    try:
        task = configs.read_toml(Path(word)).get("task") if word.endswith(".toml") else word
    except RegardError:
        return None
    return task if isinstance(task, str) and task in registered_names("regard.tasks") else None


def _settings(incomplete: str, found: Iterable[Section]) -> list[str]:
    key, equals, _ = incomplete.partition("=")
    if equals:
        return _beginning(
            incomplete,
            [f"{key}={name}" for name in registered_names(PACKAGE_BY_SETTING[key])]
            if key in PACKAGE_BY_SETTING
            else [],
        )
    keys = [row[0] for section in found for row in section.rows]
    return _beginning(incomplete, ["model=", "decoding=", *(key if "=" in key else f"{key}=" for key in keys)])


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
