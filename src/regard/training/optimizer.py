"""PyTorch's own Adam and AdamW, fused where the device can, with weight decay on matrices only."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from regard.training.config import Optimizer


def build(config: Optimizer, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over all trainable parameters; gains and biases (fewer than two axes) are never decayed."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() >= 2], "weight_decay": config.decay},
        {"params": [p for p in trainable if p.dim() < 2], "weight_decay": 0.0},
    ]
    kinds: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    made: torch.optim.Optimizer = kinds[config.name](
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        fused=_can_fuse(trainable),
    )
    return made


def _can_fuse(parameters: list[nn.Parameter]) -> bool:
    return all(
        p.device.type in ("cpu", "cuda") and p.is_floating_point() and not isinstance(p, DTensor) for p in parameters
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Every group gets the rate of this step."""
    for group in optimizer.param_groups:
        group["lr"] = rate
