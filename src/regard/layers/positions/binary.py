"""The position as a binary number, one bit per feature: bounded and unique, but wasteful and not smooth."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """Bit i of p in feature i; features after the 31st bit are 0."""

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor:
        bits = torch.arange(min(self.dim, 31), device=positions.device)
        features = (positions[..., None] >> bits & 1).float()
        rest = features.new_zeros(*positions.shape, self.dim - bits.numel())
        return torch.cat([features, rest], dim=-1)
