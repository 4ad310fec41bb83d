"""Location-aware score of the next key that fits: Chorowski et al. 2015, in the order of Raffel et al. 2017, section 2.

Trained on short recordings, the plain score skips parts of longer ones, because keys compete over the complete
recording. Here each key competes only with the keys between it and the previous attention, as in a walk that stops at
a key with probability p. Pauses may have any length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from regard.attention.scores import location

THRESHOLD = -3.0  # of an untrained score: most keys are passed, and the walk reaches all keys
PENALTY = 1e3  # subtracted before the previous attention; finite, so that masked keys still have weights


class Score(location.Score):
    """log p(j) + Σ log(1 - p(i)) over the keys i from the median of the previous weights to j, without j, where
    p = σ(w·tanh(Wq + Vk + Uf) + b).

    The softmax makes the stopping probabilities sum to one. Queries without previous weights have the plain score.
    """

    def __init__(self, dim: int, key_dim: int | None = None) -> None:
        super().__init__(dim, key_dim)
        self.threshold = nn.Parameter(torch.tensor(THRESHOLD))  # b

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().forward(q, k)
        previous = q.detach()[..., self.weight.in_features :]
        if previous.shape[-1] == 0:
            return scores + 0 * self.threshold
        logits = scores + self.threshold
        is_before = previous.cumsum(dim=-1) < previous.sum(dim=-1, keepdim=True) / 2  # the median
        passed = softplus(logits).masked_fill(is_before, 0)  # -log(1 - p)
        return -softplus(-logits) - (passed.cumsum(dim=-1) - passed) - PENALTY * is_before
