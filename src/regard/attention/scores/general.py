"""General score q·W·k: Luong et al. 2015, equation 8. Queries and keys may have different widths."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.score import Dot, ScoreFunction


class Score(ScoreFunction):
    """q·W·k; W·k is computed once per key sequence."""

    dot_scale = 1.0

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        self.dim, self.key_dim = dim, key_dim or dim
        self.weight = nn.Linear(key_dim or dim, dim, bias=False)

    def project_keys(self, k: Tensor) -> Tensor:
        projected: Tensor = self.weight(k)
        return projected

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT  # (b h t s)

    def as_dot(self, q: Tensor, k: Tensor) -> Dot:
        return Dot(q, k, 1.0)
