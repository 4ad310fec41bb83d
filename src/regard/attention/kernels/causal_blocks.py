"""Causal attention on a CPU over a few hundred keys, in blocks of queries.

Each block of queries attends to the keys up to its last query, so that the upper triangle is never computed, except in
the blocks on the diagonal. The fused kernel is designed for long sequences. Here the weights of a layer are few enough
to be stored for the backward pass, which then takes five matrix products per block.

Measured with 512-bit vectors, forward and backward together take 4/5 to 2/3 of the time of the fused kernel. Elsewhere
there is no gain (0.94 to 1.34 on an AMD EPYC of 2021).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from regard.attention.kernels import short_keys
from regard.attention.score import Dot
from regard.core.tracing import gradients, is_tracing

BLOCK_QUERIES = 64  # queries of a block
MAX_KEYS = 512  # with more keys, storing the weights takes too much memory
MAX_KEYS_PER_FEATURE = 4  # per feature of a head; with more keys, passes over the weights outweigh the matrix products


def use_causal_blocks(q: Tensor, k: Tensor) -> bool:
    """Return True if this kernel is faster for queries (b h t d) and keys (b h s d).

    That needs gradients, full precision, a CPU with AVX-512, and a moderate number of keys.
    """
    full_precision = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64) and q.dtype == k.dtype
    if (
        not (full_precision and torch.is_grad_enabled() and q.requires_grad) or is_tracing()
    ):  # before any length is read
        return False
    return short_keys.HAS_AVX512 and BLOCK_QUERIES < k.shape[2] <= min(MAX_KEYS, MAX_KEYS_PER_FEATURE * k.shape[3])


def attend_causal_blocks(dot: Dot, v: Tensor) -> Tensor:
    """Queries (b h t d), keys (b h t d), values (b h t e) -> (b h t e); query i attends to the keys up to i."""
    q, k, scale = dot
    apply: Any = _CausalBlocks.apply
    output: Tensor = apply(q, k, v, scale)
    return output


class _CausalBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        queries, keys, values = (_flatten_heads(x) for x in (q, k, v))
        outputs, weights = [], []
        for low, high in _block_bounds(q.shape[2]):
            scores = torch.bmm(queries[:, low:high], keys[:, :high].mT).mul_(scale)
            scores[:, :, low:] += _causal_bias(high - low, q.dtype)
            weights.append(torch.softmax(scores, dim=-1))
            outputs.append(torch.bmm(weights[-1], values[:, :high]))
        ctx.save_for_backward(q, k, v, queries, keys, values, *weights)
        ctx.scale = scale
        return torch.cat(outputs, dim=1).view(v.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, queries, keys, values, *weights = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is needed
            return (*gradients(lambda q, k, v: _attend_plain(q, k, v, ctx.scale), (q, k, v), grad), None)
        grad = _flatten_heads(grad)
        d_queries, d_keys, d_values = [], keys.new_zeros(0), values.new_zeros(0)
        blocks = zip(_block_bounds(queries.shape[1]), weights, strict=True)
        for (low, high), weight in reversed(list(blocks)):  # the last block covers all keys, earlier ones a prefix
            block_grad = grad[:, low:high]
            d_weight = torch.bmm(block_grad, values[:, :high].mT)
            d_scores = torch.ops.aten._softmax_backward_data(d_weight, weight, -1, weight.dtype).mul_(ctx.scale)
            d_queries.append(torch.bmm(d_scores, keys[:, :high]))
            d_keys = _add_to_prefix(d_keys, torch.bmm(d_scores.mT, queries[:, low:high]))
            d_values = _add_to_prefix(d_values, torch.bmm(weight.mT, block_grad))
        return torch.cat(d_queries[::-1], dim=1).view(q.shape), d_keys.view(k.shape), d_values.view(v.shape), None


def _attend_plain(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Compute the same with operations that are differentiable twice."""
    scores = q @ k.mT * scale + _causal_bias(q.shape[2], q.dtype)
    return scores.softmax(dim=-1) @ v


@lru_cache(maxsize=16)
def _causal_bias(size: int, dtype: torch.dtype) -> Tensor:
    """(size size), to be added to the scores of a block on the diagonal: -inf for keys after the query."""
    return torch.full((size, size), -torch.inf, dtype=dtype).triu(1)


def _block_bounds(length: int) -> list[tuple[int, int]]:
    return [(low, min(low + BLOCK_QUERIES, length)) for low in range(0, length, BLOCK_QUERIES)]


def _flatten_heads(x: Tensor) -> Tensor:
    """(b h t d) -> (b·h t d)."""
    return x.reshape(-1, *x.shape[2:])


def _add_to_prefix(total: Tensor, part: Tensor) -> Tensor:
    """Add `part` (n r d) to the first r columns of `total` (n s d), which may still be empty.

    Writing a product directly into a slice of the columns would be computed row by row of the batch, which is slower.
    """
    if not total.numel():
        return part
    total[:, : part.shape[1]] += part
    return total
