"""Rotary positions: Su et al. 2021, section 3.2. Queries and keys are turned by their place: scores see distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.attention.score import Dot, ScoreFunction
from regard.core.errors import ShapeError
from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """Adds nothing; each attention layer turns its queries and keys."""

    def position_bias(self, *, heads: int, dim: int) -> Rotary:
        return Rotary(dim)


class Rotary:
    """Any score of turned queries and keys."""

    is_dot_product = True

    def __init__(self, dim: int) -> None:
        if dim % 2:
            raise ShapeError(
                f"rotary positions turn pairs of features, but a head has {dim}; choose an even width per head"
            )

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        scores: Tensor = score(rotate(q, query_offset, start), rotate(k, 0, start))
        return scores

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return score.as_dot(rotate(q, query_offset), rotate(k, 0))  # an inner product sees distances alone


def rotate(x: Tensor, query_offset: int, start: Tensor | None = None) -> Tensor:
    """(b h t d) turned by the places first, first+1, …, counted from each row's `start` (b) where one is given.
    Pairs of features (i, i + d/2) turn together."""
    t, d = x.shape[-2:]
    rate = torch.exp(torch.arange(d // 2, dtype=torch.float64) * (-2 * math.log(10000.0) / d))
    places = torch.arange(query_offset, query_offset + t, dtype=torch.float64)[:, None]
    if start is not None:
        places = places - start.cpu()[:, None, None, None]  # (b 1 t 1)
    angle = places * rate  # (… t d/2); far places need the digits
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)
