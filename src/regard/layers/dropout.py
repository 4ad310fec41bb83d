"""Dropout from cheap random bits: a byte per number compared with a threshold, several times faster on a CPU than a
generator of uniform floats. Srivastava et al. 2014. Every mask is drawn afresh; the probability is a multiple of 1/256.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.core.errors import ConfigError
from regard.core.tracing import is_transforming

INT64_MIN = -(2**63)


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
        if x.device.type != "cpu" or self.threshold >= 256 or is_transforming():
            return functional.dropout(x, self.probability)
        apply: Any = _Drop.apply
        dropped: Tensor = apply(x, self.threshold)
        return dropped

    def dropout_add(self, x: Tensor, y: Tensor) -> Tensor:
        """x plus what is left of y."""
        plain = x.device.type == "cpu" and x.dtype == y.dtype and x.shape == y.shape
        if not (plain and self.training and 0 < self.threshold < 256) or is_transforming():
            left: Tensor = self(y)
            return x + left
        apply: Any = _DropAndAdd.apply
        added: Tensor = apply(x, y, self.threshold)
        return added

    def extra_repr(self) -> str:
        return f"{self.probability}"


def random_bytes(count: int) -> Tensor:
    """`count` random bytes, each value equally likely, from torch's own generator."""
    words = torch.empty(-(-count // 8), dtype=torch.int64).random_(INT64_MIN, None)
    return words.view(torch.uint8)[:count]


def _stays(count: int, threshold: int) -> Tensor:
    """(n) bytes, 0 for a number that goes and 1 for one that stays: a random byte held between the threshold and what
    is below it, several times as fast as a comparison."""
    return random_bytes(count).clamp_(threshold - 1, threshold).sub_(threshold - 1)


def _factors(stays: Tensor, like: Tensor) -> Tensor:
    """0 and 1 as numbers to multiply with."""
    return stays.to(like.dtype).view(like.shape)


def _grown(threshold: int) -> float:
    """What the numbers that stay are multiplied by, so that the mean stays."""
    return 256 / (256 - threshold)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        stays = _stays(x.numel(), threshold)
        ctx.save_for_backward(stays)
        ctx.grown = _grown(threshold)
        return _factors(stays, x).mul_(ctx.grown).mul_(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (stays,) = ctx.saved_tensors
        return grad * _factors(stays, grad).mul_(ctx.grown), None


class _DropAndAdd(torch.autograd.Function):
    """Both in one pass over the features."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, threshold: int) -> Tensor:
        stays = _stays(y.numel(), threshold)
        ctx.save_for_backward(stays)
        ctx.grown = _grown(threshold)
        return torch.addcmul(x, y, _factors(stays, y), value=ctx.grown)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (stays,) = ctx.saved_tensors
        return grad, grad * _factors(stays, grad).mul_(ctx.grown), None
