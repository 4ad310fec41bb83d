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

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x plus what is left of y."""
        plain = x.device.type == "cpu" and x.dtype == y.dtype and x.shape == y.shape
        if not (plain and self.training and 0 < self.threshold < 256) or transformed():
            left: Tensor = self(y)
            return x + left
        apply: Any = _DropAndAdd.apply
        added: Tensor = apply(x, y, self.threshold)
        return added

    def extra_repr(self) -> str:
        return f"{self.probability}"


def random_bytes(count: int) -> Tensor:
    """`count` random bytes, each value equally likely, from torch's own generator."""
    words = torch.empty(-(-count // 8), dtype=torch.int64).random_(LOWEST, None)
    return words.view(torch.uint8)[:count]


def _grown(drawn: Tensor, threshold: int, like: Tensor) -> Tensor:
    """Random bytes -> what each number is multiplied by: 0 below the threshold, else what keeps the mean.

    A byte less the threshold, plus 1, cut off below 0 and above 1, is 0 or 1: several times as fast as a comparison.
    """
    return _stays(drawn, threshold, like).mul_(256 / (256 - threshold))


def _stays(drawn: Tensor, threshold: int, like: Tensor) -> Tensor:
    return drawn.to(like.dtype).sub_(threshold - 1).clamp_(0, 1).view(like.shape)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        drawn = random_bytes(x.numel())
        ctx.save_for_backward(drawn)
        ctx.threshold = threshold
        return _grown(drawn, threshold, x).mul_(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (drawn,) = ctx.saved_tensors
        return grad * _grown(drawn, ctx.threshold, grad), None


class _DropAndAdd(torch.autograd.Function):
    """Both in one pass over the features."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, threshold: int) -> Tensor:
        drawn = random_bytes(y.numel())
        ctx.save_for_backward(drawn)
        ctx.threshold = threshold
        return torch.addcmul(x, y, _stays(drawn, threshold, y), value=256 / (256 - threshold))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (drawn,) = ctx.saved_tensors
        return grad, grad * _grown(drawn, ctx.threshold, grad), None
