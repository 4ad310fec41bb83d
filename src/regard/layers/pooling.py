"""Attention pooling with a learned query: Yang et al. 2016, equations 5 to 7 and 8 to 10.

u = tanh(W h + b), α = softmax(u · query), v = Σ α h.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import ProjectedKeys
from regard.layers.linear import Linear


class AttentionPooling(nn.Module):
    """Features (b s d) -> (b d). A row whose mask is empty gives zeros."""

    def __init__(
        self, dim: int, inner: int, *, score: str = "dot", queries: str = "label", keys: str = "words"
    ) -> None:
        super().__init__()
        self.hidden = Linear(dim, inner)
        self.query = nn.Parameter(torch.randn(inner) * inner**-0.5)
        self.attend = Attend(scores.build(score, inner), queries=queries, keys=keys)

    def project(self, x: Tensor) -> Tensor:
        """Features (… d) -> keys (… k) for the query; may be computed before padding."""
        return self.attend.project(torch.tanh(self.hidden(x))).tensor

    def forward(self, x: Tensor, mask: Mask = NO_MASK, *, projected: Tensor | None = None) -> Tensor:
        keys = self.project(x) if projected is None else projected
        query = self.query.expand(x.shape[0], 1, 1, -1)
        pooled: Tensor = self.attend(query, ProjectedKeys(keys[:, None]), x[:, None], mask)
        return pooled[:, 0, 0]
