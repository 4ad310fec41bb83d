"""Additive score w·tanh(Wq + Uk): Bahdanau et al. 2015, appendix A.1.2."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.score import ScoreFunction
from regard.attention.scores._tanh_kernel import tanh_scores


class Score(ScoreFunction):
    """w·tanh(Wq + Uk); Uk is computed once per key sequence. Equal to `concat` when its W is [W U]."""

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        self.dim, self.key_dim = dim, key_dim or dim
        self.query = nn.Linear(dim, dim, bias=False)  # W
        self.key = nn.Linear(key_dim or dim, dim, bias=False)  # U
        self.weight = nn.Linear(dim, 1, bias=False)  # w

    def project_keys(self, k: Tensor) -> Tensor:
        projected: Tensor = self.key(k)
        return projected

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return tanh_scores(self.query(q), k, self.weight.weight[0])  # (b h t s)
