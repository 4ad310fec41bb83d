"""Rotary positions: Su et al. 2021, section 3.2. Queries and keys are rotated by their position, so scores depend on
distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.score import Dot, ScoreFunction
from regard.core.errors import ShapeError
from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """Adds nothing to the features; each attention layer rotates its queries and keys."""

    def position_bias(self, *, heads: int, dim: int) -> Rotary:
        return Rotary(dim)


class Rotary:
    """The score of rotated queries and keys."""

    is_dot_product = True
    formula = "{}, with q and k rotated by their positions"

    def __init__(self, dim: int) -> None:
        if dim % 2:
            raise ShapeError(
                f"rotary positions rotate pairs of features, but a head has {dim}; choose an even width per head"
            )

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        scores: Tensor = score(rotate(q, query_offset, start), rotate(k, 0, start))
        return scores

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return score.as_dot(rotate(q, query_offset), rotate(k, 0))  # a dot product depends on distances only


def rotate(x: Tensor, query_offset: int, start: Tensor | None = None) -> Tensor:
    """(b h t d) rotated by the positions query_offset, query_offset + 1, …, counted from `start` (b) of each row if
    given. Pairs of features (i, i + d/2) rotate together."""
    t, d = x.shape[-2:]
    rate = torch.exp(torch.arange(d // 2, dtype=torch.float64) * (-2 * math.log(10000.0) / d))
    positions = torch.arange(query_offset, query_offset + t, dtype=torch.float64)[:, None]
    if start is not None:
        positions = positions - start.cpu()[:, None, None, None]  # (b 1 t 1)
    angle = positions * rate  # (… t d/2); large positions need float64
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)
