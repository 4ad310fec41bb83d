"""Normalisers: (scores, who may be looked at) -> weights. A query that may look at nothing gets zeros, never NaN."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Softmax(nn.Module):
    """Soft attention: every row sums to one."""

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(b h t s) scores, bool broadcastable to it -> weights (b h t s)."""
        if allowed is None:
            return scores.softmax(dim=-1)
        empty = ~allowed.any(dim=-1, keepdim=True)  # a row of -inf alone would be NaN, in its gradient too
        weights = scores.masked_fill(~(allowed | empty), float("-inf")).softmax(dim=-1)
        return weights.masked_fill(empty, 0.0)


class Hard(nn.Module):
    """Hard attention: one key per query, sampled in training, the best one in evaluation (Xu et al. 2015, section 4.1).

    A choice has no gradient. The Monte Carlo gradient needs the log probability of what was chosen:
    `log_probability(scores, allowed, chosen)`, differentiable in the scores.
    """

    def __init__(self) -> None:
        super().__init__()
        self.soft = Softmax()

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(b h t s) scores -> one-hot weights (b h t s)."""
        weights: Tensor = self.soft(scores.detach(), allowed)
        if weights.shape[-1] == 0:
            return weights
        there = weights.sum(dim=-1, keepdim=True) > 0
        if self.training:
            odds = torch.where(there, weights, torch.ones_like(weights))
            chosen = torch.multinomial(odds.flatten(0, -2), 1).view(*weights.shape[:-1], 1)
        else:
            chosen = weights.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(weights).scatter_(-1, chosen, 1.0) * there

    def log_probability(self, scores: Tensor, allowed: Tensor | None, chosen: Tensor) -> Tensor:
        """Scores (b h t s) and one-hot choices (b h t s) -> log p(chosen) (b h t); 0 where nothing could be chosen."""
        weights: Tensor = self.soft(scores, allowed)
        picked = (weights * chosen).sum(dim=-1)
        there = chosen.sum(dim=-1) > 0
        return torch.where(there, picked, torch.ones_like(picked)).log()
