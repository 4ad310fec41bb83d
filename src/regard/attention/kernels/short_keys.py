"""Attention over few keys on a CPU: two batched matrix products and a softmax, with the keys padded to full vectors.

A softmax over 15 numbers is computed one by one, over 16 in two vector instructions: ten times as fast. For a single
query most of the fused kernel's block is padding. Without 512-bit vectors the two products are slower than the fused
kernel, by 1.3 to 1.9 times on an AMD EPYC of 2021, so there only decoding with a KV cache uses them.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.masks import Mask
from regard.attention.score import Dot

VECTOR_WIDTH = 8  # numbers in a vector
MIN_VECTORIZED_KEYS = 16  # the softmax of PyTorch is not vectorized over fewer
HAS_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"  # 512-bit vectors
# queries and keys up to which this was measured to be faster than the fused kernel, forward and backward
MAX_SHORT_LENGTH = 64


def padded_length(length: int) -> int:
    """Round a number of keys up to full vectors."""
    return max(MIN_VECTORIZED_KEYS, -(-length // VECTOR_WIDTH) * VECTOR_WIDTH)


def use_short_kernel(q: Tensor, k: Tensor) -> bool:
    """Return True if queries (b h t d) and keys (b h s d) are few, in full precision, on a CPU with AVX-512."""
    full_precision = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    few = 0 < q.shape[2] <= MAX_SHORT_LENGTH and 0 < k.shape[2] <= MAX_SHORT_LENGTH
    return HAS_AVX512 and full_precision and few


def attend_short(dot: Dot, v: Tensor, allowed: Tensor | None) -> Tensor:
    """Queries (b h t d), keys (b h s d), values (b h s e) -> (b h t e), equal to the fused kernel.

    `allowed` is bool, broadcastable to (b h t s), True = may attend; None: everything is allowed.
    """
    q, k, scale = dot
    (b, h, t, _), s, value_dim = q.shape, k.shape[2], v.shape[3]
    padding = (0, 0, 0, padded_length(s) - s)
    if allowed is None:
        allowed = torch.ones(1, dtype=torch.bool, device=q.device)
    bias = q.new_full((*allowed.shape[:-1], padded_length(s)), -torch.inf)
    bias[..., :s].masked_fill_(allowed, 0.0)
    scores = torch.bmm(q.flatten(0, 1), pad(k, padding).flatten(0, 1).mT).view(b, h, t, padded_length(s))
    weights = torch.add(bias, scores, alpha=scale).softmax(-1)
    return torch.bmm(weights.flatten(0, 1), pad(v, padding).flatten(0, 1)).view(b, h, t, value_dim)


@lru_cache(maxsize=64)  # every layer needs the same bias, and cross-attention needs the same one at every step
def key_bias(mask: Mask, t: int, length: int, columns: int, heads: int) -> Tensor | None:
    """Mask of `t` queries over the first `length` of `columns` keys -> a bias to add to the scores.

    The bias is (b·h 1 columns) or (1 1 columns): 0 for allowed keys, -inf for all others. None if the mask differs
    between the queries of a row, or if a row has no allowed key, which would give NaN.
    """
    if mask.pairs is not None or mask.is_local or (mask.is_causal and t > 1) or length == 0:
        return None
    if mask.keys is None and mask.start is None:
        size = 1 << columns.bit_length()
        return _step_bias(size)[..., size - length : size - length + columns]
    positions = torch.arange(columns)
    # (1 or b, columns)
    allowed = (positions < length)[None] if mask.keys is None else pad(mask.keys, (0, columns - length))
    if mask.start is not None:
        allowed = allowed & (positions >= mask.start[:, None])
    if not bool(allowed.any(dim=1).all()):
        return None
    bias = torch.zeros(()).where(allowed, -torch.inf)[:, None]
    return bias if bias.shape[0] == 1 else bias.repeat_interleave(heads, dim=0)


def attend_cached(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> Tensor:
    """Queries (b·w h·d), keys (b h n d), values (b h n e), bias from `key_bias` -> (b·w h·e).

    The w queries of a source are adjacent.
    """
    num_queries, (sources, heads, _, head_dim), value_dim = q.shape[0], k.shape, v.shape[3]
    width = num_queries // max(1, sources)
    if width == 1:
        q = q.reshape(sources * heads, 1, head_dim)
    else:
        q = q.reshape(sources, width, heads, head_dim).transpose(1, 2)
        q = q.reshape(sources * heads, width, head_dim)  # (b·h w d)
    weights = torch.baddbmm(bias, q, k.flatten(0, 1).mT, alpha=scale).softmax(-1)
    output = torch.bmm(weights, v.flatten(0, 1))
    if width == 1:
        return output.view(num_queries, heads * value_dim)
    return output.view(sources, heads, width, value_dim).transpose(1, 2).reshape(num_queries, heads * value_dim)


@lru_cache(maxsize=8)
def _step_bias(size: int) -> Tensor:
    """(1 1 2·size): `size` zeros, then -inf. The bias for any number of allowed keys is a slice of it."""
    return torch.zeros(1, 1, 2 * size).index_fill_(2, torch.arange(size, 2 * size), -torch.inf)
