"""Dropout from cheap random bits: a byte per number compared with a threshold, several times faster on a CPU than a
generator of uniform floats. Srivastava et al. 2014. Every mask is drawn afresh; the probability is a multiple of 1/256.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.core.errors import ConfigError
from regard.core.transforms import transformed

LOWEST = -(2**63)


class Dropout(nn.Module):
    """(…) -> (…): each number is zero with the given probability, the others grow so that the mean stays."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability <= 1:
            raise ConfigError(f"dropout={probability} is not a probability; choose one from 0 to 1")
        self.probability = probability
        self.threshold = round(probability * 256)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.threshold == 0:
            return x
        if x.device.type != "cpu" or self.threshold >= 256 or transformed():
            return functional.dropout(x, self.probability)
        apply: Any = _Drop.apply
        dropped: Tensor = apply(x, self.threshold)
        return dropped

    def extra_repr(self) -> str:
        return f"{self.probability}"


def random_bytes(count: int) -> Tensor:
    """`count` random bytes, each value equally likely, from torch's own generator."""
    words = torch.empty(-(-count // 8), dtype=torch.int64).random_(LOWEST, None)
    return words.view(torch.uint8)[:count]


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        kept = (random_bytes(x.numel()) >= threshold).view(x.shape)
        ctx.save_for_backward(kept)
        ctx.scale = 256 / (256 - threshold)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (grad * kept).mul_(ctx.scale), None
