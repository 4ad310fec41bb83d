"""Scaled dot score q·k / √d: Vaswani et al. 2017, equation 1."""

from __future__ import annotations

import math

from torch import Tensor

from regard.attention.score import Dot, ScoreFunction, require_same_dim


class Score(ScoreFunction):
    """q·k / √d."""

    dot_scale: float

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        self.dim = self.key_dim = require_same_dim("scaled_dot", dim, key_dim)
        self.dot_scale = 1.0 / math.sqrt(max(1, dim))  # with d = 0 all scores are 0

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * self.dot_scale) @ k.mT  # (b h t s)

    def as_dot(self, q: Tensor, k: Tensor) -> Dot:
        return Dot(q, k, self.dot_scale)
