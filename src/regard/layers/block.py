"""The Transformer block: self-attention, attention over a source where there is one, a feed-forward network.

Vaswani et al. 2017, section 3.1. It is bidirectional or causal by the mask that it is given; norm and residual stand
around each part. Encoders, decoders and decoder-only models are stacks of it.
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
    """Features (b t d) and the past -> features (b t d) and the past with them."""

    self_attn: MultiHeadAttention
    cross_attn: MultiHeadAttention  # only where the block looks at a source
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
        """`mask` says what the queries may look at of the past and of themselves; `beside` (b t n) are features that
        reach the score of the self-attention as they are."""
        memory = past

        def look_back(y: Tensor) -> Tensor:
            nonlocal memory
            queries, new = self.self_attn.project_qkv(y, extra=extra)
            memory = new if past is None else past.append(new)
            return self.self_attn.attend_to(queries, memory, mask)

        x = self.around_self(x, look_back)
        if source is not None:
            looked_at = source
            x = self.around_cross(x, lambda y: self.cross_attn(y, looked_at))
        x = self.around_feedforward(x, self.feedforward)
        assert memory is not None
        return x, memory

    def empty_cache(self, like: Tensor) -> KV:
        """The past before the first token, for as many rows as `like` has."""
        return self.self_attn.empty_cache(like)

    def project_kv(self, source: Tensor, mask: Mask) -> KV:
        """A source (b s d) as this block looks at it; `mask` says which of its columns are there."""
        return self.cross_attn.project_kv(source)._replace(mask=mask)
