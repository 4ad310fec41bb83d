"""Attention rollout (Abnar and Zuidema 2020): the share of each input in each output, through all layers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def rollout(maps: Iterable[Tensor]) -> Tensor:
    """Weights (b h t t) of every layer, first to last -> (b t t), whose rows sum to one.

    The weights A of a layer are averaged over heads; with the residual connection the layer is (A + I) / 2. The result
    is the product of all layers.
    """
    total: Tensor | None = None
    for weights in maps:
        mean = weights.mean(dim=1)
        layer = (mean + torch.eye(mean.shape[-1], device=mean.device, dtype=mean.dtype)) / 2
        total = layer if total is None else layer @ total
    if total is None:
        raise ValueError("rollout: there are no maps")
    return total
