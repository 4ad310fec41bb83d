"""Tasks on little data, which several test files share: the data of a task are read once per process."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from regard.core.registry import find, registered_names
from regard.core.task import Task
from regard.decoding.strategy import DecodingStrategy
from regard.training import recipe as recipes

TASKS = registered_names("regard.tasks")


class ShortOutputs(DecodingStrategy):
    """The strategy of a recipe with at most 6 output tokens; an untrained model would generate many more."""

    def __call__(self, *args: Any, limits: torch.Tensor, **kwargs: Any) -> Any:
        return super().__call__(*args, limits=limits.clamp(max=6), **kwargs)


def config_of(name: str) -> Any:
    """Return the TINY config of the task, or else the data settings of its demo."""
    module = find("regard.tasks", name)
    if hasattr(module, "TINY"):
        return module.TINY
    return recipes.read(name, settings=[setting for setting in module.DEMO if setting.startswith("data.")]).task.config


@cache
def build_task(name: str) -> Task:
    task: Task = find("regard.tasks", name).build(config_of(name))
    return task
