"""Interface of position schemes: an encoding added to the features, a bias inside the attention score, or neither."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.weigh import PositionBias


class PositionScheme(nn.Module):
    """Base class of every `Position`. A scheme overrides `encode` (added to the features) or `position_bias` (inside
    the score)."""

    def __init__(self, dim: int, *, max_length: int) -> None:
        super().__init__()
        self.dim = dim
        self.longest = max_length

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor | None:
        """Positions (…) in a sequence of `length` -> encodings added to the features (… d), or None."""
        return None

    def encode_sequence(self, length: int) -> Tensor | None:
        """(t d): encodings of a complete sequence, or None."""
        return self.encode(torch.arange(length), length)

    def position_bias(self, *, heads: int, dim: int) -> PositionBias | None:
        """Return the position bias of one attention layer with `heads` heads of width `dim`, or None."""
        return None

    def causal_position_bias(self, *, heads: int, dim: int) -> PositionBias | None:
        """Return the position bias of a causal attention layer; a scheme may leave out parameters for later
        positions."""
        return self.position_bias(heads=heads, dim=dim)

    def forward(self, x: Tensor, start: Tensor | int = 0) -> Tensor:
        """(b t d) -> the same plus the encodings of the positions from `start` on (one int, or one per row). Negative
        positions are padding on the left and get position 0."""
        t = x.shape[1]
        positions = torch.arange(t, device=x.device) + (start[:, None] if isinstance(start, Tensor) else start)
        added = self.encode(positions.clamp_min(0), start + t)
        return x if added is None else x + added.to(x.dtype)
