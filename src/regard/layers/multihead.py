"""Multi-head attention layer: projections W_Q, W_K, W_V, the attention mechanism, and the output projection W_O.

Vaswani et al. 2017, section 3.2.2. With one head and an additive score it is Bahdanau's attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK, Mask
from regard.attention.score import ProjectedKeys
from regard.core.errors import ConfigError, ShapeError
from regard.core.tracing import is_tracing
from regard.layers.kv_cache import KV
from regard.layers.linear import Linear

MIN_FUSED_ROWS = 256  # below, concatenating the weights costs more than one product saves


@dataclass(frozen=True)
class HeadDims:
    """Input widths (D_Q, D_K, D_V), widths inside a head (for scoring, for values), and output width."""

    query_dim: int
    key_dim: int
    value_dim: int
    out_dim: int
    num_heads: int
    head_dim: int  # queries and keys inside a head
    head_value_dim: int  # values inside a head

    def __post_init__(self) -> None:
        for name, width in vars(self).items():
            if width < 1:
                raise ConfigError(f"HeadDims: {name}={width} must be at least 1")

    @staticmethod
    def split_evenly(dim: int, num_heads: int) -> HeadDims:
        """Divide the width among the heads, as in the Transformer."""
        if num_heads < 1 or dim % num_heads:
            raise ConfigError(
                f"dim={dim} cannot be divided among heads={num_heads}; "
                f"choose a multiple of {max(1, num_heads)}, or HeadDims.per_head"
            )
        return HeadDims(dim, dim, dim, dim, num_heads, dim // num_heads, dim // num_heads)

    @staticmethod
    def per_head(dim: int, num_heads: int, head_dim: int) -> HeadDims:
        """Set the width of a head independently of `dim`."""
        return HeadDims(dim, dim, dim, dim, num_heads, head_dim, head_dim)


class MultiHeadAttention(nn.Module):
    """Multi-head attention with an `Attend` module."""

    def __init__(self, attend: Attend, dims: HeadDims) -> None:
        super().__init__()
        score = attend.weigh.score
        if {score.dim, score.key_dim} - {None, dims.head_dim}:
            raise ConfigError(
                f"MultiHeadAttention: the score has dim={score.dim} but head_dim={dims.head_dim}; they must be equal"
            )
        self.attend = attend
        self.heads = dims.num_heads
        self.q = Linear(dims.query_dim, dims.num_heads * dims.head_dim)  # W_Q
        self.k = Linear(dims.key_dim, dims.num_heads * dims.head_dim)  # W_K
        self.v = Linear(dims.value_dim, dims.num_heads * dims.head_value_dim)  # W_V
        self.o = Linear(dims.num_heads * dims.head_value_dim, dims.out_dim)  # W_O
        for layer in (self.q, self.k, self.v, self.o):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def project_qkv(self, x: Tensor, *, extra: Tensor | None = None) -> tuple[Tensor, KV]:
        """(b t d) -> queries, keys and values of every head, for self-attention. Uses one product if that is faster: in
        training on a CPU."""
        layers = (self.q, self.k, self.v)
        if not (x.dim() == 3 and all(x.shape[-1] == layer.in_features for layer in layers) and _can_fuse(x, layers)):
            return self.project_q(x, extra), self.project_kv(x, extra=extra)
        weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
        parts = linear(x, weight, bias).split([layer.out_features for layer in layers], dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        keys = self.attend.project(k).tensor
        return concat_extra(q, extra), KV.of(ProjectedKeys(concat_extra(keys, extra)), v)

    def project_q(self, x: Tensor, extra: Tensor | None = None) -> Tensor:
        """(b t d), and extra features (b t n) -> queries of every head."""
        return concat_extra(self._split("queries", x, self.q), extra)

    def project_kv(self, keys: Tensor, values: Tensor | None = None, *, extra: Tensor | None = None) -> KV:
        """(b s d) -> keys and values of every head; values are computed from `keys` by default. `extra` (b s n):
        features appended to the keys of every head without projection."""
        values = keys if values is None else values
        k = self.attend.project(self._split("keys", keys, self.k))
        return KV.of(ProjectedKeys(concat_extra(k.tensor, extra)), self._split("values", values, self.v))

    def forward(self, x: Tensor, kv: KV, mask: Mask = NO_MASK, extra: Tensor | None = None) -> Tensor:
        """Queries (b t d), and extra features (b t n), over keys and values -> (b t d)."""
        return self.attend_to(self.project_q(x, extra), kv, mask)

    def attend_to(self, q: Tensor, kv: KV, mask: Mask = NO_MASK) -> Tensor:
        """Queries of every head over keys and values -> (b t d)."""
        attended = self.attend(q, kv.k, kv.v, mask & kv.mask)  # (b h t e)
        projected: Tensor = self.o(attended.transpose(1, 2).flatten(2))
        return projected

    def empty_cache(self, like: Tensor) -> KV:
        """Return a KV cache of length zero with the batch size of `like`."""
        empty = like.new_zeros(like.shape[0], 0, self.k.in_features)
        return self.project_kv(empty, empty.new_zeros(like.shape[0], 0, self.v.in_features))

    def _split(self, name: str, x: Tensor, layer: nn.Linear) -> Tensor:
        """(b t d) -> (b h t e)."""
        if x.dim() != 3 or x.shape[-1] != layer.in_features:
            raise ShapeError(
                f"MultiHeadAttention: {name} have shape {tuple(x.shape)}; pass (batch, length, {layer.in_features})"
            )
        projected: Tensor = layer(x)
        width = layer.out_features // self.heads
        num_heads = projected.shape[-1] // width  # fewer than all if heads are sharded over processes
        return projected.view(*x.shape[:2], num_heads, width).transpose(1, 2)


def _can_fuse(x: Tensor, layers: Sequence[nn.Module]) -> bool:
    """Return True if the layers are plain linear layers whose products may be computed as one; small products gain
    most."""
    are_plain = all(
        type(layer) is Linear and type(layer.weight) is nn.Parameter and not layer._forward_hooks for layer in layers
    )
    is_training = torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type) and not is_tracing()
    return are_plain and is_training and x.device.type == "cpu" and x.shape[0] * x.shape[1] >= MIN_FUSED_ROWS


def concat_extra(x: Tensor, extra: Tensor | None) -> Tensor:
    """Features of every head (b h t d), extra features (b t n) -> (b h t d+n), the extra features repeated for every
    head."""
    if extra is None:
        return x
    return torch.cat([x, extra[:, None].to(x.dtype).expand(*x.shape[:-1], -1)], dim=-1)
