"""Attend computes ATTN(Q, K, V) = Normalize[f(Q, K) + M] · V with the fastest kernel that the score and mask allow.

It is the optimized form of `Weigh` and gives the same result. Kernels, by the first condition that holds:

- the score is an inner product and the mask is local: blocks (kernels/local.py, kernels/image_blocks.py);
- the score is an inner product: the fused kernel of PyTorch (kernels/fused.py);
- any other score: chunks of queries, so that memory is bounded (kernels/chunked.py).

In place of the fused kernel, two plain products are faster over few keys on a CPU (kernels/short_keys.py); decoding
uses them directly on the KV cache. Causal attention over a few hundred keys is trained in blocks of queries
(kernels/causal_blocks.py).

`attend_with_weights` also returns the attention weights, for losses that depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from regard.attention.kernels.causal_blocks import attend_causal_blocks, use_causal_blocks
from regard.attention.kernels.chunked import attend_in_chunks, queries_per_chunk
from regard.attention.kernels.fused import attend_scaled_dot
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
from regard.core.tracing import can_inspect, is_exporting, is_tracing, is_transforming

SHARED_KEYS_ERROR = "hypotheses can share the keys of a source only if positions do not matter"


class Attend(nn.Module):
    """ATTN(Q, K, V): queries (b h t d), projected keys (b h s d), values (b h s e) -> (b h t e).

    `project` projects keys once per key sequence. Keys can be passed directly if the score does not project them.

    Queries may have w times as many rows as keys: the w hypotheses of each source, adjacent. They are folded into the
    query axis, so that the keys and values of a source are never copied.

    `queries` and `keys` name the axes of the attention map, for inspection.
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
        self.scale = self.weigh.scale  # cached, because every call needs it
        self.dropout = dropout
        self.queries, self.keys = queries, keys

    def project(self, k: Tensor) -> ProjectedKeys:
        """Keys (b h s d) -> projected keys, the input of `forward`."""
        return ProjectedKeys(self.weigh.score.project_keys(k))

    def forward(self, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK) -> Tensor:
        if torch.is_autocast_enabled("cpu") and q.device.type == "cpu" and not self.weigh.adds_products:
            return self._attend_in_float32(q, k, v, mask)
        return self._attend(q, k, v, mask)

    def _attend(self, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask) -> Tensor:
        keys = k.tensor if isinstance(k, ProjectedKeys) else self._check_unprojected(k)
        scale = self.scale
        if (  # the common case at minimal cost: the fused kernel supports it directly and is the fastest
            scale is not None
            and (mask is CAUSAL or mask is NO_MASK or _is_causal_flag(mask))
            and not is_tracing()
            and (shape := q.shape) == keys.shape == v.shape
            and len(shape) == 4
            and shape[2] > MAX_SHORT_LENGTH
            and q.dtype == keys.dtype == v.dtype
            and not (self.training and self.dropout)
        ):
            if mask.is_causal and use_causal_blocks(q, keys):
                return attend_causal_blocks(Dot(q, keys, scale), v)
            return attend_scaled_dot(Dot(q, keys, scale), v, is_causal=mask.is_causal)
        check_shapes(q, keys, v)
        check_dtypes(q, keys, v, mask=mask, allows_mixed_dtypes=self.weigh.score.allows_mixed_dtypes)
        sources, heads, *_ = keys.shape
        if not is_exporting():
            mask.check_batch(sources, heads)
        folded = q
        if q.shape[0] != sources:
            if self.weigh.depends_on_position:
                raise ShapeError(
                    f"attend: a position bias needs one row of keys and values per query row; {SHARED_KEYS_ERROR}"
                )
            folded = fold_hypotheses(q, keys, mask)
        output = self._attend_ignoring_hidden(folded, keys, v, mask)
        return output if folded is q else unfold_hypotheses(output, q.shape[0])

    def _attend_in_float32(self, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask) -> Tensor:
        """Attend in float32 under CPU autocast.

        In half precision the fused kernel and tanh take up to three times as long on a CPU. Matrix products take half
        the time, so scores that consist of products alone stay in half precision.
        """
        keys = ProjectedKeys(k.tensor.float()) if isinstance(k, ProjectedKeys) else k.float()
        with torch.autocast("cpu", enabled=False):
            output = self._attend(q.float(), keys, v.float(), mask)
        return output.to(torch.get_autocast_dtype("cpu"))

    def _check_unprojected(self, k: Tensor) -> Tensor:
        """Return keys that were passed directly; raise a ShapeError if the score has to project them."""
        if self.weigh.score.projects_keys:
            score = type(self.weigh.score).__module__.rpartition(".")[2]
            raise ShapeError(f"attend: the keys are a {type(k).__name__}, but score {score!r} projects keys first; "
                             "give attend.project(keys), computed once per key sequence")  # fmt: skip
        return k

    def _attend_ignoring_hidden(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Attend so that NaN and infinity in hidden keys and values do not reach the output or its gradients."""
        t, s = q.shape[-2], k.shape[-2]
        if not may_hide_keys(mask, t, s):
            return self._select_kernel(q, k, v, mask)
        if not can_inspect(k) or k.device.type != "cpu" or (_needs_grad(q, k, v) and not is_finite(k)):
            return self._select_kernel(q, *zero_hidden_keys(k, v, mask, t), mask)
        output = self._select_kernel(q, k, v, mask)
        if not is_finite(output):
            return self._select_kernel(q, *zero_hidden_keys(k, v, mask, t), mask)
        return output

    def _select_kernel(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """Attend with the fastest kernel."""
        dropout = self.dropout if self.training else 0.0
        dot = None if is_transforming() else self.weigh.as_dot(q, k, mask.start)
        if is_exporting():  # the other kernels are selected by length
            offset = k.shape[-2] - q.shape[-2]
            if dot is None:
                return self._attend_plain(self.weigh, q, k, v, mask, offset)
            return attend_fused(dot, v, mask, dropout)
        if dot is not None and mask.layout is not None and use_image_blocks(mask, q.shape[-2], k.shape[-2]):
            return attend_image_blocks(dot, v, mask.layout, lambda d, w, m: attend_fused(d, w, m, dropout))
        if dot is not None and mask.is_local and use_local_blocks(mask, q.shape[-2], k.shape[-2]):
            return attend_blocks(dot, v, mask, lambda d, w, m: attend_fused(d, w, m, dropout))
        if dot is None or (
            dropout and queries_per_chunk(q, k.shape[-2], 1) < q.shape[-2]
        ):  # with dropout the fused kernel stores all weights
            return attend_in_chunks(
                self._attend_plain,
                q,
                k,
                v,
                mask,
                elements_per_pair=self.weigh.score.elements_per_pair,
                weigh=self.weigh,
            )
        return attend_fused(dot, v, mask, dropout)

    def _attend_plain(  # noqa: PLR0917  # a ChunkFunction
        self, weigh: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, mask: Mask, query_offset: int
    ) -> Tensor:
        """Attend by definition: weights, dropout, product with the values."""
        weights = weigh(q, k, mask, query_offset)
        return drop(weights, self.dropout, self.training).to(v.dtype) @ v


class AttendCache:
    """An `Attend` for decoding on a CPU without gradients, which reads keys and values in place from a KV cache.

    A plain inner product takes two matrix products; any other score or mask is passed to the `Attend`.
    """

    def __init__(self, attend: Attend) -> None:
        self.attend = attend
        self.scale = attend.weigh.scale

    def __call__(
        self, q: Tensor, keys: ProjectedKeys, v: Tensor, mask: Mask, *, shape: tuple[int, int], length: int
    ) -> Tensor:
        """Queries (r·t h·d) of `shape` (r, t), cached keys (b h n d) and values (b h n e) -> (r·t h·e).

        Only the first `length` of the n columns are used; the unused ones must be finite.
        """
        k = keys.tensor
        if self.scale is not None and q.dtype == torch.float32:
            bias = key_bias(mask, shape[1], length, k.shape[2], k.shape[1])
            if bias is not None:
                return attend_cached(q, k, v, bias, self.scale)
        queries = q.view(*shape, k.shape[1], k.shape[3]).transpose(1, 2)
        output: Tensor = self.attend(queries, ProjectedKeys(k[:, :, :length]), v[:, :, :length], mask)
        return output.transpose(1, 2).flatten(2).flatten(0, 1)


class AttendedWithWeights(NamedTuple):
    """The output of attention and its weights."""

    output: Tensor  # (b h t e)
    weights: Tensor  # (b h t s), differentiable


def append_one_hot(v: Tensor) -> Tensor:
    """Values (b h s e) -> (b h s e+s): each value followed by the one-hot vector of its position.

    Call this once per key sequence, not once per query.
    """
    s = v.shape[-2]
    return torch.cat([v, torch.eye(s, dtype=v.dtype, device=v.device).expand(*v.shape[:-2], s, s)], dim=-1)


def attend_with_weights(
    attend: Attend, q: Tensor, k: Tensor | ProjectedKeys, v: Tensor, mask: Mask = NO_MASK
) -> AttendedWithWeights:
    """Attend over values from `append_one_hot` -> the output and its weights.

    A penalty on the weights (Xu et al. 2015, section 4.2.1) needs them with their gradient. The weighted sum of the
    one-hot vectors is the weights, so they are returned by the same call. The attention itself is an ordinary call: it
    uses the fastest kernel, and `record` sees it.
    """
    s = v.shape[-2]
    output_and_weights = attend(q, k, v, mask)
    return AttendedWithWeights(output_and_weights[..., :-s], output_and_weights[..., -s:])


def attend_fused(dot: Dot, v: Tensor, mask: Mask, dropout: float) -> Tensor:
    """Attend with the fused kernel of PyTorch, with bottom-right alignment, and zeros for fully masked queries."""
    q, k, _ = dot
    t, s = q.shape[-2], k.shape[-2]
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"attend: queries have width {q.shape[-1]} but keys {k.shape[-1]}; project them to one width")
    use_short = not dropout and not is_exporting() and use_short_kernel(q, k)
    if mask.only_causal and t == s and not use_short:  # without a dense mask the kernel skips the upper triangle
        if not dropout and use_causal_blocks(q, k):
            return attend_causal_blocks(dot, v)
        return attend_scaled_dot(dot, v, is_causal=True, dropout=dropout)
    allowed = mask.dense(t, s, device=q.device)
    empty = None if allowed is None else fully_masked_rows(allowed)
    if allowed is not None and empty is not None:
        allowed = allowed | empty
    if use_short:
        output = attend_short(dot, v, allowed)
    else:
        output = attend_scaled_dot(dot, v, allowed=allowed, dropout=dropout)
    return output if empty is None else output.masked_fill(empty, 0.0)


def fold_hypotheses(q: Tensor, k: Tensor, mask: Mask) -> Tensor:
    """(b·w h t d) -> (b h w·t d): the hypotheses of a source become additional queries of it."""
    if mask.depends_on_position or mask.pairs is not None:
        raise ShapeError(f"attend: the mask is not a mask of keys alone; {SHARED_KEYS_ERROR}")
    b, h, d = k.shape[0], q.shape[1], q.shape[3]
    return q.reshape(b, -1, *q.shape[1:]).transpose(1, 2).reshape(b, h, -1, d)


def unfold_hypotheses(folded: Tensor, rows: int) -> Tensor:
    """(b h w·t e) -> (b·w h t e), where `rows` is b·w: the inverse of `fold_hypotheses`."""
    b, h, n, e = folded.shape
    width = rows // b
    return folded.reshape(b, h, width, n // width, e).transpose(1, 2).reshape(rows, h, n // width, e)


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise a ShapeError if queries, keys and values do not fit together."""
    (*queries, _), (*keys, _), (*values, _) = q.shape, k.shape, v.shape
    if len(queries) == 3 and keys == values and queries[:2] == keys[:2]:
        return  # the usual case first: this is called at every step of every layer
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ShapeError(f"attend: needs (b h t d), (b h s d), (b h s e); got {_shapes(q, k, v)}")
    if k.shape[:3] != v.shape[:3]:
        raise ShapeError(f"attend: keys and values must have equal batch, heads and length; got {_shapes(q, k, v)}")
    if q.shape[1] != k.shape[1]:
        heads = f"queries have {q.shape[1]} heads but keys {k.shape[1]}"
        raise ShapeError(f"attend: {heads}; split both into equally many: {_shapes(q, k, v)}")
    rows, sources = q.shape[0], k.shape[0]
    if rows != sources and (sources == 0 or rows == 0 or rows % sources):
        sharing = f"{rows} rows of queries cannot share {sources} rows of keys"
        raise ShapeError(f"attend: {sharing}; give a multiple: {_shapes(q, k, v)}")


def check_dtypes(q: Tensor, k: Tensor, v: Tensor, *, mask: Mask, allows_mixed_dtypes: bool) -> None:
    """Raise a ShapeError if the mask is a tensor or the dtypes differ."""
    if not isinstance(mask, Mask):
        raise ShapeError(
            f"attend: mask is a {type(mask).__name__}; describe it: Mask.explicit(tensor) with True = may attend, "
            "Mask.causal(), Mask.lengths(lengths)"
        )
    if (
        q.dtype == k.dtype == v.dtype
        or (allows_mixed_dtypes and k.dtype == v.dtype)
        or torch.is_autocast_enabled(q.device.type)
    ):
        return
    dtypes = [str(x.dtype).removeprefix("torch.") for x in (q, k, v)]
    raise ShapeError(
        f"attend: query is {dtypes[0]}, key {dtypes[1]}, value {dtypes[2]}; convert all to one: x.to(query.dtype)"
    )


def _is_causal_flag(mask: Any) -> bool:
    """Return True if the argument is a mask that consists of the causal flag alone."""
    return isinstance(mask, Mask) and all(part is None for part in mask[1:])


def _needs_grad(*tensors: Tensor) -> bool:
    """Return True if a gradient is needed. Hidden keys can make it NaN even if the output is finite."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"query {tuple(q.shape)}, key {tuple(k.shape)}, value {tuple(v.shape)}"
