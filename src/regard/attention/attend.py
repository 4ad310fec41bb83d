"""Attend is the optimisation of Weigh: the same mixture of values by the fastest kernel that score and mask allow.

Three kernels: the fused one (scaled_dot_product_attention) where the score is an inner product; blocks where the mask is
local (local.py); chunks of queries, recomputed in the backward pass, for every other score, so that memory stays bounded.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from regard.attention.local import attend_blocks, is_local
from regard.attention.masks import Mask
from regard.attention.score import Dot, ScoreFunction
from regard.attention.weigh import Place, Weigh
from regard.core.errors import ShapeError

CHUNK = 2**22  # numbers held at once by the chunked kernel (16 MB in float32)


class Attend(nn.Module):
    """ATTN(Q, K, V): queries (b h t d), prepared keys (b h s d), values (b h s e) -> (b h t e).

    Queries may have `width` times as many rows as keys: the hypotheses of one source, side by side. They are folded
    into the query axis, so that a source's keys and values are read where they are, never copied.
    """

    def __init__(
        self,
        score: ScoreFunction,
        *,
        normalizer: nn.Module | None = None,
        place: Place | None = None,
        dropout: float = 0.0,
        queries: str = "queries",
        keys: str = "keys",
    ) -> None:
        super().__init__()
        self.weigh = Weigh(score, normalizer=normalizer, place=place)
        self.dropout = dropout
        self.queries, self.keys = queries, keys  # names of the axes, for those who look

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = Mask()) -> Tensor:
        check_shapes(q, k, v)
        if q.shape[0] != k.shape[0]:
            return unfold(self._mix(fold(q, k, mask), k, v, mask), q.shape[0])
        return self._mix(q, k, v, mask)

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        dot = self.weigh.as_dot(q, k)
        if dot is None:
            return self._chunks(q, k, v, mask)
        if is_local(mask, q.shape[-2], k.shape[-2]):
            return attend_blocks(dot, v, mask, lambda d, w, m: fused(d, w, m, dropout))
        return fused(dot, v, mask, dropout)

    def _chunks(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        (b, h, t, _), s = q.shape, k.shape[-2]
        rows = max(1, CHUNK // max(1, b * h * s * self.weigh.score.inner))
        if rows >= t:
            return self._plain(q, k, v, mask, s - t)
        parts = []
        for low in range(0, t, rows):
            high = min(low + rows, t)
            seen = max(0, min(s, s - t + high)) if mask.ordered else s  # causal: later keys are not even scored
            piece = (q[:, :, low:high], k[:, :, :seen], v[:, :, :seen], mask.part(low, high, keys=seen), s - t + low)
            parts.append(checkpoint(self._plain, *piece, use_reentrant=False) if torch.is_grad_enabled() else self._plain(*piece))
        return torch.cat(parts, dim=2)

    def _plain(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, first: int) -> Tensor:
        weights = self.weigh(q, k, mask, first)
        return drop(weights, self.dropout, self.training) @ v


def fused(dot: Dot, v: Tensor, mask: Mask, dropout: float) -> Tensor:
    """The kernel of PyTorch, with bottom-right alignment, and zeros for a query that may look at nothing."""
    q, k, scale = dot
    t, s = q.shape[-2], k.shape[-2]
    if mask.only_causal and t == s:  # without a dense mask the kernel skips the upper half
        return scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scale)
    allowed = mask.dense(t, s, device=q.device)
    if allowed is None:
        return scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scale)
    empty = ~allowed.any(dim=-1, keepdim=True)
    mixed = scaled_dot_product_attention(q, k, v, attn_mask=allowed | empty, dropout_p=dropout, scale=scale)
    return mixed.masked_fill(empty, 0.0)


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Queries, keys and values that do not fit together are named, with their shapes."""
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ShapeError(f"attend: needs (b h t d), (b h s d), (b h s e); got {_shapes(q, k, v)}")
    if k.shape[:3] != v.shape[:3]:
        raise ShapeError(f"attend: keys and values differ in batch, heads or length: {_shapes(q, k, v)}; they come in pairs")
    if q.shape[1] != k.shape[1]:
        raise ShapeError(f"attend: queries have {q.shape[1]} heads but keys {k.shape[1]}: {_shapes(q, k, v)}")
    if q.shape[0] % max(1, k.shape[0]):
        raise ShapeError(f"attend: {q.shape[0]} rows of queries cannot share {k.shape[0]} rows of keys: {_shapes(q, k, v)}")


def fold(q: Tensor, k: Tensor, mask: Mask) -> Tensor:
    """(b·w h t d) -> (b h w·t d): the hypotheses of a source become further queries of it."""
    if mask.placed or mask.pairs is not None:
        raise ShapeError("attend: only a mask of keys can be shared by several hypotheses; give keys and values row by row")
    return q.unflatten(0, (k.shape[0], -1)).transpose(1, 2).flatten(2, 3)


def unfold(mixed: Tensor, rows: int) -> Tensor:
    """(b h w·t e) -> (b·w h t e)."""
    width = rows // mixed.shape[0]
    return mixed.unflatten(2, (width, -1)).transpose(1, 2).flatten(0, 1)


def _shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"query {tuple(q.shape)}, key {tuple(k.shape)}, value {tuple(v.shape)}"
