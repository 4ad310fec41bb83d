"""Console messages at the start and the end of training: data, model, device, budget, and the reason for stopping."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

from regard.core.errors import pluralize
from regard.core.protocols import Indices
from regard.core.task import Task
from regard.training.config import Config
from regard.training.distributed import Processes
from regard.training.precision import format_dtype
from regard.training.recipe import Recipe


def describe_run(
    recipe: Recipe,
    task: Task,
    *,
    model: nn.Module,
    batches: Sequence[Indices],
    processes: Processes,
    dtype: torch.dtype,
) -> Iterator[str]:
    """Yield a description of the run, line by line."""
    yield from task.data_summary()
    examples = sum(len(batch) for batch in batches)
    size = f"{pluralize(len(batches), 'step')} and {pluralize(examples, 'example')}"
    yield f"an epoch has {size}; {_evaluation_interval(recipe.training)}"
    parameters = sum(weight.numel() for weight in model.parameters())
    frozen = sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
    yield f"{recipe.model.name} with {parameters:,} parameters" + (f", {frozen:,} of them frozen" if frozen else "")
    yield from _loss_differences(recipe)
    yield _device(processes, dtype)
    yield f"training ends after {_budget(recipe.training)}"


def _evaluation_interval(config: Config) -> str:
    every = config.evaluation.every
    return "evaluated after each epoch" if every is None else f"evaluated every {pluralize(every, 'step')}"


def _loss_differences(recipe: Recipe) -> Iterator[str]:
    """Describe the settings that make the training loss differ from the validation loss."""
    settings = ((recipe.model.config, "dropout", "dropout"), (recipe.task.config, "smoothing", "label smoothing"))
    used = [f"{label} {getattr(config, name)}" for config, name, label in settings if getattr(config, name, 0)]
    if used:
        without = "none" if len(used) == 1 else "neither"
        yield f"the training loss has {' and '.join(used)}, the validation loss has {without}"


def _device(processes: Processes, dtype: torch.dtype) -> str:
    device = processes.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    threads = f", {pluralize(torch.get_num_threads(), 'thread')}" if device.type == "cpu" else ""
    world_size = f", {processes.world_size} processes" if processes.world_size > 1 else ""
    return f"on {name}{threads}{world_size}, {format_dtype(dtype)}"


def _budget(config: Config) -> str:
    limits = [pluralize(config.steps, "step")] if config.steps is not None else []
    limits += [pluralize(config.epochs, "epoch")] if config.epochs is not None else []
    limits += [_minutes(config.minutes)] if config.minutes is not None else []
    patience = config.evaluation.patience
    limits += [f"{pluralize(patience, 'evaluation')} without a better one"] if patience is not None else []
    return " or ".join(limits) + (", whichever comes first" if len(limits) > 1 else "")


def end_reason(reason: str, config: Config) -> str:
    """Return the reason why a run ended in words, from the key in its log."""
    patience = config.evaluation.patience or 0
    are = "is" if config.minutes == 1 else "are"
    return {
        "steps": f"{_all(config.steps, 'step')} (training.steps)",
        "epochs": f"{_all(config.epochs, 'epoch')} (training.epochs)",
        "minutes": f"the {_minutes(config.minutes or 0)} {are} over (training.minutes)",
        "patience": f"no better for {pluralize(patience, 'evaluation')} (training.evaluation.patience)",
    }.get(reason, reason)


def finished(folder: Path, reason: str, config: Config) -> str:
    """Return the message for a resumed run that has already ended: why, and how to train it further."""
    further = {
        "steps": f"training.steps={2 * (config.steps or 0)}",
        "epochs": f"training.epochs={2 * (config.epochs or 0)}",
        "minutes": f"training.minutes={2 * (config.minutes or 0):g}",
        "patience": "training.evaluation.patience=none",
    }.get(reason, "training.steps=…")
    return (
        f"{folder} is finished and was not trained further: {end_reason(reason, config)}; to train it further, raise "
        f"the limit: regard train --resume {shlex.quote(str(folder))} {further}"
    )


def _minutes(count: float) -> str:
    return f"{count:g} minute{'' if count == 1 else 's'}"


def _all(count: int | None, unit: str) -> str:
    return f"the one {unit} is done" if count == 1 else f"all {count or 0:,} {unit}s are done"
