"""Initialization from the data: parts of a new model, and of the task, that are fitted before the first step."""

from __future__ import annotations

import time

from torch import nn

from regard.core.task import Task


def fit_to_data(task: Task, model: nn.Module) -> float:
    """Fit the parts of a new model that follow from the data; return the seconds, with those of the task's parts."""
    started_at = time.monotonic()
    task.initialize(model)
    return task.fit_s + time.monotonic() - started_at
