"""Location-aware score w·tanh(Wq + Vk + Uf): Chorowski et al. 2015, section 2.2. f is a convolution of the weights of
the previous step, so that attention can move forward from the position it had."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.score import ScoreFunction
from regard.core.errors import ShapeError

FILTERS = 10  # k of the paper
MAX_DISTANCE = 15  # keys to each side of a position that a filter covers


class Score(ScoreFunction):
    """w·tanh(Wq + Vk + Uf); Vk is computed once per key sequence.

    Queries (b h t d+s) end with the weights of their previous step (see attention/previous_weights.py). Queries of
    width d have none: their previous weights are zero, and the score depends on the content alone.
    """

    uses_previous_weights = True

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__()
        self.dim, self.key_dim = dim, key_dim or dim
        self.query = nn.Linear(dim, dim, bias=False)  # W
        self.key = nn.Linear(key_dim or dim, dim, bias=False)  # V
        self.filters = nn.Conv1d(1, FILTERS, 2 * MAX_DISTANCE + 1, padding=MAX_DISTANCE, bias=False)  # F
        self.location = nn.Linear(FILTERS, dim, bias=False)  # U
        self.weight = nn.Linear(dim, 1, bias=False)  # w

    @property
    def elements_per_pair(self) -> int:
        return self.weight.in_features + FILTERS

    def project_keys(self, k: Tensor) -> Tensor:
        projected: Tensor = self.key(k)
        return projected

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        content, previous = q.tensor_split([self.weight.in_features], dim=-1)
        (b, h, t, _), s = q.shape, k.shape[-2]
        if previous.shape[-1] == 0:
            previous = q.new_zeros(b, h, t, s)
        if previous.shape[-1] != s:
            raise ShapeError(
                f"score 'location': queries carry {previous.shape[-1]} previous weights for {s} keys; "
                "give one weight per key, or none"
            )
        if s == 0 or b * h * t == 0:
            return torch.zeros_like(previous) + 0 * (content.sum() + k.sum())
        filtered = self.filters(previous.reshape(-1, 1, s)).mT.reshape(b, h, t, s, -1)  # (b h t s FILTERS)
        hidden = self.query(content)[..., None, :] + k[..., None, :, :] + self.location(filtered)
        return torch.tanh(hidden) @ self.weight.weight[0]  # (b h t s)
