"""Sinusoidal positions: Vaswani et al. 2017, section 3.5. The continuous form of binary numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """sin(p / 10000^(2i/d)) in even features, cos of the same in odd ones."""

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor:
        return sinusoids(positions, self.dim)


def sinusoids(positions: Tensor, dim: int) -> Tensor:
    """Positions (…) -> (… d), computed in float64: for large positions float32 is too imprecise for the angle."""
    half = torch.arange(0, dim, 2, device=positions.device, dtype=torch.float64)
    rate = torch.exp(half * (-math.log(10000.0) / dim))  # 1 / 10000^(2i/d)
    angle = positions[..., None].double() * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :dim].float()
