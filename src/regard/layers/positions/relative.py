"""Relative positions: a learned vector per distance, met by the query. Shaw et al. 2018, equation 4, by the skewing of
Huang et al. 2019, section 3.4.1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.score import Dot, ScoreFunction
from regard.attention.skew import distances, skew
from regard.layers.position import PositionScheme


class Position(PositionScheme):
    """Adds nothing; each attention layer has a table of distances. Those beyond `longest` share its last row."""

    def place(self, *, heads: int, dim: int) -> Relative:
        return Relative(heads, dim, reach=self.longest)


class Relative(nn.Module):
    """score(q, k) + q·e[distance] / √d; distances are clipped to ±reach, a table of its own for every head."""

    def __init__(self, heads: int, dim: int, *, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.table = nn.Parameter(torch.randn(heads, 2 * reach + 1, dim) * dim**-0.5)  # rows: distance -reach … reach

    def score(self, score: ScoreFunction, q: Tensor, k: Tensor, first: int) -> Tensor:
        t, s = q.shape[-2], k.shape[-2]
        steps = distances(t, s, first=first, device=q.device).clamp(-self.reach, self.reach)
        by_distance = (q * q.shape[-1] ** -0.5) @ self.table[:, steps + self.reach].mT  # (b h t t+s-1)
        found: Tensor = score(q, k) + skew(by_distance, s)
        return found

    def as_dot(self, score: ScoreFunction, q: Tensor, k: Tensor, first: int) -> Dot | None:
        return None
