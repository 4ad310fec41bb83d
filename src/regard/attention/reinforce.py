"""The loss of choices that have no gradient: the score function estimator (REINFORCE, Williams 1992) with a baseline.

A cost C depends on what was chosen, and the choice on probabilities p. No gradient goes through a choice, yet

    ∇ E[C] = E[(C - b) ∇ log p(choice)] + E[∇ C]

for any b that does not depend on the choice. The first term is the gradient of `score_function`; the second is what
C.backward() gives. The nearer b is to C, the smaller the variance. Xu et al. 2015, section 4.1, equations 11 and 12
have C = -log p(words), a moving average for b, and an entropy that keeps the choices open.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError, ShapeError


class MovingAverage(nn.Module):
    """The baseline b ← decay · b + (1 - decay) · mean(cost), one for each step of a sequence (steps beyond the last
    have the last one's). It is saved with the weights; what has not been seen yet is taken over as it is."""

    average: Tensor
    seen: Tensor

    def __init__(self, steps: int = 1, *, decay: float = 0.9) -> None:
        super().__init__()
        if steps < 1 or not 0 <= decay < 1:
            raise ConfigError(f"MovingAverage: steps={steps} and decay={decay}; give at least 1, and 0 or more below 1")
        self.decay = decay
        self.register_buffer("average", torch.zeros(steps))
        self.register_buffer("seen", torch.zeros(steps))

    def forward(self, cost: Tensor, valid: Tensor) -> Tensor:
        """Costs (b t), and which of them count -> the baseline (t), made before these costs were seen. In training it
        takes them in."""
        place = torch.arange(cost.shape[1], device=cost.device).clamp(max=len(self.average) - 1)
        before = self.average[place]
        if self.training:
            self._take_in(cost.detach(), valid, place)
        return before

    @torch.no_grad()
    def _take_in(self, cost: Tensor, there: Tensor, place: Tensor) -> None:
        sums = torch.zeros_like(self.average).index_add_(0, place, (cost * there).sum(dim=0))
        counts = torch.zeros_like(self.average).index_add_(0, place, there.sum(dim=0).to(self.average.dtype))
        now, new = sums / counts.clamp(min=1), counts > 0
        mixed = torch.where(self.seen > 0, self.decay * self.average + (1 - self.decay) * now, now)
        self.average.copy_(torch.where(new, mixed, self.average))
        self.seen.copy_(torch.where(new, 1.0, self.seen))


class NoBaseline(nn.Module):
    """Zero: the plain estimator, to see what a baseline is worth."""

    def forward(self, cost: Tensor, valid: Tensor) -> Tensor:
        """Costs (b t) -> zeros (t)."""
        return cost.new_zeros(cost.shape[1])


def reinforce_loss(
    log_probability: Tensor, cost: Tensor, *, baseline: nn.Module, valid: Tensor | None = None
) -> Tensor:
    """Log p (b t) of choices and what each of them led to, its cost (b t) -> Σ (cost - b) · log p, a number whose
    gradient is that of the expected cost by way of the choices. `there` (b t) says which count; None: all."""
    if log_probability.shape != cost.shape or cost.dim() != 2:
        shapes = f"{tuple(log_probability.shape)} and {tuple(cost.shape)}"
        raise ShapeError(
            f"score_function: log probabilities and costs have shapes {shapes}; give both as (batch, steps)"
        )
    counted = torch.ones_like(cost, dtype=torch.bool) if valid is None else valid
    surplus = (cost - baseline(cost, counted)).detach()
    total: Tensor = (surplus * log_probability).masked_fill(~counted, 0.0).sum()
    return total


def cost_to_go(cost: Tensor) -> Tensor:
    """The cost of each step (b t) -> the cost of it and all that come after: what a choice at that step can change."""
    return cost.flip(1).cumsum(dim=1).flip(1)


def entropy(scores: Tensor) -> Tensor:
    """Scores (… s) before the softmax -> the entropy (…) of the choice, in nats."""
    logs = scores.log_softmax(dim=-1)
    return -(logs.exp() * logs).sum(dim=-1)
