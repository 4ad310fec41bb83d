"""Somebody outside who sees the model after every step, such as what keeps the maps of a probe."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from torch import nn

from regard.core.task import Task
from regard.training.recipe import Recipe


class Watch(Protocol):
    """Called after each step. It may look at the model but leaves it as it was."""

    def __call__(self, recipe: Recipe, task: Task, *, model: nn.Module, run: Path, step: int) -> None: ...


def nobody(recipe: Recipe, task: Task, *, model: nn.Module, run: Path, step: int) -> None:
    """Nobody watches."""
