"""One training step: a global batch, split into processes and micro-batches, to one update of the weights.

Loss and gradient are sums over tokens, divided by the number of tokens in the global batch. So the result does not
depend on the number of processes or micro-batches, except for rounding.
"""

from __future__ import annotations

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
from regard.core.strict_json import to_strict_json
from regard.core.task import Task
from regard.training.checkpoint import Progress
from regard.training.device import LossFunction
from regard.training.distributed import Processes, TrainingEngine
from regard.training.optimizer import LRFactor, set_lr
from regard.training.precision import CHECKED_STEPS, agrees, autocast
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder

_MAX_LISTED_ELEMENTS = 20_000  # nonfinite.json contains only shape and range of larger tensors
# columns of the log; the parts of the loss are added to them
LOG_COLUMNS = (
    *("step", "epoch", "loss", "lr", "norm", "skipped", "valid", "best", "rule", "average", "end", "run"),
    "precision",
)


class Diverged(RegardError):
    """The loss or the gradient is not finite."""


class StepResult(NamedTuple):
    """Results of one step."""

    loss: float  # sum over the tokens of the global batch
    loss_parts: Mapping[str, float]  # sums of the named parts of the loss
    tokens: int
    grad_norm: float  # gradient norm before clipping
    lr: float
    flags: tuple[bool, ...]  # each True if it was True on any process

    @property
    def is_finite(self) -> bool:
        """True if loss and gradient are finite."""
        return math.isfinite(self.loss) and math.isfinite(self.grad_norm)


class MicroBatch(NamedTuple):
    """Examples of one forward pass. Weight 0: the process has no examples and computes only to stay in sync."""

    examples: Indices
    weight: float


def micro_batches(examples: Indices, *, rank: int, world_size: int, accumulation_steps: int) -> Iterator[MicroBatch]:
    """Yield this process's part of a global batch, in the same number of micro-batches on every process."""
    for part in np.array_split(examples[rank::world_size], accumulation_steps):
        yield MicroBatch(part, 1.0) if len(part) else MicroBatch(examples[:1], 0.0)


@dataclass
class LossSums:
    """Sums of the loss, its parts and the tokens over micro-batches."""

    loss: float = 0.0
    tokens: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)

    def add(self, loss: Loss, weight: float) -> None:
        """Add a micro-batch; a loss with weight 0 is ignored even if it is not finite."""
        self.loss += weight * loss.total.item() if weight else 0.0
        self.tokens += weight * loss.count
        for name in sorted(loss.parts):
            self.parts[name] = self.parts.get(name, 0.0) + (weight * loss.parts[name].item() if weight else 0.0)


class Stepper:
    """Forward pass, backward pass and update of one process."""

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
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.seed, self.config, self.task = recipe.seed, recipe.training.optimizer, task
        self.engine, self.optimizer, self.lr_factor, self.processes = engine, optimizer, lr_factor, processes
        self.loss = loss
        self.dtype, self.is_checked = dtype, recipe.training.hardware.precision == "auto"
        self._part_names = engine.loss_parts

    def __call__(self, examples: Indices, *, step: int, flags: Callable[[], tuple[bool, ...]]) -> StepResult:
        """Take step `step` (from 1); `flags` are read after the backward pass and combined over all processes."""
        processes = self.processes
        self.engine.model.train()
        names, (loss, tokens, *rest) = self._checked_sums(examples, step=step, flags=flags)
        parts = dict(zip(names, rest, strict=False))
        lr = self.config.lr * self.lr_factor(step)
        norm = self._update(scale=processes.world_size / max(1.0, tokens), lr=lr, is_finite=math.isfinite(loss))
        return StepResult(loss, parts, int(tokens), norm, lr, tuple(flag > 0 for flag in rest[len(parts) :]))

    def _checked_sums(
        self, examples: Indices, *, step: int, flags: Callable[[], tuple[bool, ...]]
    ) -> tuple[list[str], list[float]]:
        """Accumulate the gradients in `dtype`; return the names of the loss parts, and loss, tokens, parts and flags
        summed over the processes. If the loss differs from the one in float32, continue in float32 from this step."""
        if self.dtype == torch.float32 or not self.is_checked or step not in CHECKED_STEPS:
            return self._sums(examples, step=step, flags=flags)
        dtype, buffers = self.dtype, [(buffer, buffer.clone()) for buffer in self.engine.model.buffers()]
        self.dtype = torch.float32
        with torch.no_grad():
            _, (reference, *_) = self._sums(examples, step=step, flags=tuple)
        self.dtype = dtype
        _restore(buffers)
        names, sums = self._sums(examples, step=step, flags=flags)
        if agrees(sums[0], reference, count=int(sums[1])):
            return names, sums
        self.dtype = torch.float32
        self.optimizer.zero_grad(set_to_none=True)
        _restore(buffers)
        return self._sums(examples, step=step, flags=flags)

    def _sums(
        self, examples: Indices, *, step: int, flags: Callable[[], tuple[bool, ...]]
    ) -> tuple[list[str], list[float]]:
        seed_all(self.seed, step, self.processes.rank)
        sums = self._forward_and_backward(examples)
        values = [sums.loss, sums.tokens, *sums.parts.values(), *map(float, flags())]
        return list(sums.parts), self.processes.all_reduce_sum(values)

    def _forward_and_backward(self, examples: Indices) -> LossSums:
        """Accumulate the gradients of this process's micro-batches; return the sums of their losses."""
        batches = list(
            micro_batches(
                examples,
                rank=self.processes.rank,
                world_size=self.processes.world_size,
                accumulation_steps=self.config.accumulation_steps,
            )
        )
        sums = LossSums()
        for index, (micro_batch, weight) in enumerate(batches, start=1):
            with self.engine.gradient_sync(index == len(batches)):
                loss = self._forward(micro_batch)
                if torch.is_grad_enabled():
                    (loss.total * weight if weight != 1.0 else loss.total).backward()
            sums.add(loss, weight)
        return sums

    def _forward(self, examples: Indices) -> Loss:
        batch = move_to_device(self.task.collate(examples), self.processes.device)
        with autocast(self.processes.device, self.dtype):
            loss: Loss = self.engine.wrapped(self.loss, batch)
        names = tuple(sorted(loss.parts))
        reserved = set(names) & set(LOG_COLUMNS)
        if reserved:
            raise ConfigError(f"part {min(reserved)!r} of the loss has the name of a log column; rename it")
        if self._part_names is None:
            self._part_names = names
        if names != self._part_names:  # the processes sum them in this order
            first, second = (", ".join(parts) or "none" for parts in (self._part_names, names))
            raise ConfigError(
                f"the loss has the parts {first} in one batch and {second} in another; return all parts in every batch"
            )
        return loss

    def _update(self, *, scale: float, lr: float, is_finite: bool) -> float:
        """Scale and clip the gradients and update the weights, if all is finite; return the gradient norm."""
        gradients = [_values(p) for p in self.engine.model.parameters() if p.grad is not None]
        norm = _total_norm(gradients) * scale
        if is_finite and math.isfinite(norm):
            max_norm = self.config.max_grad_norm
            clip_factor = min(1.0, max_norm / (norm + 1e-6)) if max_norm else 1.0
            torch._foreach_mul_(gradients, scale * clip_factor)
            set_lr(self.optimizer, lr)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm


def _values(parameter: nn.Parameter) -> Tensor:
    """Return the gradient of a parameter, or its values if the gradient is sparse: every row is in it once."""
    assert parameter.grad is not None
    if not parameter.grad.is_sparse:
        return parameter.grad
    parameter.grad = parameter.grad.coalesce()
    return parameter.grad.values()


def _restore(buffers: list[tuple[Tensor, Tensor]]) -> None:
    with torch.no_grad():
        for buffer, value in buffers:
            buffer.copy_(value)


def _total_norm(gradients: list[Tensor]) -> float:
    if not gradients:
        return 0.0
    norm = nn.utils.get_total_norm(gradients)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def move_to_device(batch: Any, device: torch.device) -> Any:
    """Return the batch on the device."""
    return batch if device.type == "cpu" else map_tensors(batch, lambda x: x.to(device, non_blocking=True))


def write_nonfinite(
    folder: RunFolder, task: Task, *, examples: Indices, result: StepResult, progress: Progress
) -> None:
    """Write the example indices and the batch of a step with a non-finite loss to nonfinite.json."""
    table = {
        "step": progress.step,
        "epoch": progress.epoch,
        "loss": str(result.loss),
        "norm": str(result.grad_norm),
        "examples": [int(index) for index in examples],
        "batch": to_jsonable(task.collate(examples)),
    }
    write_text(folder.nonfinite, to_strict_json(table, indent=1))


def to_jsonable(batch: Any) -> Any:
    """Convert a batch to lists and dicts for JSON; large tensors become their shape and range."""
    if isinstance(batch, Tensor):
        if batch.numel() <= _MAX_LISTED_ELEMENTS:
            return batch.tolist()
        return {"shape": list(batch.shape), "least": batch.min().item(), "greatest": batch.max().item()}
    if isinstance(batch, tuple):
        values = [to_jsonable(value) for value in batch]
        return dict(zip(batch._fields, values, strict=True)) if hasattr(batch, "_fields") else values
    return batch if batch is None or isinstance(batch, bool | int | float | str) else str(batch)


def explain_nonfinite(folder: RunFolder, progress: Progress, result: StepResult) -> str:
    """Describe a non-finite step: the problem, its location and the remedy, in one line."""
    saved = folder.checkpoints()
    last_checkpoint = f"the last checkpoint is {saved[-1].name}" if saved else "there is no checkpoint yet"
    location = f"step {progress.step} (epoch {progress.current_epoch}, batch {progress.index})"
    location += f"; its examples are in {folder.nonfinite}; {last_checkpoint}"
    if progress.skipped > 1:
        return (
            f"none of the last {progress.skipped} batches, a complete epoch, had a finite loss and gradient, up to "
            f"{location}; lower training.optimizer.lr, or check the data"
        )
    quantity = "gradient" if math.isfinite(result.loss) else f"loss {result.loss}"
    remedy = "lower training.optimizer.lr, or set training.optimizer.on_nonfinite=skip"
    return f"{quantity} is not finite at {location}; {remedy}"
