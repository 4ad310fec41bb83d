"""PyTorch's own Adam, AdamW and Adagrad, fused where the device can, and the learning rate of each step.

Schedules are pure functions of the step, so that there is nothing of them to save.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from regard.core.errors import ConfigError
from regard.training.config import Optimizer, Schedule

LRFactor = Callable[[int], float]


def build(config: Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over all parameters that are not frozen; gains and biases (fewer than two axes) never decay."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    kind: Any = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}[config.name]
    means = {} if config.name == "adagrad" else {"betas": config.betas}
    optimizer: torch.optim.Optimizer = kind(
        [group for group in groups if group["params"]],
        lr=config.lr,
        eps=config.eps,
        fused=_can_fuse(trainable),
        **means,
    )
    return optimizer


def check_weight_decay(config: Optimizer) -> None:
    """Adam divides a gradient by its own size, and with it a decay that is a part of the gradient: what is 0.01 in
    AdamW holds a network at its first weights there (Loshchilov and Hutter 2019, section 2)."""
    if config.name == "adam" and config.weight_decay:
        raise ConfigError(
            f"training.optimizer: decay={config.weight_decay} with name='adam' would be far stronger than it says; "
            "set name='adamw', which decays apart from the gradient"
        )


def _can_fuse(parameters: list[nn.Parameter]) -> bool:
    return all(
        p.device.type in ("cpu", "cuda") and p.is_floating_point() and not isinstance(p, DTensor) for p in parameters
    )


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Every group gets the rate of this step."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def constant(step: int, *, warmup: int) -> float:
    """step (from 1) -> factor: linear rise to 1, then 1."""
    return min(1.0, step / warmup)


def noam(step: int, *, warmup: int) -> float:
    """step -> min(step^-0.5, step · warmup^-1.5): Vaswani et al. 2017, equation 3, where lr is then d_model^-0.5."""
    return min(1 / math.sqrt(step), step / (warmup * math.sqrt(warmup)))


def inverse_sqrt(step: int, *, warmup: int) -> float:
    """step -> the same curve scaled so that its peak, at the end of the warm-up, is 1."""
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, warmup: int, total: int, floor: float) -> float:
    """step -> linear rise to 1, then half a cosine down to `floor` at `total`."""
    if step <= warmup:
        return step / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


def schedule(config: Schedule, total_steps: int | None) -> LRFactor:
    """The factor by which lr is multiplied at each step; `total` is the last step where it is known."""
    if config.name == "cosine":
        return partial(cosine, warmup=config.warmup, total=total_steps or config.warmup, floor=config.min_lr_ratio)
    curves: dict[str, Callable[..., float]] = {"constant": constant, "noam": noam, "inverse_sqrt": inverse_sqrt}
    return partial(curves[config.name], warmup=config.warmup)
