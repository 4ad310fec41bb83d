"""`regard train`: a recipe and settings to a run folder, or a run folder to its end."""

from __future__ import annotations

import os
from pathlib import Path

from regard.core.errors import ConfigError
from regard.inspection import probes
from regard.training import files
from regard.training import recipe as recipes
from regard.training import run as runs
from regard.training.folder import Folder
from regard.training.recipe import Recipe


def run(task: str | None, recipe: Path | None, settings: list[str], *, out: Path | None, resume: Path | None) -> None:
    """Train a new run, or go on with one where it stopped."""
    if resume is not None:
        if recipe is not None or out is not None:
            raise ConfigError(f"--resume {resume} goes on with its own recipe and folder; leave out RECIPE and --out")
        trained = runs.resume(resume, settings, watch=probes.watch)
    elif task is not None:
        chosen = recipes.read(task, recipe, settings=settings)
        trained = runs.train(chosen, out if out is not None else free_folder(chosen), watch=probes.watch)
    else:
        raise ConfigError("name a task, for example: regard train translation, or --resume RUN")
    if os.environ.get("RANK", "0") == "0":
        print(summary(trained.folder))


def free_folder(recipe: Recipe) -> Path:
    """runs/<task>-<model>, with a number if it is taken."""
    base = Path("runs") / f"{recipe.task.name}-{recipe.model.name}"
    taken = (base.with_name(f"{base.name}-{number}") for number in range(2, 10_000))
    return next(path for path in (base, *taken) if not (path / "config.json").exists())


def summary(folder: Path) -> str:
    """Where the run is and what its weights scored."""
    facts = files.read_facts(Folder(folder).model)
    scores = ", ".join(f"{name} {value:.4g}" for name, value in facts["metrics"].items()) or "not evaluated"
    return f"{folder}: the weights of step {facts['step']}, validation {scores}"
