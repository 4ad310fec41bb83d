"""Normalisers: (scores, who may be looked at) -> weights. A query that may look at nothing gets zeros, never NaN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.core.tracing import is_tracing


class Softmax(nn.Module):
    """Soft attention: every row sums to one."""

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(b h t s) scores, bool broadcastable to it -> weights (b h t s)."""
        if allowed is None:
            return scores.softmax(dim=-1)
        empty = fully_masked_rows(allowed)  # a row of -inf alone would be NaN, in its gradient too
        if empty is None:
            return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
        return scores.masked_fill(~(allowed | empty), float("-inf")).softmax(dim=-1).masked_fill(empty, 0.0)


class Hard(nn.Module):
    """Hard attention: one key per query, sampled in training, the best one in evaluation (Xu et al. 2015, section 4.1).

    A choice has no gradient. The Monte Carlo gradient needs the log probability of what was chosen; `choose` in
    choose.py gives both.
    """

    def __init__(self) -> None:
        super().__init__()
        self.soft = Softmax()

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(b h t s) scores -> one-hot weights (b h t s)."""
        weights: Tensor = self.soft(scores.detach(), allowed)
        if weights.numel() == 0:
            return weights
        there = weights.sum(dim=-1, keepdim=True) > 0
        if self.training:
            odds = torch.where(there, weights, 1.0)
            chosen = torch.multinomial(odds.flatten(0, -2), 1).view(*weights.shape[:-1], 1)
        else:
            chosen = weights.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(weights).scatter_(-1, chosen, 1.0) * there


class SoftOrHard(nn.Module):
    """In training a query gets its soft weights with a probability of `share`, and else one key that is drawn; in
    evaluation the best key. Xu et al. 2015, section 4.1: half of the choices set to their expectation makes the Monte
    Carlo gradient steadier.

    With `gradual`, there are no choices in so many batches, and in as many more they come in, up to what `share`
    leaves: so there is something to see before it is chosen from. Whoever trains counts the batches (`advance`).
    """

    batches: Tensor

    def __init__(self, soft_share: float = 0.5, *, warmup_batches: int = 0) -> None:
        super().__init__()
        if not 0 <= soft_share <= 1:
            raise ConfigError(f"SoftOrHard: share={soft_share} is not a probability; choose one from 0 to 1")
        if warmup_batches < 0:
            raise ConfigError(f"SoftOrHard: gradual={warmup_batches} batches; choose 0 or more")
        self.share, self.gradual = soft_share, warmup_batches
        self.soft, self.hard = Softmax(), Hard()
        if warmup_batches:
            self.register_buffer("batches", torch.zeros(()))  # saved with the weights

    def advance(self) -> None:
        """One more batch was trained on."""
        if self.gradual:
            self.batches += 1

    def current_soft_share(self) -> float | Tensor:
        """The share of soft weights in this batch."""
        if not self.gradual:
            return self.share
        return 1 - (1 - self.share) * (self.batches / self.gradual - 1).clamp(0.0, 1.0)

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(b h t s) scores -> weights (b h t s), one-hot where a key was chosen."""
        chosen: Tensor = self.hard(scores, allowed)
        if not self.training or (self.share == 0 and not self.gradual):
            return chosen
        expected = torch.rand(scores.shape[:-1], device=scores.device)[..., None] < self.current_soft_share()
        return torch.where(expected, self.soft(scores, allowed), chosen)


def fully_masked_rows(allowed: Tensor) -> Tensor | None:
    """Bool (… t s) -> (… t 1): the queries that may look at nothing; None where it is cheap to see that there are
    none, which is the rule and saves two passes over the weights."""
    empty = ~allowed.any(dim=-1, keepdim=True)
    if allowed.device.type == "cpu" and not is_tracing() and not empty.any():
        return None
    return empty


def log_probability(scores: Tensor, allowed: Tensor | None, key_index: Tensor) -> Tensor:
    """Scores (b h t s) and the keys chosen (b h t) -> log p(chosen) (b h t); 0 where `place` is -1, nothing chosen."""
    if scores.shape[-1] == 0:
        return scores.sum(dim=-1)
    if allowed is not None:
        empty = ~allowed.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(allowed | empty), float("-inf"))
    picked = scores.log_softmax(dim=-1).gather(-1, key_index.clamp_min(0)[..., None]).squeeze(-1)
    return torch.where(key_index < 0, 0.0, picked)
