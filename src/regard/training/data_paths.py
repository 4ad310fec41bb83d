"""Where the data of a run lies: stored so that it is found from any folder, changed where it has moved."""

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
    """The recipe with the paths of its data written out, so that they lead there from every working folder."""
    config = recipe.task.config
    places = {name: _absolute(value) for name, value in _paths(config)}
    task = dataclasses.replace(recipe.task, config=dataclasses.replace(config, **places)) if places else recipe.task
    return dataclasses.replace(recipe, task=task)


def changeable_settings(recipe: Recipe) -> tuple[str, ...]:
    """The settings of [data] that say where it lies: those may change in a trained run."""
    names: tuple[str, ...] = getattr(recipe.task.module("tasks"), "DATA_SETTINGS", ())
    return tuple(f"data.{name}" for name in names)


def check_paths_exist(recipe: Recipe, run: Path) -> None:
    """The data of a run is where its configuration says, or an error says how to name another place."""
    for name, value in _paths(recipe.task.config):
        for path in value if isinstance(value, tuple) else (value,):
            place = Path(str(path).partition("#")[0])  # behind it stands a column of a table
            beside = place.parent.is_dir() and any(place.parent.glob(f"{place.name}.*"))  # news.en beside news.de
            if not place.exists() and not beside:
                raise DataError(
                    f"{place}: the data of {run} is not there; if it has moved, say where it is: data.{name}=…"
                )


def is_same_data(task: Task, fingerprint: Mapping[str, str] | None) -> bool:
    """Whether a task's data is what a run was begun with, by its checksums."""
    try:
        return fingerprint is not None and not describe_changes(fingerprint, task.fingerprint())
    except RegardError:  # it cannot be cut as the run's own was
        return False


def _paths(config: Any) -> Iterator[tuple[str, Any]]:
    """The settings that are a path, or several."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Path) or (isinstance(value, tuple) and value and isinstance(value[0], Path)):
            yield field.name, value


def _absolute(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_absolute(path) for path in value)
    return value.expanduser().absolute()
