"""Cosine score β·cos(q, k) with a learned sharpness β: Graves et al. 2014, section 3.3.1 (content addressing)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.attention.score import Dot, ScoreFunction, require_same_dim


class Score(ScoreFunction):
    """β·cos(q, k)."""

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        require_same_dim("cosine", dim, key_dim)
        self.sharpness = nn.Parameter(torch.tensor(10.0))

    def project_keys(self, k: Tensor) -> Tensor:
        return normalize(k, dim=-1)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.sharpness * normalize(q, dim=-1) @ k.mT  # (b h t s)

    def as_dot(self, q: Tensor, k: Tensor) -> Dot:
        return Dot(self.sharpness * normalize(q, dim=-1), k, 1.0)
