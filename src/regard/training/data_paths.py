"""Paths of a run's data: stored as absolute paths, and changeable in a trained run if the data has moved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.core.checksums import describe_changes
from regard.core.errors import DataError, RegardError
from regard.core.task import Task
from regard.training.recipe import Recipe


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """Return the recipe with absolute data paths, so that they are valid in every working directory."""
    config = recipe.task.config
    paths = {name: _absolute(value) for name, value in _paths(config)}
    task = dataclasses.replace(recipe.task, config=dataclasses.replace(config, **paths)) if paths else recipe.task
    return dataclasses.replace(recipe, task=task)


def changeable_settings(recipe: Recipe) -> tuple[str, ...]:
    """Return the settings of [data] that locate the data; they may change in a trained run."""
    names: tuple[str, ...] = getattr(recipe.task.module("tasks"), "DATA_SETTINGS", ())
    return tuple(f"data.{name}" for name in names)


def has_user_data(config: Any) -> bool:
    """Return True if the settings name files of the user, not built-in data."""
    return any(True for _ in _paths(config))


def check_paths_exist(recipe: Recipe, run: Path) -> None:
    """Raise a DataError if data of a run is missing; the message says how to set another path."""
    for name, value in _paths(recipe.task.config):
        for path in value if isinstance(value, tuple) else (value,):
            file = Path(str(path).partition("#")[0])  # "#" is followed by the column of a table
            is_prefix = file.parent.is_dir() and any(file.parent.glob(f"{file.name}.*"))  # news: news.en, news.de
            if not file.exists() and not is_prefix:
                raise DataError(f"{file}: the data of {run} does not exist; if it has moved, set data.{name}=…")


def is_same_data(task: Task, fingerprint: Mapping[str, str] | None) -> bool:
    """Return True if a task's data has the checksums of the data that the run was trained on."""
    try:
        return fingerprint is not None and not describe_changes(fingerprint, task.fingerprint())
    except RegardError:  # the data cannot be split as the run's data was
        return False


def _paths(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of settings that are a path or a tuple of paths."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Path) or (isinstance(value, tuple) and value and isinstance(value[0], Path)):
            yield field.name, value


def _absolute(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_absolute(path) for path in value)
    return value.expanduser().absolute()
