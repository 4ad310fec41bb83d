"""One step: a global batch, shared among processes and parts, to one change of the weights.

Loss and gradient are sums over tokens divided by the number of tokens in the whole batch, whoever computed them: so
neither the number of processes nor of parts changes what a step computes, but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from regard.core.protocols import Indices, Loss
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.core.tree import map_tensors
from regard.training.distributed import Engine, Processes
from regard.training.hardware import autocast, number_format
from regard.training.optimizer import set_rate
from regard.training.recipe import Recipe
from regard.training.schedule import Factor

Work = Callable[[Any, Any], Loss]


class Outcome(NamedTuple):
    """What a step found."""

    loss: float  # sum over the tokens of the global batch
    tokens: int
    norm: float  # of the gradient, before clipping
    rate: float
    flags: tuple[bool, ...]  # each true if it was on any process

    @property
    def finite(self) -> bool:
        """Whether loss and gradient were numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class Part(NamedTuple):
    """Examples computed at once; weight 0 where a process had none and only keeps step with the others."""

    examples: Indices
    weight: float


def parts(examples: Indices, *, rank: int, world: int, accumulate: int) -> Iterator[Part]:
    """This process's share of a global batch, in as many parts on every process."""
    for piece in np.array_split(examples[rank::world], accumulate):
        yield Part(piece, 1.0) if len(piece) else Part(examples[:1], 0.0)


class Stepper:
    """Forward, backward and update, for one process."""

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        *,
        engine: Engine,
        optimizer: torch.optim.Optimizer,
        factor: Factor,
        processes: Processes,
        work: Work,
    ) -> None:
        self.seed, self.config, self.task = recipe.seed, recipe.training.optimizer, task
        self.engine, self.optimizer, self.factor, self.processes = engine, optimizer, factor, processes
        self.work = work
        self.dtype = number_format(recipe.training.hardware.precision, processes.device)

    def __call__(self, examples: Indices, *, step: int, flags: Callable[[], tuple[bool, ...]]) -> Outcome:
        """Compute step number `step` (from 1); `flags` are looked at when the gradients are there, and told to all."""
        where = self.processes
        seed_all(self.seed, step, where.rank)
        self.engine.model.train()
        loss, count = self._gradients(examples)
        loss, tokens, *raised = where.total([loss, count, *map(float, flags())])
        rate = self.config.lr * self.factor(step)
        norm = self._update(scale=where.world / max(1.0, tokens), rate=rate, usable=math.isfinite(loss))
        return Outcome(loss, int(tokens), norm, rate, tuple(flag > 0 for flag in raised))

    def _gradients(self, examples: Indices) -> tuple[float, float]:
        """Gradients of the summed loss; returns this process's sum and count."""
        shares = list(
            parts(examples, rank=self.processes.rank, world=self.processes.world, accumulate=self.config.accumulate)
        )
        loss, count = 0.0, 0.0
        for number, (piece, weight) in enumerate(shares, start=1):
            with self.engine.quietly(number == len(shares)):
                found = self._forward(piece)
                (found.total * weight if weight != 1.0 else found.total).backward()
            loss += weight * found.total.item() if weight else 0.0
            count += weight * found.count
        return loss, count

    def _forward(self, examples: Indices) -> Loss:
        batch = move(self.task.batch(examples), self.processes.device)
        with autocast(self.processes.device, self.dtype):
            found: Loss = self.engine.step(self.work, batch)
        return found

    def _update(self, *, scale: float, rate: float, usable: bool) -> float:
        """Scale and clip the gradients and take the step, unless they are not finite; returns their norm."""
        gradients = [p.grad for p in self.engine.model.parameters() if p.grad is not None]
        norm = _norm(gradients) * scale
        if usable and math.isfinite(norm):
            clip = self.config.clip
            shrink = min(1.0, clip / (norm + 1e-6)) if clip else 1.0
            torch._foreach_mul_(gradients, scale * shrink)
            set_rate(self.optimizer, rate)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm


def _norm(gradients: list[Tensor]) -> float:
    if not gradients:
        return 0.0
    norm = nn.utils.get_total_norm(gradients)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def move(batch: Any, device: torch.device) -> Any:
    """The batch on the device."""
    return batch if device.type == "cpu" else map_tensors(batch, lambda x: x.to(device, non_blocking=True))
