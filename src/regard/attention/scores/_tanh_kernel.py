"""w·tanh(a + c) for every pair of a query's and a key's features, without ever holding a number per pair and feature.

Blocks that fit the cache are made, used and forgotten, in the backward pass too. Since
tanh(a + c) = 1 - 2 / (1 + exp(2a)·exp(2c)), a pair costs a product and a division instead of a tanh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.core.tracing import gradients, is_tracing

BLOCK_ELEMENTS = 2**21  # numbers of a block: 8 MB in float32, which stays in the cache that cores share
MAX_PLAIN_ELEMENTS = 2**18  # numbers up to which three plain kernels are quicker
MAX_LOOP_ROWS = 32  # up to so many rows of a block a loop over rows is faster than one broadcast
MAX_EXP_INPUT = 20.0  # exp(2·20)² is still a float32; features beyond it are left to tanh itself


def tanh_scores(a: Tensor, c: Tensor, weight: Tensor) -> Tensor:
    """(b h t d), (b h s d), (d) -> (b h t s)."""
    (b, h, t, d), s = a.shape, c.shape[2]
    full = a.dtype == c.dtype == weight.dtype and a.dtype in (torch.float32, torch.float64)
    if is_tracing() or not full or t <= 2 or b * h * t * s * d <= MAX_PLAIN_ELEMENTS:  # one query shares nothing
        return _plain(a, c, weight)
    apply: Any = _TanhScores.apply
    scores: Tensor = apply(a, c, weight)
    return scores


def _plain(a: Tensor, c: Tensor, weight: Tensor) -> Tensor:
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
        """With u = 1 / (1 + exp 2(a + c)), tanh is 1 - 2u and its slope 4u(1 - u)."""
        a, c, weight = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            return tuple(gradients(_plain, (a, c, weight), grad))
        grad = grad.flatten(0, 1)
        d_a, d_c, met = a.new_empty(a.shape), c.new_zeros(c.shape), torch.zeros_like(weight)
        flat_a, flat_c = d_a.flatten(0, 1), d_c.flatten(0, 1)
        for n, t, u in _blocks(a.flatten(0, 1), c.flatten(0, 1)):
            g = grad[n, t]
            met += g.reshape(-1) @ u.flatten(0, 2)
            slope = u.addcmul_(u, u, value=-1)
            flat_a[n, t] = (g[:, :, None, :] @ slope).squeeze(2)
            if slope.shape[1] > MAX_LOOP_ROWS:
                flat_c[n] += slope.mul_(g[..., None]).sum(dim=1)
                continue
            for row in range(slope.shape[1]):
                flat_c[n].addcmul_(slope[:, row], g[:, row, :, None])
        return d_a.mul_(4 * weight), d_c.mul_(4 * weight), grad.sum() - 2 * met


def _blocks(a: Tensor, c: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """(n t d), (n s d) -> which n and t, and their (n t s d) of 1 / (1 + exp 2(a + c)): one buffer, filled anew."""
    (count, t, d), s = a.shape, c.shape[1]
    rows = max(1, min(t, BLOCK_ELEMENTS // (s * d)))
    several = max(1, min(count, BLOCK_ELEMENTS // (rows * s * d))) if rows == t else 1
    near = bool(torch.maximum(a.abs().max(), c.abs().max()) <= MAX_EXP_INPUT)
    if near:
        a, c = (a * 2).exp_(), (c * 2).exp_()
    buffer, one = a.new_empty(several * rows * s * d), a.new_ones(())
    for first in range(0, count, several):
        n = slice(first, min(first + several, count))
        for low in range(0, t, rows):
            here, there = a[n, low : low + rows, None, :], c[n, None]
            u = buffer[: here.shape[0] * here.shape[1] * s * d].view(here.shape[0], here.shape[1], s, d)
            if near:
                torch.addcmul(one, here, there, out=u).reciprocal_()
            else:
                torch.add(here, there, out=u).tanh_().mul_(-0.5).add_(0.5)
            yield n, slice(low, low + rows), u
