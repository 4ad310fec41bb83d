"""The Transformer block: self-attention, optional cross-attention, feed-forward network.

Vaswani et al. 2017, section 3.1. The block is bidirectional or causal depending on its mask; each part has a norm and a
residual connection. Encoders, decoders and decoder-only models are stacks of blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from regard.attention.masks import NO_MASK, Mask
from regard.layers.feedforward import FeedForward
from regard.layers.kv_cache import KV
from regard.layers.multihead import MultiHeadAttention
from regard.layers.norm import PostNorm, PreNorm


class Block(nn.Module):
    """Features (b t d) and the KV cache -> features (b t d) and the extended KV cache."""

    self_attn: MultiHeadAttention
    cross_attn: MultiHeadAttention  # only in blocks with cross-attention
    feedforward: FeedForward

    def __init__(
        self,
        attention: MultiHeadAttention,
        feedforward: FeedForward,
        *,
        make_norm: Callable[[], PreNorm | PostNorm],
        cross_attention: MultiHeadAttention | None = None,
    ) -> None:
        super().__init__()
        self.self_attn = attention
        if cross_attention is not None:
            self.cross_attn = cross_attention
        self.feedforward = feedforward
        self.around_self = make_norm()
        if cross_attention is not None:
            self.around_cross = make_norm()
        self.around_feedforward = make_norm()

    def forward(
        self,
        x: Tensor,
        mask: Mask = NO_MASK,
        *,
        past: KV | None = None,
        source: KV | None = None,
        extra: Tensor | None = None,
    ) -> tuple[Tensor, KV]:
        """`mask` selects the keys visible to each query, in the past and in the input itself. `extra` (b t n): features
        appended to queries and keys of the self-attention without projection."""
        cache = past

        def attend_self(y: Tensor) -> Tensor:
            nonlocal cache
            queries, new = self.self_attn.project_qkv(y, extra=extra)
            cache = new if past is None else past.append(new)
            return self.self_attn.attend_to(queries, cache, mask)

        x = self.around_self(x, attend_self)
        if source is not None:
            source_kv = source
            x = self.around_cross(x, lambda y: self.cross_attn(y, source_kv))
        x = self.around_feedforward(x, self.feedforward)
        assert cache is not None
        return x, cache

    def empty_cache(self, like: Tensor) -> KV:
        """Return the KV cache before the first token, with the batch size of `like`."""
        return self.self_attn.empty_cache(like)

    def project_kv(self, source: Tensor, mask: Mask) -> KV:
        """Source features (b s d) -> keys and values for the cross-attention; `mask` excludes padding."""
        return self.cross_attn.project_kv(source)._replace(mask=mask)
