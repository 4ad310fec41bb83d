"""Attend is the optimisation of Weigh: the same mixture of values by the fastest kernel that score and mask allow.

Three kernels: the fused one (scaled_dot_product_attention) where the score is an inner product; blocks where the mask
is local (local.py); chunks of queries (chunks.py) for every other score, so that memory stays bounded. Over few keys on
a CPU two plain products are faster than the fused kernel (short.py); decoding uses them over a cache in place. Causal
attention over a few hundred keys is trained in blocks of queries (stepped.py).

Attention that also says where it looked: the mixture and the weights it was made with, from one call.

A penalty on the weights (Xu et al. 2015, section 4.2.1) needs them with their gradient. Every value carries its own
place along as further features, a one for itself, so the weights come back behind the mixture. The attention is called
like any other: its kernel is the fastest there is, and whoever records it sees it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

from regard.attention.kernels.causal_blocks import attend_causal_blocks, use_causal_blocks
from regard.attention.kernels.chunked import attend_in_chunks, queries_per_chunk
from regard.attention.kernels.image_blocks import attend_image_blocks, use_image_blocks
from regard.attention.kernels.local import attend_blocks, use_local_blocks
from regard.attention.kernels.masked_nan import is_finite, may_hide_keys, zero_hidden_keys
from regard.attention.kernels.short_keys import (
    MAX_SHORT_LENGTH,
    attend_cached,
    attend_short,
    key_bias,
    use_short_kernel,
)
from regard.attention.masks import CAUSAL, NO_MASK, Mask
from regard.attention.normalizers import fully_masked_rows
from regard.attention.score import Dot, ProjectedKeys, ScoreFunction
from regard.attention.weigh import PositionBias, Weigh
from regard.core.errors import ShapeError
from regard.core.tracing import is_exporting, is_tracing, is_transforming

SHARED_KEYS_ERROR = "hypotheses can share the keys of a source only where places do not matter"


class Attend(nn.Module):
    """ATTN(Q, K, V): queries (b h t d), projected keys (b h s d), values (b h s e) -> (b h t e).

    Keys are projected once per memory by `project`; where the score makes nothing of them first, they can be handed in
    as they are. Queries may have `width` times as many rows as keys: the hypotheses of one source, side by side. They
    are folded into the query axis, so that a source's keys and values are read where they are, never copied.
    """

    def __init__(
        self,
        score: ScoreFunction,
        *,
        normalizer: nn.Module | None = None,
        position_bias: PositionBias | None = None,
        dropout: float = 0.0,
        queries: str = "queries",
        keys: str = "keys",
    ) -> None:
        super().__init__()
        self.weigh = Weigh(score, normalizer=normalizer, position_bias=position_bias)
        self.scale = self.weigh.scale  # asked at every call, so it is kept at hand
        self.dropout = dropout
        self.queries, self.keys = queries, keys  # names of the axes, for those who look

    def project(self, k: Tensor) -> ProjectedKeys:
        """Keys (b h s d) as they come -> as they are handed in."""
        return ProjectedKeys(self.weigh.score.project_keys(k))

    def forward(self, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK) -> Tensor:
        if torch.is_autocast_enabled("cpu") and q.device.type == "cpu" and not self.weigh.adds_products:
            return self._widened(q, k, v, mask)
        return self._mixed(q, k, v, mask)

    def _mixed(self, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask) -> Tensor:
        keys = k.tensor if isinstance(k, ProjectedKeys) else self._as_they_are(k)
        scale = self.scale
        if (  # the common case, at next to no cost: what the fused kernel computes by itself, where it is the fastest
            scale is not None
            and (mask is CAUSAL or mask is NO_MASK or _is_flag(mask))
            and not is_tracing()
            and (shape := q.shape) == keys.shape == v.shape
            and len(shape) == 4
            and shape[2] > MAX_SHORT_LENGTH
            and q.dtype == keys.dtype == v.dtype
            and not (self.training and self.dropout)
        ):
            if mask.is_causal and use_causal_blocks(q, keys):
                return attend_causal_blocks(Dot(q, keys, scale), v)
            return scaled_dot_product_attention(q, keys, v, is_causal=mask.is_causal, scale=scale)
        check_shapes(q, keys, v)
        check_dtypes(q, keys, v, mask=mask, allows_mixed_dtypes=self.weigh.score.allows_mixed_dtypes)
        rows, heads, *_ = keys.shape
        if not is_exporting():
            mask.check_batch(rows, heads)
        folded = q
        if q.shape[0] != rows:
            if self.weigh.depends_on_position:
                raise ShapeError(
                    f"attend: positions inside the score need keys and values row by row; {SHARED_KEYS_ERROR}"
                )
            folded = fold_hypotheses(q, keys, mask)
        mixed = self._seen(folded, keys, v, mask)
        return mixed if folded is q else unfold_hypotheses(mixed, q.shape[0])

    def _widened(self, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask) -> Tensor:
        """In float32: a CPU's fused kernel and a tanh take up to three times as long in half precision. Products take
        half, so what is made of products alone stays as it is."""
        keys = ProjectedKeys(k.tensor.float()) if isinstance(k, ProjectedKeys) else k.float()
        with torch.autocast("cpu", enabled=False):
            mixed = self._mixed(q.float(), keys, v.float(), mask)
        return mixed.to(torch.get_autocast_dtype("cpu"))

    def _as_they_are(self, k: Tensor) -> Tensor:
        if self.weigh.score.projects_keys:
            kind = type(self.weigh.score).__module__.rpartition(".")[2]
            raise ShapeError(f"attend: the keys are a {type(k).__name__}, but score {kind!r} projects keys first; "
                             "give attend.project(keys), made once per memory")  # fmt: skip
        return k

    def _seen(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """The mixture; nothing of what nobody may look at is in it."""
        if may_hide_keys(mask) and (
            k.device.type != "cpu" or is_tracing() or (_is_learnt(q, k, v) and not is_finite(k))
        ):
            return self._mix(q, *zero_hidden_keys(k, v, mask), mask)
        mixed = self._mix(q, k, v, mask)
        if may_hide_keys(mask) and not is_finite(mixed):
            return self._mix(q, *zero_hidden_keys(k, v, mask), mask)
        return mixed

    def _mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        dot = None if is_transforming() else self.weigh.as_dot(q, k, mask.start)
        if is_exporting():  # blocks, chunks and few keys are chosen by length
            first = k.shape[-2] - q.shape[-2]
            return self._plain(self.weigh, q, k, v, mask, first) if dot is None else attend_fused(dot, v, mask, dropout)
        if dot is not None and mask.layout is not None and use_image_blocks(mask, q.shape[-2], k.shape[-2]):
            return attend_image_blocks(dot, v, mask.layout, lambda d, w, m: attend_fused(d, w, m, dropout))
        if dot is not None and mask.is_local and use_local_blocks(mask, q.shape[-2], k.shape[-2]):
            return attend_blocks(dot, v, mask, lambda d, w, m: attend_fused(d, w, m, dropout))
        if dot is None or (
            dropout and queries_per_chunk(q, k.shape[-2], 1) < q.shape[-2]
        ):  # dropout: the kernel holds all weights
            return attend_in_chunks(
                self._plain, q, k, v, mask, elements_per_pair=self.weigh.score.elements_per_pair, weigh=self.weigh
            )
        return attend_fused(dot, v, mask, dropout)

    def _plain(self, weigh: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, *where: Any) -> Tensor:
        """`where` are the mask and the place of the first query."""
        weights = weigh(q, k, *where)
        return drop(weights, self.dropout, self.training).to(v.dtype) @ v


def _is_learnt(*tensors: Tensor) -> bool:
    """Is a gradient wanted? What is hidden may be clean in the output and spoil it there."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class AttendCache:
    """An `Attend` for decoding on a CPU, without gradients: it reads keys and values in a cache where they are.

    Over few keys of a plain inner product these are two products; everything else is done by the `Attend` itself.
    """

    def __init__(self, attend: Attend) -> None:
        self.attend = attend
        self.scale = attend.weigh.scale

    def __call__(
        self, q: Tensor, keys: ProjectedKeys, v: Tensor, mask: Mask, *, shape: tuple[int, int], length: int
    ) -> Tensor:
        """Queries (r·t h·d) of `shape` (r, t), a cache of keys (b h n d) and values (b h n e) -> (r·t h·e). Only the
        first `length` columns count; the spare ones must be finite."""
        k = keys.tensor
        if self.scale is not None and q.dtype == torch.float32:
            bias = key_bias(mask, shape[1], length, k.shape[2], k.shape[1])
            if bias is not None:
                return attend_cached(q, k, v, bias, self.scale)
        queries = q.view(*shape, k.shape[1], k.shape[3]).transpose(1, 2)
        mixed: Tensor = self.attend(queries, ProjectedKeys(k[:, :, :length]), v[:, :, :length], mask)
        return mixed.transpose(1, 2).flatten(2).flatten(0, 1)


def attend_fused(dot: Dot, v: Tensor, mask: Mask, dropout: float) -> Tensor:
    """The kernel of PyTorch, with bottom-right alignment, and zeros for a query that may look at nothing."""
    q, k, scale = dot
    t, s = q.shape[-2], k.shape[-2]
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"attend: queries have width {q.shape[-1]} but keys {k.shape[-1]}; project them to one width")
    few = not dropout and not is_exporting() and use_short_kernel(q, k)
    if mask.only_causal and t == s and not few:  # without a dense mask the kernel skips the upper half
        if not dropout and use_causal_blocks(q, k):
            return attend_causal_blocks(dot, v)
        return scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scale)
    allowed = mask.dense(t, s, device=q.device)
    empty = None if allowed is None else fully_masked_rows(allowed)
    if allowed is not None and empty is not None:
        allowed = allowed | empty
    if few:
        mixed = attend_short(dot, v, allowed)
    else:
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, scale=scale)
    return mixed if empty is None else mixed.masked_fill(empty, 0.0)


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Queries, keys and values that do not fit together are named, with their shapes."""
    (*queries, _), (*keys, _), (*values, _) = q.shape, k.shape, v.shape
    if len(queries) == 3 and keys == values and queries[:2] == keys[:2]:
        return  # the rule, seen at once: this is called at every step of every layer
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ShapeError(f"attend: needs (b h t d), (b h s d), (b h s e); got {_shapes(q, k, v)}")
    if k.shape[:3] != v.shape[:3]:
        raise ShapeError(
            f"attend: keys and values come in pairs but differ in batch, heads or length: {_shapes(q, k, v)}"
        )
    if q.shape[1] != k.shape[1]:
        heads = f"queries have {q.shape[1]} heads but keys {k.shape[1]}"
        raise ShapeError(f"attend: {heads}; split both alike: {_shapes(q, k, v)}")
    rows, memories = q.shape[0], k.shape[0]
    if rows != memories and (memories == 0 or rows == 0 or rows % memories):
        sharing = f"{rows} rows of queries cannot share {memories} rows of keys"
        raise ShapeError(f"attend: {sharing}; give a multiple: {_shapes(q, k, v)}")


def _is_flag(mask: Any) -> bool:
    """Is it a mask, and all that it says whether one may look ahead?"""
    return isinstance(mask, Mask) and all(said is None for said in mask[1:])


def check_dtypes(q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, allows_mixed_dtypes: bool) -> None:
    """A mask that is a tensor and numbers of unlike precision are named."""
    if not isinstance(mask, Mask):
        raise ShapeError(
            f"attend: mask is a {type(mask).__name__}; say what it means: Mask.explicit(tensor) with True = may look, "
            "Mask.causal(), Mask.lengths(lengths)"
        )
    if (
        q.dtype == k.dtype == v.dtype
        or (allows_mixed_dtypes and k.dtype == v.dtype)
        or torch.is_autocast_enabled(q.device.type)
    ):
        return
    kinds = [str(x.dtype).removeprefix("torch.") for x in (q, k, v)]
    raise ShapeError(
        f"attend: query is {kinds[0]}, key {kinds[1]}, value {kinds[2]}; give all in one precision: x.to(query.dtype)"
    )


def _shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"query {tuple(q.shape)}, key {tuple(k.shape)}, value {tuple(v.shape)}"


def fold_hypotheses(q: Tensor, k: Tensor, mask: Mask) -> Tensor:
    """(b·w h t d) -> (b h w·t d): the hypotheses of a source become further queries of it."""
    if mask.depends_on_position or mask.pairs is not None:
        raise ShapeError(f"attend: the mask is not one of keys alone; {SHARED_KEYS_ERROR}")
    b, h, d = k.shape[0], q.shape[1], q.shape[3]
    return q.reshape(b, -1, *q.shape[1:]).transpose(1, 2).reshape(b, h, -1, d)


def unfold_hypotheses(folded: Tensor, rows: int) -> Tensor:
    """(b h w·t e) -> (b·w h t e)."""
    b, h, n, e = folded.shape
    width = rows // b
    return folded.reshape(b, h, width, n // width, e).transpose(1, 2).reshape(rows, h, n // width, e)


class AttendedWithWeights(NamedTuple):
    """What was mixed, and of what."""

    output: Tensor  # (b h t e)
    weights: Tensor  # (b h t s), differentiable


def append_one_hot(v: Tensor) -> Tensor:
    """Values (b h s e) -> (b h s e+s): each with a one at its own place behind it. Once for a memory, not a query."""
    s = v.shape[-2]
    return torch.cat([v, torch.eye(s, dtype=v.dtype, device=v.device).expand(*v.shape[:-2], s, s)], dim=-1)


def attend_with_weights(
    attend: Attend, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK
) -> AttendedWithWeights:
    """Attend over values that `with_places` made -> the mixture and its weights."""
    s = v.shape[-2]
    both = attend(q, k, v, mask)
    return AttendedWithWeights(both[..., :-s], both[..., -s:])
