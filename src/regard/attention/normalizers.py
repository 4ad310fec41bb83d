"""Normalizers: scores and an optional bool mask -> weights. A query without an allowed key gets zeros, never NaN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.core.tracing import can_inspect


class Softmax(nn.Module):
    """Soft attention: the weights of every query sum to one."""

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Scores (b h t s), bool mask broadcastable to it -> weights (b h t s)."""
        if allowed is None:
            return scores.softmax(dim=-1)
        empty = fully_masked_rows(allowed)  # the softmax of a row of -inf is NaN, and so is its gradient
        if empty is None:
            return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
        return scores.masked_fill(~(allowed | empty), float("-inf")).softmax(dim=-1).masked_fill(empty, 0.0)


class Hard(nn.Module):
    """Hard attention: one key per query, sampled in training, the best key in evaluation (Xu et al. 2015, section 4.1).

    Sampling has no gradient. The Monte Carlo gradient needs the log probability of the sampled keys, which
    `log_probability` computes; see also policy_gradient.py.
    """

    def __init__(self) -> None:
        super().__init__()
        self.soft = Softmax()

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Scores (b h t s) -> one-hot weights (b h t s)."""
        weights: Tensor = self.soft(scores.detach(), allowed)
        if weights.numel() == 0:
            return weights
        has_keys = weights.sum(dim=-1, keepdim=True) > 0
        if self.training:
            probabilities = torch.where(has_keys, weights, 1.0)
            index = torch.multinomial(probabilities.flatten(0, -2), 1).view(*weights.shape[:-1], 1)
        else:
            index = weights.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(weights).scatter_(-1, index, 1.0) * has_keys


class SoftOrHard(nn.Module):
    """Random mixture of soft and hard attention in training; the best key in evaluation.

    In training a query gets soft weights with probability `soft_share`, else one sampled key. Xu et al. 2015, section
    4.1, set half of the samples to their expectation, which reduces the variance of the Monte Carlo gradient.

    With `warmup_batches`, all weights are soft for that many batches; the probability of sampling then grows linearly
    over as many batches. So the model learns features before it samples. The training loop must call `advance` after
    every batch.
    """

    batches: Tensor

    def __init__(self, soft_share: float = 0.5, *, warmup_batches: int = 0) -> None:
        super().__init__()
        if not 0 <= soft_share <= 1:
            raise ConfigError(f"SoftOrHard: soft_share={soft_share} is not a probability; choose one from 0 to 1")
        if warmup_batches < 0:
            raise ConfigError(f"SoftOrHard: warmup_batches={warmup_batches} is negative; choose 0 or more")
        self.soft_share, self.warmup_batches = soft_share, warmup_batches
        self.soft, self.hard = Softmax(), Hard()
        if warmup_batches:
            self.register_buffer("batches", torch.zeros(()))  # saved with the weights

    def advance(self) -> None:
        """Count one training batch."""
        if self.warmup_batches:
            self.batches += 1

    def current_soft_share(self) -> float | Tensor:
        """Return the probability of soft weights in the current batch."""
        if not self.warmup_batches:
            return self.soft_share
        return 1 - (1 - self.soft_share) * (self.batches / self.warmup_batches - 1).clamp(0.0, 1.0)

    def forward(self, scores: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Scores (b h t s) -> weights (b h t s), one-hot for queries with a sampled key."""
        one_hot: Tensor = self.hard(scores, allowed)
        if not self.training or (self.soft_share == 0 and not self.warmup_batches):
            return one_hot
        use_soft = torch.rand(scores.shape[:-1], device=scores.device)[..., None] < self.current_soft_share()
        return torch.where(use_soft, self.soft(scores, allowed), one_hot)


def fully_masked_rows(allowed: Tensor) -> Tensor | None:
    """Bool (… t s) -> bool (… t 1): the queries without an allowed key; None if there is certainly none.

    None is the usual case and saves two passes over the weights. The values are only checked on a CPU, where it is
    cheap.
    """
    empty = ~allowed.any(dim=-1, keepdim=True)
    if allowed.device.type == "cpu" and can_inspect(allowed) and not empty.any():
        return None
    return empty


def log_probability(scores: Tensor, allowed: Tensor | None, key_index: Tensor) -> Tensor:
    """Scores (b h t s) and sampled keys (b h t) -> log p(key) (b h t); 0 for a key of -1, which means no sample."""
    if scores.shape[-1] == 0:
        return scores.sum(dim=-1)
    if allowed is not None:
        empty = ~allowed.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(allowed | empty), float("-inf"))
    log_p = scores.log_softmax(dim=-1).gather(-1, key_index.clamp_min(0)[..., None]).squeeze(-1)
    return torch.where(key_index < 0, 0.0, log_p)
