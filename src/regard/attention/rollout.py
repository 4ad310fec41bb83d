"""Attention rollout: how much of each input reaches each output through all layers. Abnar and Zuidema 2020."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def rollout(maps: Iterable[Tensor]) -> Tensor:
    """Weights (b h t t) of every layer, first to last -> (b t t): the mean of heads, half of it the residual path,
    multiplied layer by layer; rows sum to one."""
    total: Tensor | None = None
    for weights in maps:
        mean = weights.mean(dim=1)
        step = (mean + torch.eye(mean.shape[-1], device=mean.device, dtype=mean.dtype)) / 2
        total = step if total is None else step @ total
    if total is None:
        raise ValueError("rollout: there are no maps")
    return total
