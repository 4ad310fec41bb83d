"""Optimizers (PyTorch's Adam, AdamW and Adagrad, fused if the device supports it) and learning rate schedules.

Schedules are pure functions of the step, so that they have no state to save.
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
    """Build the optimizer of all trainable parameters; gains and biases (fewer than two axes) have no weight decay."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer_class: Any = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}[
        config.name
    ]
    betas = {} if config.name == "adagrad" else {"betas": config.betas}
    optimizer: torch.optim.Optimizer = optimizer_class(
        [group for group in groups if group["params"]],
        lr=config.lr,
        eps=config.eps,
        fused=_can_fuse(trainable),
        **betas,
    )
    return optimizer


def check_weight_decay(config: Optimizer) -> None:
    """Raise a ConfigError for Adam with weight decay.

    Adam normalizes the gradient, and with it a decay term in the gradient. A value of 0.01 that suits AdamW keeps a
    network at its initial weights there (Loshchilov and Hutter 2019, section 2).
    """
    if config.name == "adam" and config.weight_decay:
        raise ConfigError(
            f"training.optimizer: weight_decay={config.weight_decay} with name='adam' is far stronger than the value "
            "suggests; set name='adamw', which decouples the decay from the gradient"
        )


def _can_fuse(parameters: list[nn.Parameter]) -> bool:
    return all(
        p.device.type in ("cpu", "cuda") and p.is_floating_point() and not isinstance(p, DTensor) for p in parameters
    )


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def constant(step: int, *, warmup: int) -> float:
    """step (from 1) -> factor: linear warm-up to 1, then constant."""
    return min(1.0, step / warmup)


def noam(step: int, *, warmup: int) -> float:
    """step -> min(step^-0.5, step · warmup^-1.5): Vaswani et al. 2017, equation 3, with lr = d_model^-0.5."""
    return min(1 / math.sqrt(step), step / (warmup * math.sqrt(warmup)))


def inverse_sqrt(step: int, *, warmup: int) -> float:
    """step -> the same curve, scaled to a peak of 1 at the end of the warm-up."""
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, *, warmup: int, total: int, min_lr_ratio: float) -> float:
    """step -> linear warm-up to 1, then cosine decay to `min_lr_ratio` at step `total`."""
    if step <= warmup:
        return step / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    return min_lr_ratio + (1 - min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * done))


def schedule(config: Schedule, total_steps: int | None) -> LRFactor:
    """Return the function step -> factor of lr; `total_steps` is the last step, needed by cosine only."""
    if config.name == "cosine":
        total = total_steps or config.warmup
        return partial(cosine, warmup=config.warmup, total=total, min_lr_ratio=config.min_lr_ratio)
    curves: dict[str, Callable[..., float]] = {"constant": constant, "noam": noam, "inverse_sqrt": inverse_sqrt}
    return partial(curves[config.name], warmup=config.warmup)
