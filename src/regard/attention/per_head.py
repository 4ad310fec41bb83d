"""A score of its own for every head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.score import Dot, ScoreFunction
from regard.core.errors import ShapeError


class PerHead(ScoreFunction):
    """Head i is scored by the i-th score: a dot head beside an additive one."""

    def __init__(self, scores: Sequence[ScoreFunction]) -> None:
        super().__init__()
        self.scores = nn.ModuleList(scores)

    @property
    def projects(self) -> bool:
        return any(score.projects for score in self._each())

    @property
    def inner(self) -> int:
        return max(score.inner for score in self._each())

    def project_keys(self, k: Tensor) -> Tensor:
        self._fits(k)
        return torch.cat([score.project_keys(k[:, i : i + 1]) for i, score in enumerate(self._each())], dim=1)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        self._fits(q)
        rows = [score(q[:, i : i + 1], k[:, i : i + 1]) for i, score in enumerate(self._each())]
        return torch.cat(rows, dim=1)  # (b h t s)

    def as_dot(self, q: Tensor, k: Tensor) -> Dot | None:
        """One kernel for all heads where every score is an inner product; scales are moved into the queries."""
        self._fits(q)
        parts = []
        for i, score in enumerate(self._each()):
            dot = score.as_dot(q[:, i : i + 1], k[:, i : i + 1])
            if dot is None:
                return None
            parts.append((dot.q * dot.scale, dot.k))
        return Dot(torch.cat([q for q, _ in parts], dim=1), torch.cat([k for _, k in parts], dim=1), 1.0)

    def _each(self) -> list[ScoreFunction]:
        return [score for score in self.scores if isinstance(score, ScoreFunction)]

    def _fits(self, x: Tensor) -> None:
        if x.shape[1] != len(self.scores):
            raise ShapeError(f"PerHead: {len(self.scores)} scores for {x.shape[1]} heads; give one score per head")
