"""Checks before the first step: optional dependencies that the run will need, and a decoding strategy that works."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard.core.errors import ConfigError, RegardError
from regard.core.extras import require
from regard.core.inference_mode import eval_mode
from regard.core.task import Task
from regard.decoding.strategy import DecoderInputs, DecodingStrategy
from regard.training.recipe import Recipe

MAX_TOKENS = 4  # generated in the check of a decoding strategy; an untrained model would not stop by itself


def check_imports(recipe: Recipe) -> None:
    """Raise a MissingExtra error if an optional dependency of evaluation or logging is not installed."""
    for module, extra in getattr(recipe.task.module("tasks"), "EVALUATION_IMPORTS", ()):
        require(module, extra=extra)
    if recipe.training.files.tensorboard:
        require("tensorboard", extra="tensorboard")


class ShortDecoding(DecodingStrategy):
    """A strategy that generates at most MAX_TOKENS tokens."""

    def decode(self, model: Any, inputs: DecoderInputs) -> Any:
        return super().decode(model, inputs._replace(limits=inputs.limits.clamp(max=MAX_TOKENS)))


def check_decoding(recipe: Recipe, task: Task, model: nn.Module) -> None:
    """Predict one example if a component is from another package; raise a ConfigError if its decoding fails.

    Built-in components are covered by the contract tests.
    """
    decoding, names = recipe.decoding, (recipe.task.name, recipe.model.name, getattr(recipe.decoding, "name", ""))
    if decoding is None or not task.examples or not any("." in name for name in names):
        return
    options = getattr(recipe.task.module("tasks"), "Options", lambda: None)()
    short = ShortDecoding(decoding.name, decoding.config)
    try:
        with torch.no_grad(), eval_mode(model):
            task.predict(model, [task.parse_input(task.examples[0])], options, short)
    except RegardError:
        raise
    except Exception as error:  # a component of another package may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ConfigError(
            f"decoding={decoding.name}: fails on one example ({reason}); CONTRIBUTING.md, section Add a decoding "
            "strategy, has a complete one"
        ) from error
