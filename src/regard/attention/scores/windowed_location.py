"""Location-aware score within a window around the attention of the previous step: Chorowski et al. 2015, section 2.3.

Trained on short recordings, the plain score skips parts of longer ones. Within a window, attention moves forward in
steps of bounded length. A pause that is longer than the window ahead cannot be crossed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.scores import location

BEHIND, AHEAD = 5, 30  # keys of the window before and after the median; 40 ms each for the small preset of las
PENALTY = 1e3  # subtracted outside of the window; finite, so that a window of masked keys still has weights


class Score(location.Score):
    """w·tanh(Wq + Vk + Uf), minus a penalty outside of the window around the median of the previous weights.

    The first step has no window, since a recording may begin with a long silence: its previous weights are all at the
    first key (see attention/previous_weights.py).
    """

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        scores = super().forward(q, k)
        previous = q.detach()[..., self.weight.in_features :]
        return scores if previous.shape[-1] == 0 else scores - PENALTY * _is_outside(previous)


def _is_outside(previous: Tensor) -> Tensor:
    """Previous weights (b h t s) -> True for keys outside of the window (b h t s)."""
    keys = torch.arange(previous.shape[-1], device=previous.device)
    total = previous.sum(-1, keepdim=True)
    median = (previous.cumsum(-1) < total / 2).sum(-1, keepdim=True)  # (b h t 1)
    is_outside = (keys < median - BEHIND) | (keys > median + AHEAD)
    return is_outside & (previous[..., :1] < total)
