"""Kernel for w·tanh(a + c) over all query-key pairs that never stores one value per pair and feature.

It computes blocks that fit the CPU cache and drops them after use, in the backward pass too. Since
tanh(a + c) = 1 - 2 / (1 + exp(2a)·exp(2c)), a pair costs a product and a division instead of a tanh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.core.tracing import gradients, is_tracing

BLOCK_ELEMENTS = 2**21  # of a block: 8 MB in float32, which stays in the cache that the cores share
MAX_PLAIN_ELEMENTS = 2**18  # up to which three plain kernels are faster
MAX_LOOP_ROWS = 32  # of a block, up to which a loop over rows is faster than one broadcast
MAX_EXP_INPUT = 20.0  # exp(2·20)² still fits float32; tanh itself is used for larger inputs


def tanh_scores(a: Tensor, c: Tensor, weight: Tensor) -> Tensor:
    """Queries a (b h t d), keys c (b h s d), weight w (d) -> scores w·tanh(a + c) (b h t s)."""
    (b, h, t, d), s = a.shape, c.shape[2]
    full_precision = a.dtype == c.dtype == weight.dtype and a.dtype in (torch.float32, torch.float64)
    if (
        is_tracing() or not full_precision or t <= 2 or b * h * t * s * d <= MAX_PLAIN_ELEMENTS
    ):  # nothing is shared with one query
        return _tanh_scores_plain(a, c, weight)
    apply: Any = _TanhScores.apply
    scores: Tensor = apply(a, c, weight)
    return scores


def _tanh_scores_plain(a: Tensor, c: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(a[..., :, None, :] + c[..., None, :, :]) @ weight


class _TanhScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, c: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(a, c, weight)
        scores = a.new_empty(*a.shape[:3], c.shape[2])
        flat = scores.flatten(0, 1)
        for n, t, u in _blocks(a.flatten(0, 1), c.flatten(0, 1)):
            flat[n, t] = u @ weight
        return scores.mul_(-2).add_(weight.sum())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """With u = 1 / (1 + exp 2(a + c)), tanh(a + c) is 1 - 2u and its derivative 4u(1 - u)."""
        a, c, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is needed
            return tuple(gradients(_tanh_scores_plain, (a, c, weight), grad))
        grad = grad.flatten(0, 1)
        d_a, d_c, weighted_u = a.new_empty(a.shape), c.new_zeros(c.shape), torch.zeros_like(weight)
        flat_a, flat_c = d_a.flatten(0, 1), d_c.flatten(0, 1)
        for n, t, u in _blocks(a.flatten(0, 1), c.flatten(0, 1)):
            g = grad[n, t]
            weighted_u += g.reshape(-1) @ u.flatten(0, 2)
            slope = u.addcmul_(u, u, value=-1)
            flat_a[n, t] = (g[:, :, None, :] @ slope).squeeze(2)
            if slope.shape[1] > MAX_LOOP_ROWS:
                flat_c[n] += slope.mul_(g[..., None]).sum(dim=1)
                continue
            for row in range(slope.shape[1]):
                flat_c[n].addcmul_(slope[:, row], g[:, row, :, None])
        return d_a.mul_(4 * weight), d_c.mul_(4 * weight), grad.sum() - 2 * weighted_u


def _blocks(a: Tensor, c: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """(n t d), (n s d) -> slices of n and t, and their u = 1 / (1 + exp 2(a + c)) (n t s d), in one reused buffer."""
    (count, t, d), s = a.shape, c.shape[1]
    rows = max(1, min(t, BLOCK_ELEMENTS // (s * d)))
    heads = max(1, min(count, BLOCK_ELEMENTS // (rows * s * d))) if rows == t else 1
    exp_fits = bool(torch.maximum(a.abs().max(), c.abs().max()) <= MAX_EXP_INPUT)
    if exp_fits:
        a, c = (a * 2).exp_(), (c * 2).exp_()
    buffer, unit = a.new_empty(heads * rows * s * d), a.new_ones(())
    for first in range(0, count, heads):
        n = slice(first, min(first + heads, count))
        for low in range(0, t, rows):
            queries, keys = a[n, low : low + rows, None, :], c[n, None]
            u = buffer[: queries.shape[0] * queries.shape[1] * s * d].view(queries.shape[0], queries.shape[1], s, d)
            if exp_fits:
                torch.addcmul(unit, queries, keys, out=u).reciprocal_()
            else:
                torch.add(queries, keys, out=u).tanh_().mul_(-0.5).add_(0.5)
            yield n, slice(low, low + rows), u
