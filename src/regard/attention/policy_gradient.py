"""The REINFORCE policy gradient (Williams 1992), which trains hard attention through its sampled choices.

A cost C depends on sampled choices, and the choices on probabilities p. Sampling has no gradient, but

    ∇ E[C] = E[(C - b) ∇ log p(choice)] + E[∇ C]

for any baseline b that does not depend on the choice. The first term is the gradient of `reinforce_loss`; the second is
computed by C.backward(). The closer b is to C, the smaller the variance. Xu et al. 2015, section 4.1, equations 11 and
12, use C = -log p(words), a moving average for b, and an entropy term that keeps the choices diverse.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError, ShapeError


class MovingAverage(nn.Module):
    """Baseline b ← decay · b + (1 - decay) · mean(cost), one for each step of a sequence.

    Steps beyond the last one share its baseline. The first cost of a step initializes its baseline. The baseline is
    saved with the weights.
    """

    average: Tensor
    seen: Tensor

    def __init__(self, steps: int = 1, *, decay: float = 0.9) -> None:
        super().__init__()
        if steps < 1 or not 0 <= decay < 1:
            raise ConfigError(
                f"MovingAverage: steps={steps} must be at least 1, and decay={decay} at least 0 and below 1"
            )
        self.decay = decay
        self.register_buffer("average", torch.zeros(steps))
        self.register_buffer("seen", torch.zeros(steps))

    def forward(self, cost: Tensor, valid: Tensor) -> Tensor:
        """Costs (b t), and a bool (b t) of the valid ones -> the baseline (t) before these costs.

        In training the baseline is then updated with the costs.
        """
        step = torch.arange(cost.shape[1], device=cost.device).clamp(max=len(self.average) - 1)
        baseline = self.average[step]
        if self.training:
            self._update(cost.detach(), valid, step)
        return baseline

    @torch.no_grad()
    def _update(self, cost: Tensor, valid: Tensor, step: Tensor) -> None:
        sums = torch.zeros_like(self.average).index_add_(0, step, (cost * valid).sum(dim=0))
        counts = torch.zeros_like(self.average).index_add_(0, step, valid.sum(dim=0).to(self.average.dtype))
        mean, has_costs = sums / counts.clamp(min=1), counts > 0
        updated = torch.where(self.seen > 0, self.decay * self.average + (1 - self.decay) * mean, mean)
        self.average.copy_(torch.where(has_costs, updated, self.average))
        self.seen.copy_(torch.where(has_costs, 1.0, self.seen))


class NoBaseline(nn.Module):
    """A baseline of zero: the plain estimator, for comparison."""

    def forward(self, cost: Tensor, valid: Tensor) -> Tensor:
        """Costs (b t) -> zeros (t)."""
        return cost.new_zeros(cost.shape[1])


def reinforce_loss(
    log_probability: Tensor, cost: Tensor, *, baseline: nn.Module, valid: Tensor | None = None
) -> Tensor:
    """Log p (b t) of sampled choices and their costs (b t) -> the loss Σ (cost - b) · log p.

    Its gradient estimates the gradient of the expected cost through the choices. `valid` (b t) selects the choices that
    count; None: all of them.
    """
    if log_probability.shape != cost.shape or cost.dim() != 2:
        shapes = f"{tuple(log_probability.shape)} and {tuple(cost.shape)}"
        raise ShapeError(
            f"reinforce_loss: log probabilities and costs have shapes {shapes}; give both as (batch, steps)"
        )
    valid = torch.ones_like(cost, dtype=torch.bool) if valid is None else valid
    advantage = (cost - baseline(cost, valid)).detach()
    total: Tensor = (advantage * log_probability).masked_fill(~valid, 0.0).sum()
    return total


def cost_to_go(cost: Tensor) -> Tensor:
    """Cost of each step (b t) -> the sum of the costs from each step on, which a choice at that step can influence."""
    return cost.flip(1).cumsum(dim=1).flip(1)


def entropy(scores: Tensor) -> Tensor:
    """Scores (… s) before the softmax -> the entropy (…) of the distribution, in nats."""
    log_p = scores.log_softmax(dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1)
