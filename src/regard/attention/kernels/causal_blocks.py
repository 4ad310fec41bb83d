"""Causal attention on a CPU over a few hundred keys: queries in blocks, each over the keys up to its last query.

The fused kernel is made for long texts; here the weights of a layer are few enough to be kept for the backward pass,
which is then five plain products a block. The upper half of the square is never computed, but for the corners of the
blocks on the diagonal. Measured, forward and backward together take from four fifths down to two thirds of the time of
the fused kernel where vectors have 512 bits; elsewhere it is no gain (0.94 to 1.34 on an AMD EPYC of 2021).
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
MAX_KEYS = 512  # keys; over more, keeping the weights takes too much memory
MAX_KEYS_PER_FEATURE = (
    4  # keys for each feature of a head; with more, the passes over the weights take longer than the products
)


def use_causal_blocks(q: Tensor, k: Tensor) -> bool:
    """Are queries (b h t d) and keys (b h s d) more than a few, on a CPU of wide vectors, with gradients wanted?"""
    plain = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64) and q.dtype == k.dtype
    if not (plain and torch.is_grad_enabled() and q.requires_grad) or is_tracing():  # no look at a length before this
        return False
    return short_keys.HAS_AVX512 and BLOCK_QUERIES < k.shape[2] <= min(MAX_KEYS, MAX_KEYS_PER_FEATURE * k.shape[3])


def attend_causal_blocks(dot: Dot, v: Tensor) -> Tensor:
    """Queries (b h t d), as many keys, values (b h t e) -> (b h t e); every query looks at the keys up to its own."""
    q, k, scale = dot
    apply: Any = _Stepped.apply
    mixed: Tensor = apply(q, k, v, scale)
    return mixed


@lru_cache(maxsize=16)
def _behind(rows: int, dtype: torch.dtype) -> Tensor:
    """(rows rows), to be added to the scores of a block on the diagonal: -inf for keys behind the query."""
    return torch.full((rows, rows), -torch.inf, dtype=dtype).triu(1)


def _by_head(x: Tensor) -> Tensor:
    """(b h t d) -> (b·h t d)."""
    return x.reshape(-1, *x.shape[2:])


def _plain(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The same of operations that can be differentiated again."""
    scores = q @ k.mT * scale + _behind(q.shape[2], q.dtype)
    return scores.softmax(dim=-1) @ v


def _blocks(length: int) -> list[tuple[int, int]]:
    return [(low, min(low + BLOCK_QUERIES, length)) for low in range(0, length, BLOCK_QUERIES)]


class _Stepped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        q, k, v, scale = given
        queries, keys, values = (_by_head(x) for x in (q, k, v))
        mixed, weights = [], []
        for low, high in _blocks(q.shape[2]):
            scores = torch.bmm(queries[:, low:high], keys[:, :high].mT).mul_(scale)
            scores[:, :, low:] += _behind(high - low, q.dtype)
            weights.append(torch.softmax(scores, dim=-1))
            mixed.append(torch.bmm(weights[-1], values[:, :high]))
        ctx.save_for_backward(q, k, v, queries, keys, values, *weights)
        ctx.scale = scale
        return torch.cat(mixed, dim=1).view(v.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, queries, keys, values, *weights = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted
            return (*gradients(lambda q, k, v: _plain(q, k, v, ctx.scale), (q, k, v), grad), None)
        grad = _by_head(grad)
        d_queries, d_keys, d_values = [], keys.new_zeros(0), values.new_zeros(0)
        blocks = zip(_blocks(queries.shape[1]), weights, strict=True)
        for (low, high), weight in reversed(list(blocks)):  # the last one reaches all keys, the others some of them
            here = grad[:, low:high]
            d_weight = torch.bmm(here, values[:, :high].mT)
            d_scores = torch.ops.aten._softmax_backward_data(d_weight, weight, -1, weight.dtype).mul_(ctx.scale)
            d_queries.append(torch.bmm(d_scores, keys[:, :high]))
            d_keys = _added(d_keys, torch.bmm(d_scores.mT, queries[:, low:high]))
            d_values = _added(d_values, torch.bmm(weight.mT, here))
        return torch.cat(d_queries[::-1], dim=1).view(q.shape), d_keys.view(k.shape), d_values.view(v.shape), None


def _added(whole: Tensor, part: Tensor) -> Tensor:
    """(n s d), or nothing yet, and a part of its first columns (n r d) -> their sum. A product written straight into
    some of the columns would be made row by row of the batch, which takes longer."""
    if not whole.numel():
        return part
    whole[:, : part.shape[1]] += part
    return whole
