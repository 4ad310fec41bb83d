"""Trial of a data set: it is read and encoded as at the start of a training, without a model and a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.core.errors import MissingExtra, RegardError
from regard.training import data_paths, plan
from regard.training import recipe as recipes
from regard.training.train import build_task

MAX_BYTES = 2**22  # of the files of a data set that is tried: more takes long to read and encode


def is_small(path: Path) -> bool:
    """Return True if a file or folder is small enough to be tried."""
    files = [path] if path.is_file() else (file for file in path.rglob("*") if file.is_file())
    total = 0
    for file in files:
        total += file.stat().st_size
        if total > MAX_BYTES:
            return False
    return True


def find_error(task: str, data: Mapping[str, object]) -> str:
    """Task and its settings of [data] -> the error at which its training would stop; "" if the data can be used."""
    try:
        recipe = recipes.read(task, settings={"data": dict(data)})
        recipe = plan.plan_data(data_paths.with_absolute_paths(recipe)).recipe
        if not len(build_task(recipe).epoch_batches(0, recipe.seed)):
            return "the training data has no batches; provide more data"
    except MissingExtra:
        return ""
    except RegardError as error:
        return str(error)
    return ""
