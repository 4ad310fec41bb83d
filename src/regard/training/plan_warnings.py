"""Warnings about settings that do not fit the data or the budget: at the start of training, and at its end."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from regard.core.errors import pluralize
from regard.core.protocols import Indices
from regard.core.task import Task
from regard.training.checkpoint import Progress
from regard.training.config import Config
from regard.training.optimizer import schedule
from regard.training.recipe import Recipe

SUBWORD_LEVELS = ("bpe", "unigram", "bytes")
FAR_BELOW = 0.7  # share of the planned steps below which training ended far too early
MIN_EVALUATIONS = 3  # after which a run whose first evaluation is still the best did not improve


def planned_steps(config: Config, steps_per_epoch: int) -> int | None:
    """Return the last step according to steps and epochs; None if only minutes limit training."""
    limits = [config.steps, config.epochs and config.epochs * steps_per_epoch]
    return min((limit for limit in limits if limit), default=None)


def at_start(recipe: Recipe, task: Task, batches: Sequence[Indices], *, is_planned: bool) -> list[str]:
    """Return warnings about the warm-up, and about a vocabulary that the plan did not choose."""
    total = planned_steps(recipe.training, len(batches))
    warnings = [] if total is None else warmup_warnings(recipe.training, total)
    return warnings if is_planned else warnings + vocabulary_warnings(recipe, task, sum(map(len, batches)))


def warmup_warnings(config: Config, total: int) -> list[str]:
    """Return a warning if training ends before the warm-up does."""
    warmup = config.schedule.warmup
    if warmup <= total:
        return []
    share = schedule(config.schedule, total)(total) / schedule(config.schedule, warmup)(warmup)
    return [
        f"warning: the warm-up of {warmup:,} steps is longer than the training ({pluralize(total, 'step')}), so the "
        f"learning rate never rises above {share:.0%} of its peak; set training.schedule.warmup={max(1, total // 10)}, "
        "or train longer"
    ]


def vocabulary_warnings(recipe: Recipe, task: Task, examples: int) -> list[str]:
    """Return a warning if the subword vocabulary of a task with sentences is larger than a third of the examples."""
    is_subword = getattr(recipe.task.config, "tokenizer", "") in SUBWORD_LEVELS
    if not is_subword or not hasattr(recipe.task.module("tasks"), "measure"):
        return []
    sizes = [
        getattr(task.spec, field.name) for field in dataclasses.fields(task.spec) if field.name.endswith("vocab_size")
    ]
    largest = max(sizes, default=0)
    if 3 * largest <= examples:
        return []
    return [
        f"warning: the vocabulary of {largest:,} tokens is larger than a third of the "
        f"{pluralize(examples, 'example')}, so that most tokens are rare; set a smaller data.vocab_size, or "
        "model.preset=auto"
    ]


def at_end(config: Config, progress: Progress, *, total: int | None) -> list[str]:
    """Return warnings about a run that ended too early or did not improve; `total` are the planned steps."""
    step, best, evaluations = progress.step, progress.best, progress.evaluations
    is_timed_out = progress.ended == "minutes"
    warnings = []
    if is_timed_out and total is not None and step < FAR_BELOW * total:
        minutes = (config.minutes or 0) * total / max(1, step)
        warnings.append(
            f"warning: only {step:,} of the {total:,} planned steps were done in training.minutes="
            f"{config.minutes:g}: the machine is busy or slower than planned; continue with --resume and "
            f"training.minutes={math.ceil(minutes):g}"
        )
    if is_timed_out and step < config.schedule.warmup:
        warnings.append(
            f"warning: training ended in its warm-up (step {step:,} of {config.schedule.warmup:,}); set a smaller "
            "training.schedule.warmup, or train longer"
        )
    if evaluations >= MIN_EVALUATIONS and best.rule == "first evaluation":
        warnings.append(
            f"warning: validation never improved after the first of {evaluations} evaluations (step {best.step:,}); "
            "lower training.optimizer.lr, or check the data"
        )
    return warnings
