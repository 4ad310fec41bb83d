"""One training step: a global batch, shared among processes and parts, to one change of the weights.

Loss and gradient are sums over tokens divided by the number of tokens in the whole batch, whoever computed them: so
neither the number of processes nor of parts changes what a step computes, but for rounding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from regard.core.errors import ConfigError, RegardError
from regard.core.files import write_text
from regard.core.protocols import Indices, Loss
from regard.core.seed import seed_all
from regard.core.state_tree import map_tensors
from regard.core.task import Task
from regard.training.checkpoint import Progress
from regard.training.device import LossFunction, autocast, resolve_dtype
from regard.training.distributed import Processes, TrainingEngine
from regard.training.optimizer import LRFactor, set_lr
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder

_LARGE = 20_000  # numbers; of a larger tensor nonfinite.json has only shape and range
# of the log, beside the parts of the loss
LOG_COLUMNS = ("step", "epoch", "loss", "lr", "norm", "skipped", "valid", "best", "average", "end", "run")


class Diverged(RegardError):
    """The loss or the gradient is no longer a number."""


class StepResult(NamedTuple):
    """What a step computed."""

    loss: float  # sum over the tokens of the global batch
    loss_parts: Mapping[str, float]  # named parts of the loss, summed in the same way
    tokens: int
    grad_norm: float  # of the gradient, before clipping
    lr: float
    flags: tuple[bool, ...]  # each true if it was on any process

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient were numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.grad_norm)


class MicroBatch(NamedTuple):
    """Examples computed at once; weight 0 where a process had none and only keeps step with the others."""

    examples: Indices
    weight: float


def micro_batches(examples: Indices, *, rank: int, world_size: int, accumulation_steps: int) -> Iterator[MicroBatch]:
    """This process's share of a global batch, in as many pieces on every process."""
    for share in np.array_split(examples[rank::world_size], accumulation_steps):
        yield MicroBatch(share, 1.0) if len(share) else MicroBatch(examples[:1], 0.0)


@dataclass
class LossSums:
    """Loss, its parts and the tokens of the pieces computed so far."""

    loss: float = 0.0
    tokens: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    def add(self, loss: Loss, weight: float) -> None:
        """One more piece; what has weight 0 may be anything, even not a number."""
        self.loss += weight * loss.total.item() if weight else 0.0
        self.tokens += weight * loss.count
        for name in sorted(loss.parts):
            self.parts[name] = self.parts.get(name, 0.0) + (weight * loss.parts[name].item() if weight else 0.0)


class Stepper:
    """Forward, backward and update, for one process."""

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        *,
        engine: TrainingEngine,
        optimizer: torch.optim.Optimizer,
        lr_factor: LRFactor,
        processes: Processes,
        loss: LossFunction,
    ) -> None:
        self.seed, self.config, self.task = recipe.seed, recipe.training.optimizer, task
        self.engine, self.optimizer, self.lr_factor, self.processes = engine, optimizer, lr_factor, processes
        self.loss = loss
        self.dtype = resolve_dtype(recipe.training.hardware.precision, processes.device)
        self._parts = engine.loss_parts

    def __call__(self, examples: Indices, *, step: int, flags: Callable[[], tuple[bool, ...]]) -> StepResult:
        """Take step number `step` (from 1); `flags` are read when the gradients are there, and told to all."""
        processes = self.processes
        seed_all(self.seed, step, processes.rank)
        self.engine.model.train()
        sums = self._forward_and_backward(examples)
        loss, tokens, *rest = processes.all_reduce_sum(
            [sums.loss, sums.tokens, *sums.parts.values(), *map(float, flags())]
        )
        parts = dict(zip(sums.parts, rest, strict=False))
        rate = self.config.lr * self.lr_factor(step)
        norm = self._update(scale=processes.world_size / max(1.0, tokens), rate=rate, usable=math.isfinite(loss))
        return StepResult(loss, parts, int(tokens), norm, rate, tuple(flag > 0 for flag in rest[len(parts) :]))

    def _forward_and_backward(self, examples: Indices) -> LossSums:
        """Gradients of the summed loss of this process's share, piece by piece."""
        rank, world = self.processes.rank, self.processes.world_size
        share = list(
            micro_batches(examples, rank=rank, world_size=world, accumulation_steps=self.config.accumulation_steps)
        )
        sums = LossSums()
        for number, (piece, weight) in enumerate(share, start=1):
            with self.engine.gradient_sync(number == len(share)):
                loss = self._forward(piece)
                (loss.total * weight if weight != 1.0 else loss.total).backward()
            sums.add(loss, weight)
        return sums

    def _forward(self, examples: Indices) -> Loss:
        batch = move_to_device(self.task.collate(examples), self.processes.device)
        with autocast(self.processes.device, self.dtype):
            loss: Loss = self.engine.wrapped(self.loss, batch)
        names = tuple(sorted(loss.parts))
        taken = set(names) & set(LOG_COLUMNS)
        if taken:
            raise ConfigError(f"a part of the loss is called {min(taken)!r}, as a column of the log is; rename it")
        if self._parts is None:
            self._parts = names
        if names != self._parts:  # the processes sum them by their order
            first, other = (", ".join(parts) or "none" for parts in (self._parts, names))
            raise ConfigError(
                f"the loss has the parts {first} in one batch and {other} in another; give each of them in every batch"
            )
        return loss

    def _update(self, *, scale: float, rate: float, usable: bool) -> float:
        """Scale and clip the gradients and take the step, unless they are not finite; returns their norm."""
        gradients = [p.grad for p in self.engine.model.parameters() if p.grad is not None]
        norm = _norm(gradients) * scale
        if usable and math.isfinite(norm):
            clip = self.config.max_grad_norm
            shrink = min(1.0, clip / (norm + 1e-6)) if clip else 1.0
            torch._foreach_mul_(gradients, scale * shrink)
            set_lr(self.optimizer, rate)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm


def _norm(gradients: list[Tensor]) -> float:
    if not gradients:
        return 0.0
    norm = nn.utils.get_total_norm(gradients)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def move_to_device(batch: Any, device: torch.device) -> Any:
    """The batch on the device."""
    return batch if device.type == "cpu" else map_tensors(batch, lambda x: x.to(device, non_blocking=True))


def write_nonfinite(
    folder: RunFolder, task: Task, *, examples: Indices, result: StepResult, progress: Progress
) -> None:
    """A step whose loss is no number: its example numbers and the batch itself, into nonfinite.json."""
    table = {
        "step": progress.step,
        "epoch": progress.epoch,
        "loss": str(result.loss),
        "norm": str(result.grad_norm),
        "examples": [int(number) for number in examples],
        "batch": to_jsonable(task.collate(examples)),
    }
    write_text(folder.nonfinite, json.dumps(table, ensure_ascii=False, indent=1))


def to_jsonable(batch: Any) -> Any:
    """A batch as lists and names for JSON; long tensors as their shape and range."""
    if isinstance(batch, Tensor):
        if batch.numel() <= _LARGE:
            return batch.tolist()
        return {"shape": list(batch.shape), "least": batch.min().item(), "greatest": batch.max().item()}
    if isinstance(batch, tuple):
        values = [to_jsonable(value) for value in batch]
        return dict(zip(batch._fields, values, strict=True)) if hasattr(batch, "_fields") else values
    return batch if batch is None or isinstance(batch, bool | int | float | str) else str(batch)


def explain_nonfinite(folder: RunFolder, progress: Progress, result: StepResult) -> str:
    """What happened, where to look, what to do: one line."""
    saved = folder.checkpoints()
    back = f"the last checkpoint is {saved[-1].name}" if saved else "there is no checkpoint yet"
    where = f"step {progress.step} (epoch {progress.current_epoch}, batch {progress.index})"
    where += f"; its examples are in {folder.nonfinite}; {back}"
    if progress.skipped > 1:
        return (
            f"none of the last {progress.skipped} batches, as many as an epoch has, gave a finite loss and gradient, up to "
            f"{where}; lower training.optimizer.lr, or see what is wrong with the data"
        )
    what = "gradient" if math.isfinite(result.loss) else f"loss {result.loss}"
    return f"{what} is not finite at {where}; lower training.optimizer.lr, or set training.optimizer.on_nonfinite=skip"
