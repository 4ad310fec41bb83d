"""Relative positions: a learned vector per distance in the score. Shaw et al. 2018, equation 4, computed by the skewing
of Huang et al. 2019, section 3.4.1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.relative_skew import distance_scores, skew
from regard.attention.score import Dot, ScoreFunction
from regard.core.errors import ShapeError
from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """Adds nothing to the features; each attention layer has a table of distances. Distances beyond `max_length` share
    its last row."""

    def position_bias(self, *, heads: int, dim: int) -> Relative:
        return Relative(heads, dim, max_distance=self.longest)

    def causal_position_bias(self, *, heads: int, dim: int) -> Relative:
        return Relative(heads, dim, max_distance=self.longest, max_ahead=0)


class Relative(nn.Module):
    """score(q, k) + q·e[distance] / √d, with a separate table per head.

    Distances are clipped to `max_distance` back and `max_ahead` ahead (by default `max_distance`). In causal attention
    `max_ahead` is 0, and the table has no rows for later positions.
    """

    is_dot_product = False
    formula = "{} + q·e[i−j] / √d"

    def __init__(self, heads: int, dim: int, *, max_distance: int, max_ahead: int | None = None) -> None:
        super().__init__()
        if max_distance < 0:
            raise ShapeError(f"relative positions: max_distance={max_distance} must be at least 0")
        self.ahead = max_distance if max_ahead is None else max_ahead
        self.table = nn.Parameter(
            torch.randn(heads, max_distance + self.ahead + 1, dim) * dim**-0.5
        )  # from the farthest past on

    def score(
        self,
        score: ScoreFunction,
        q: Tensor,
        k: Tensor,
        query_offset: int,
        start: Tensor | None = None,
    ) -> Tensor:
        s = k.shape[-2]
        scaled = q * q.shape[-1] ** -0.5
        by_distance = distance_scores(
            scaled, self.table, q.shape[-2], s, query_offset=query_offset, max_ahead=self.ahead
        )  # (b h t t+s-1)
        scores: Tensor = score(q, k) + skew(by_distance, s)
        return scores

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return None
