"""What a position scheme is: something added to the features, something inside the score, or nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.weigh import PositionBias


class PositionScheme(nn.Module):
    """The base of every `Position`; a scheme overrides `encode` (added to the features) or `place` (in the score)."""

    def __init__(self, dim: int, *, max_length: int) -> None:
        super().__init__()
        self.dim = dim
        self.longest = max_length

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor | None:
        """Places (…) in a sequence of `length` -> what is added to the features (… d), or None."""
        return None

    def encode_sequence(self, length: int) -> Tensor | None:
        """(t d): what is added to the features of a whole sequence, or None."""
        return self.encode(torch.arange(length), length)

    def position_bias(self, *, heads: int, dim: int) -> PositionBias | None:
        """What one attention layer with `heads` heads of width `dim` puts inside its score, or None."""
        return None

    def causal_position_bias(self, *, heads: int, dim: int) -> PositionBias | None:
        """The same for a layer whose queries never look ahead; a scheme may leave out what is for the future."""
        return self.position_bias(heads=heads, dim=dim)

    def forward(self, x: Tensor, start: Tensor | int = 0) -> Tensor:
        """(b t d) features -> the same with their places, counted from `start` (one number, or one per row). What
        stands before place 0 is padding on the left, and is given place 0."""
        t = x.shape[1]
        places = torch.arange(t, device=x.device) + (start[:, None] if isinstance(start, Tensor) else start)
        added = self.encode(places.clamp_min(0), start + t)
        return x if added is None else x + added.to(x.dtype)
