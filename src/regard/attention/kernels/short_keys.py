"""Attention over few keys on a CPU: two batched products and a softmax, with the keys padded to whole vectors.

A softmax over 15 numbers is computed one by one, over 16 in two vector instructions: ten times as fast. And where a
query is one token, the fused kernel's blocks are mostly air. Without vectors of 512 bits the products are slower than
the fused kernel, by 1.3 to 1.9 times on an AMD EPYC of 2021, so there only decoding over a cache uses them.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.masks import Mask
from regard.attention.score import Dot

VECTOR_WIDTH = 8  # numbers in a vector
MIN_VECTORIZED_KEYS = 16  # below, the softmax of PyTorch is not vectorised
HAS_AVX512 = torch.backends.cpu.get_cpu_capability() == "AVX512"  # vectors of 512 bits
MAX_SHORT_LENGTH = (
    64  # queries and keys up to which this was measured to be faster than the fused kernel, forward and backward
)


def padded_length(length: int) -> int:
    """The next length made of whole vectors."""
    return max(MIN_VECTORIZED_KEYS, -(-length // VECTOR_WIDTH) * VECTOR_WIDTH)


def use_short_kernel(q: Tensor, k: Tensor) -> bool:
    """Are queries (b h t d) and keys (b h s d) few, on a CPU of wide vectors, and not of half precision?"""
    plain = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    few = 0 < q.shape[2] <= MAX_SHORT_LENGTH and 0 < k.shape[2] <= MAX_SHORT_LENGTH
    return HAS_AVX512 and plain and few


def attend_short(dot: Dot, v: Tensor, allowed: Tensor | None) -> Tensor:
    """Queries (b h t d), keys (b h s d), values (b h s e), what may be looked at -> (b h t e), as the fused kernel."""
    q, k, scale = dot
    (b, h, t, _), s, out = q.shape, k.shape[2], v.shape[3]
    behind = (0, 0, 0, padded_length(s) - s)
    if allowed is None:
        allowed = torch.ones(1, dtype=torch.bool, device=q.device)
    bias = q.new_full((*allowed.shape[:-1], padded_length(s)), -torch.inf)
    bias[..., :s].masked_fill_(allowed, 0.0)
    scores = torch.bmm(q.flatten(0, 1), pad(k, behind).flatten(0, 1).mT).view(b, h, t, padded_length(s))
    weights = torch.add(bias, scores, alpha=scale).softmax(-1)
    return torch.bmm(weights.flatten(0, 1), pad(v, behind).flatten(0, 1)).view(b, h, t, out)


@lru_cache(maxsize=8)
def _open(most: int) -> Tensor:
    """(1 1 2·most): 0 for `most` keys that may be looked at, then -inf; what is open at a step is a part of it."""
    return torch.zeros(1, 1, 2 * most).index_fill_(2, torch.arange(most, 2 * most), -torch.inf)


@lru_cache(maxsize=64)  # a batch asks for the same one in every layer, and for that of its sources at every step
def key_bias(mask: Mask, t: int, length: int, columns: int, heads: int) -> Tensor | None:
    """The mask of `t` queries over the first `length` of `columns` keys -> (b·h 1 columns) or (1 1 columns), to be
    added to scores: 0 where a key may be looked at, -inf elsewhere. None where the mask is not the same for all queries
    of a row, and where a row may look at nothing, which would be NaN."""
    if mask.pairs is not None or mask.is_local or (mask.is_causal and t > 1) or length == 0:
        return None
    if mask.keys is None and mask.start is None:
        most = 1 << columns.bit_length()
        return _open(most)[..., most - length : most - length + columns]
    places = torch.arange(columns)
    allowed = (
        (places < length)[None] if mask.keys is None else pad(mask.keys, (0, columns - length))
    )  # (1 or b, columns)
    if mask.start is not None:
        allowed = allowed & (places >= mask.start[:, None])
    if not bool(allowed.any(dim=1).all()):
        return None
    bias = torch.zeros(()).where(allowed, -torch.inf)[:, None]
    return bias if bias.shape[0] == 1 else bias.repeat_interleave(heads, dim=0)


def attend_cached(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> Tensor:
    """Queries (b·w h·d), keys (b h n d), values (b h n e), `bias_of_keys` -> (b·w h·e); the w queries of a source stand
    side by side."""
    count, (sources, heads, _, width), out = q.shape[0], k.shape, v.shape[3]
    each = count // max(1, sources)
    if each == 1:
        q = q.reshape(sources * heads, 1, width)
    else:
        q = q.reshape(sources, each, heads, width).transpose(1, 2).reshape(sources * heads, each, width)  # (b·h w d)
    weights = torch.baddbmm(bias, q, k.flatten(0, 1).mT, alpha=scale).softmax(-1)
    mixed = torch.bmm(weights, v.flatten(0, 1))
    if each == 1:
        return mixed.view(count, heads * out)
    return mixed.view(sources, heads, each, out).transpose(1, 2).reshape(count, heads * out)
