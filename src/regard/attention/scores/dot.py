"""Dot score q·k: Luong et al. 2015, equation 8."""

from __future__ import annotations

from torch import Tensor

from regard.attention.score import Dot, ScoreFunction, require_same_dim


class Score(ScoreFunction):
    """q·k."""

    dot_scale = 1.0

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        self.dim = self.key_dim = require_same_dim("dot", dim, key_dim)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT  # (b h t s)

    def as_dot(self, q: Tensor, k: Tensor) -> Dot:
        return Dot(q, k, 1.0)
