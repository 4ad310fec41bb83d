"""Attention in chunks of queries, so that what a score holds per query-key pair never exists whole.

A chunk's inner numbers are dropped after the forward pass and made again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.masks import Mask

CHUNK = 2**22  # numbers held at once (16 MB in float32)
Plain = Callable[[Tensor, Tensor, Tensor, Mask, int], Tensor]


def in_chunks(plain: Plain, q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, inner: int) -> Tensor:
    """Queries (b h t d), keys (b h s d), values (b h s e) -> (b h t e), by `plain` on some queries at a time;
    `inner` is how many numbers it holds per pair."""
    t, s = q.shape[-2], k.shape[-2]
    rows = chunk_rows(q, s, inner)
    if rows >= t:
        return plain(q, k, v, mask, s - t)
    parts = []
    for low in range(0, t, rows):
        high = min(low + rows, t)
        seen = max(0, min(s, s - t + high)) if mask.ordered else s  # causal: later keys are not even scored
        piece = (q[:, :, low:high], k[:, :, :seen], v[:, :, :seen], mask.part(low, high, keys=seen), s - t + low)
        parts.append(checkpoint(plain, *piece, use_reentrant=False) if torch.is_grad_enabled() else plain(*piece))
    return torch.cat(parts, dim=2)


def chunk_rows(q: Tensor, s: int, inner: int) -> int:
    """How many queries (b h t d) fit into a chunk with `s` keys."""
    return max(1, CHUNK // max(1, q.shape[0] * q.shape[1] * s * inner))
