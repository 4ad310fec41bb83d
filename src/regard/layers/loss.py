"""The last linear layer and the cross entropy in one, in chunks: the logits of a batch never exist whole.

The gradient is made in the forward pass, while a chunk's logits are at hand. Label smoothing as in Szegedy et al. 2016,
section 7.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from regard.layers.linear import is_large, product

ROWS = 512  # logits of 512 x 8000 are 16 MB: they stay in the cache
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None, None, None]


def linear_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
) -> Tensor:
    """Features (n d), weight (v d), bias (v), labels (n) -> the sum of -log p(label), smoothed."""
    apply: Any = _LinearCrossEntropy.apply
    loss: Tensor = apply(features, weight, bias, labels, smoothing)
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        features, weight, bias, labels, smoothing = given
        needed = ctx.needs_input_grad
        total: Tensor = features.new_zeros(())
        d_features = torch.empty_like(features) if needed[0] else None
        d_weight = torch.zeros_like(weight) if needed[1] else None
        d_bias = torch.zeros_like(bias) if bias is not None and needed[2] else None
        for low in range(0, labels.shape[0], ROWS):
            x, y = features[low : low + ROWS], labels[low : low + ROWS]
            logits = product(x, weight, bias) if is_large(x, weight) else linear(x, weight, bias)
            part, change = _loss_and_gradient(logits, y, smoothing)
            total += part
            if d_features is not None:
                torch.mm(change, weight, out=d_features[low : low + ROWS])
            if d_weight is not None:
                d_weight.addmm_(change.mT, x)
            if d_bias is not None:
                d_bias += change.sum(dim=0)
        ctx.save_for_backward(d_features, d_weight, d_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        d_features, d_weight, d_bias = (None if made is None else made * grad for made in ctx.saved_tensors)
        return d_features, d_weight, d_bias, None, None


def _loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """-(1-ε) log p(label) - ε mean log p, summed; and its gradient p - (1-ε) [label] - ε/v, in place of the logits."""
    size = logits.shape[1]
    rows = torch.arange(labels.shape[0], device=labels.device)
    picked = logits[rows, labels]
    mean = logits.mean(dim=1) if smoothing else 0.0
    peak = logits.amax(dim=1, keepdim=True)
    change = logits.sub_(peak).exp_()  # once, for the sum and for the gradient
    total = change.sum(dim=1, keepdim=True)
    loss = (total.log() + peak)[:, 0] - (1 - smoothing) * picked - smoothing * mean
    change.div_(total)
    change[rows, labels] -= 1 - smoothing
    if smoothing:
        change -= smoothing / size
    return loss.sum(), change
