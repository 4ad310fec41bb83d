"""An attention layer: the adaptive weights W_Q, W_K, W_V before the mechanism, the heads joined through W_O behind it.

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

MIN_FUSED_ROWS = 256  # below, joining the weights takes longer than one product saves


@dataclass(frozen=True)
class HeadDims:
    """Widths of what comes in (D_Q, D_K, D_V), of one head (for scoring, for values), and of what goes out."""

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
                raise ConfigError(f"Widths: {name}={width}; every width and the number of heads is at least 1")

    @staticmethod
    def split_evenly(dim: int, num_heads: int) -> HeadDims:
        """The width is divided among the heads, as in the Transformer."""
        if num_heads < 1 or dim % num_heads:
            raise ConfigError(
                f"dim={dim} cannot be divided among heads={num_heads}; choose a multiple of {max(1, num_heads)}, or Widths.each"
            )
        return HeadDims(dim, dim, dim, dim, num_heads, dim // num_heads, dim // num_heads)

    @staticmethod
    def per_head(dim: int, num_heads: int, head_dim: int) -> HeadDims:
        """Every head has a width of its own choosing."""
        return HeadDims(dim, dim, dim, dim, num_heads, head_dim, head_dim)


class MultiHeadAttention(nn.Module):
    """Multi-head attention around an `Attend`."""

    def __init__(self, attend: Attend, dims: HeadDims) -> None:
        super().__init__()
        score = attend.weigh.score
        if {score.dim, score.key_dim} - {None, dims.head_dim}:
            raise ConfigError(
                f"Heads: the score is for width {score.dim} but a head has {dims.head_dim}; make it for that"
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
        """(b t d) that looks at itself -> queries, keys and values of every head, by one product where that is faster:
        in training on a CPU."""
        layers = (self.q, self.k, self.v)
        if not (x.dim() == 3 and all(x.shape[-1] == layer.in_features for layer in layers) and _can_join(x, layers)):
            return self.project_q(x, extra), self.project_kv(x, extra=extra)
        weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
        parts = linear(x, weight, bias).split([layer.out_features for layer in layers], dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        keys = self.attend.project(k).tensor
        return concat_extra(q, extra), KV.of(ProjectedKeys(concat_extra(keys, extra)), v)

    def project_q(self, x: Tensor, extra: Tensor | None = None) -> Tensor:
        """(b t d), and features (b t n) beside them -> queries of every head."""
        return concat_extra(self._split("queries", x, self.q), extra)

    def project_kv(self, keys: Tensor, values: Tensor | None = None, *, extra: Tensor | None = None) -> KV:
        """(b s d) -> keys and values of every head; values come from `keys` unless given. `beside` (b s n) are features
        that reach the score as they are, beside those of every key."""
        values = keys if values is None else values
        k = self.attend.project(self._split("keys", keys, self.k))
        return KV.of(ProjectedKeys(concat_extra(k.tensor, extra)), self._split("values", values, self.v))

    def forward(self, x: Tensor, kv: KV, mask: Mask = NO_MASK, extra: Tensor | None = None) -> Tensor:
        """Queries (b t d), and features (b t n) beside them, over a memory -> (b t d)."""
        return self.attend_to(self.project_q(x, extra), kv, mask)

    def attend_to(self, q: Tensor, kv: KV, mask: Mask = NO_MASK) -> Tensor:
        """Queries of every head over a memory -> (b t d)."""
        mixed = self.attend(q, kv.k, kv.v, mask & kv.mask)  # (b h t e)
        joined: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return joined

    def empty_cache(self, like: Tensor) -> KV:
        """A memory of length zero for as many rows as `like` has."""
        none = like.new_zeros(like.shape[0], 0, self.k.in_features)
        return self.project_kv(none, none.new_zeros(like.shape[0], 0, self.v.in_features))

    def _split(self, name: str, x: Tensor, layer: nn.Linear) -> Tensor:
        """(b t d) -> (b h t e)."""
        if x.dim() != 3 or x.shape[-1] != layer.in_features:
            raise ShapeError(f"Heads: {name} have shape {tuple(x.shape)}; give (batch, length, {layer.in_features})")
        projected: Tensor = layer(x)
        width = layer.out_features // self.heads
        here = projected.shape[-1] // width  # fewer than all where heads are spread over processes
        return projected.view(*x.shape[:2], here, width).transpose(1, 2)


def _can_join(x: Tensor, layers: Sequence[nn.Module]) -> bool:
    """Whether layers of one input are plain ones, whose products may be made as one; small products gain by it."""
    plain = all(
        type(layer) is Linear and type(layer.weight) is nn.Parameter and not layer._forward_hooks for layer in layers
    )
    wanted = torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type) and not is_tracing()
    return plain and wanted and x.device.type == "cpu" and x.shape[0] * x.shape[1] >= MIN_FUSED_ROWS


def concat_extra(x: Tensor, extra: Tensor | None) -> Tensor:
    """Features of every head (b h t d) and others (b t n) -> (b h t d+n), the others the same in every head."""
    if extra is None:
        return x
    return torch.cat([x, extra[:, None].to(x.dtype).expand(*x.shape[:-1], -1)], dim=-1)
