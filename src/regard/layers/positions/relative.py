"""Relative positions: a learned vector per distance, met by the query. Shaw et al. 2018, equation 4, by the skewing of
Huang et al. 2019, section 3.4.1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.relative_skew import meet_distances, skew
from regard.attention.score import Dot, ScoreFunction
from regard.core.errors import ShapeError
from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """Adds nothing; each attention layer has a table of distances. Those beyond `longest` share its last row."""

    def place(self, *, heads: int, dim: int) -> Relative:
        return Relative(heads, dim, reach=self.longest)

    def place_behind(self, *, heads: int, dim: int) -> Relative:
        return Relative(heads, dim, reach=self.longest, ahead=0)


class Relative(nn.Module):
    """score(q, k) + q·e[distance] / √d; a table of its own for every head.

    Distances are clipped to `reach` back and `ahead` (without it as far as back). Where nobody looks ahead it is 0:
    no vector is kept for what never comes.
    """

    dots = False

    def __init__(self, heads: int, dim: int, *, reach: int, ahead: int | None = None) -> None:
        super().__init__()
        if reach < 0:
            raise ShapeError(f"relative positions: reach={reach} is negative; give the farthest distance told apart")
        self.ahead = reach if ahead is None else ahead
        self.table = nn.Parameter(torch.randn(heads, reach + self.ahead + 1, dim) * dim**-0.5)  # from far back on

    def score(self, score: ScoreFunction, q: Tensor, k: Tensor, first: int, start: Tensor | None = None) -> Tensor:
        s = k.shape[-2]
        scaled = q * q.shape[-1] ** -0.5
        met = meet_distances(scaled, self.table, q.shape[-2], s, first=first, most=self.ahead)  # (b h t t+s-1)
        scores: Tensor = score(q, k) + skew(met, s)
        return scores

    def as_dot(self, score: ScoreFunction, q: Tensor, k: Tensor, first: int, start: Tensor | None = None) -> Dot | None:
        return None
