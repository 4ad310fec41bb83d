"""Concat score w·tanh(W[q; k]): Luong et al. 2015, section 3.1. The additive score of the concatenated inputs."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.score import ScoreFunction
from regard.attention.scores._tanh_kernel import tanh_scores


class Score(ScoreFunction):
    """w·tanh(W[q; k]); the part of W that multiplies the key is applied once per key sequence."""

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        self.dim, self.key_dim = dim, key_dim or dim
        self.joined = nn.Linear(dim + (key_dim or dim), dim, bias=False)  # W
        self.weight = nn.Linear(dim, 1, bias=False)  # w

    def project_keys(self, k: Tensor) -> Tensor:
        return k @ self.joined.weight[:, -k.shape[-1] :].mT

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        q = q @ self.joined.weight[:, : q.shape[-1]].mT
        return tanh_scores(q, k, self.weight.weight[0])  # (b h t s)
