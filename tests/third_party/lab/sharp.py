"""A score: the dot product of queries and keys, three times as sharp."""

from __future__ import annotations

from torch import Tensor

from regard.attention.score import Dot, ScoreFunction


class Score(ScoreFunction):
    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return 3 * q @ k.mT

    def as_dot(self, q: Tensor, k: Tensor) -> Dot:
        return Dot(q, k, 3.0)
