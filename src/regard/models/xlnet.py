"""XLNet: Yang et al. 2019. Tokens are predicted in a random order, each from those before it in that order.

The order is a mask. Two streams run through the same blocks (section 2.3). In the content stream a token attends to
itself and to tokens that are earlier in the order. In the query stream, which starts with one learned vector, a masked
position has its position and attends to earlier tokens, but not to itself. Tokens that are not predicted have order 0
and are visible to all. If every token is predicted, in reading order, this is a causal language model.

Positions, segments and memory are those of Transformer-XL (section 2.4; Dai et al. 2019, section 3.3). The content
stream runs through `encoder`, so that a model with another head can be initialized from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.relative_skew import skew, table_scores
from regard.attention.score import Dot, ProjectedKeys, ScoreFunction
from regard.core.config import check_fields
from regard.core.data_specs import DocumentSpec, MaskedLMSpec, TaggingSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.protocols.masked_lm import MaskedBatch, MaskedLMOutput
from regard.core.state_tree import map_tensors
from regard.layers.block import Block
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import ACTIVATIONS, Activation, FeedForward
from regard.layers.kv_cache import KV
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PostNorm, with_norm_eps
from regard.layers.positions import build as build_position
from regard.layers.readout import Readout
from regard.models._task_heads import Classifier, Tagger, with_task_head

INIT_STD = 0.02  # standard deviation of initial embeddings and biases
MAX_WAVELENGTH = 10_000


@dataclass(frozen=True)
class Config:
    """The defaults have the size of the small BERT."""

    layers: int = 4  # number of blocks
    dim: int = 128  # width of the features
    heads: int = 4  # attention heads; they share the width
    ffn_dim: int = 512  # hidden width of the feed-forward network
    dropout: float = 0.1  # dropout of the output of each sublayer, and of the embedding
    activation: Activation = "gelu"  # of the feed-forward network
    eps: float = 1e-12  # added to the variance in every LayerNorm
    output: Literal["crf", "softmax"] = "crf"  # for tagging: a CRF over the tag sequence, or a softmax per tag

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("layers", "dim", "heads", "ffn_dim"), probability=("dropout",))
        if self.dim % self.heads or self.dim % 2:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}, or is odd; choose an even multiple of "
                f"{self.heads}"
            )


PRESETS = {
    "small": Config(layers=2, dim=64, heads=4, ffn_dim=128),
    "base": Config(layers=12, dim=768, heads=12, ffn_dim=3072),  # the smaller published model
}
TINY = Config(layers=2, dim=16, heads=2, ffn_dim=32)  # for tests


class RelativeBias(nn.Module):
    """[(q + u)·k + (q + v)·(W_R R[distance]) + (q + w)·s] / √d, with sinusoids R and a segment vector s.

    Dai et al. 2019, section 3.3; Yang et al. 2019, section 2.4. s is one vector for keys of the segment of the query,
    another one for keys of other segments. The last feature of queries and keys is their segment.
    """

    is_dot_product = False
    formula = "{} + [u·k + (q + v)·W_R R[i−j] + (q + w)·s] / √d"

    def __init__(self, dim: int, dims: HeadDims) -> None:
        super().__init__()
        self.dim, shape = dim, (dims.num_heads, dims.head_dim)
        self.r = nn.Linear(dim, dims.num_heads * dims.head_dim, bias=False)  # W_R
        self.u, self.v, self.w = (nn.Parameter(torch.randn(shape) * INIT_STD) for _ in range(3))
        self.segments = nn.Parameter(torch.randn(2, *shape) * INIT_STD)  # same segment, another segment

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        t, s = q.shape[-2], k.shape[-2]
        q, query_segments = q[..., :-1], q[:, :1, :, -1]
        distances = torch.arange(query_offset + t - 1, query_offset - s, -1, device=q.device)
        by_distance = self.position_scores(q, distances)  # (b h t t+s-1)
        return self.content_scores(score, q, k, query_segments) + skew(by_distance, s)

    def content_scores(self, score: ScoreFunction, q: Tensor, k: Tensor, query_segments: Tensor) -> Tensor:
        """Queries (b h t d), keys with segments (b h s d+1), segments of queries (b 1 t) -> scores (b h t s)."""
        k, key_segments = k[..., :-1], k[:, :1, :, -1]
        content: Tensor = score(q + self.u[:, None], k)
        by_segment = table_scores(_scaled(q + self.w[:, None]), self.segments.transpose(0, 1))  # (b h t 2)
        is_same = query_segments[..., None] == key_segments[..., None, :]  # (b 1 t s)
        return content + torch.where(is_same, by_segment[..., :1], by_segment[..., 1:])

    def position_scores(self, q: Tensor, distances: Tensor) -> Tensor:
        """Queries (b h t d), distances (n) -> (b h t n)."""
        table: Tensor = self.r(_sinusoids(distances, self.dim).to(q.dtype))  # (n h·d)
        table = table.unflatten(-1, self.v.shape).transpose(0, 1)  # (h n d)
        return table_scores(_scaled(q + self.v[:, None]), table)

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return None


def _scaled(q: Tensor) -> Tensor:
    return q / math.sqrt(q.shape[-1])


def _sinusoids(distances: Tensor, dim: int) -> Tensor:
    """Distances (n) -> (n d): sines, then cosines."""
    rates = MAX_WAVELENGTH ** (-torch.arange(0, dim, 2, device=distances.device) / dim)
    angles = distances[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class QueryPositionBias(nn.Module):
    """The same for queries at arbitrary positions: the feature before the segment of a query is its position, that of a
    key is zero."""

    is_dot_product = False
    formula = RelativeBias.formula

    def __init__(self, relative: RelativeBias) -> None:
        super().__init__()
        self.relative = relative

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        q, positions, segments = q[..., :-2], q[:, :1, :, -2:-1], q[:, :1, :, -1]
        k, s = torch.cat([k[..., :-2], k[..., -1:]], dim=-1), k.shape[-2]
        by_distance = self.relative.position_scores(q, torch.arange(s - 1, -s, -1, device=q.device))  # (b h t 2s-1)
        distance = positions.long() - torch.arange(s, device=k.device)  # (b 1 t s)
        rows = (s - 1 - distance).expand(-1, q.shape[1], -1, -1)
        return self.relative.content_scores(score, q, k, segments) + by_distance.gather(-1, rows)

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return None


Memory = tuple[KV, ...]  # keys and values of earlier text, one per block


class Encoder(nn.Module):
    """Texts (b t) -> features (b t d) of each token, from the complete text: the content stream without an order."""

    def __init__(self, embedding: Embedding, layers: list[Block]) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)

    def forward(self, text: Padded, segments: Tensor | None = None) -> Tensor:
        features, _ = self.forward_with_memory(text, segments)
        return features

    def forward_with_memory(
        self, text: Padded, segments: Tensor | None = None, *, memory: Memory = ()
    ) -> tuple[Tensor, Memory]:
        """Texts, and the memory of the text before them -> features (b t d), and the memory extended by the texts.

        Tokens attend to the memory, but no gradient flows into it (Dai et al. 2019, section 3.2). The earlier texts
        must not be padded.
        """
        past = memory[0].length if memory else 0
        mask = Mask.lengths(text.lengths + past, text.tokens.shape[1] + past)
        x, kvs = self.embedding(text.tokens), []
        extra = _segment_column(text.tokens, segments, x)
        for layer, layer_memory in zip(self.layers, memory or [None] * len(self.layers), strict=True):
            x, kv = layer(x, mask, past=layer_memory, extra=extra)
            kvs.append(map_tensors(kv, Tensor.detach))
        return x, tuple(kvs)

    def content_kv(self, tokens: Tensor, mask: Mask, segments: Tensor) -> list[KV]:
        """Tokens (b t), the mask of the content stream and segments (b t) -> keys and values of each block."""
        x, kvs = self.embedding(tokens), []
        extra = _segment_column(tokens, segments, x)
        *layers, last = cast("list[Block]", list(self.layers))
        for layer in layers:
            x, kv = layer(x, mask, extra=extra)
            kvs.append(kv)
        return [*kvs, last.self_attn.project_kv(x, extra=extra)]


def _segment_column(tokens: Tensor, segments: Tensor | None, like: Tensor) -> Tensor:
    """(b t 1): the segment of each token, as a feature."""
    return (torch.zeros_like(tokens) if segments is None else segments)[..., None].to(like.dtype)


class XLNet(nn.Module):
    """The complete model, a `MaskedLM` in the sense of core.protocols.masked_lm. It does not support sentence pairs."""

    pairs = None

    def __init__(self, encoder: Encoder, query_attention: list[MultiHeadAttention], readout: Readout) -> None:
        super().__init__()
        self.encoder = encoder
        self.queries = nn.ModuleList(query_attention)  # attention of the query stream; shares the blocks' weights
        self.unseen = nn.Parameter(torch.randn(readout.in_features) * 0.02)  # initial features of the query stream
        self.readout = readout

    def forward(self, batch: MaskedBatch) -> MaskedLMOutput:
        padding_mask = Mask.lengths(batch.lengths, batch.tokens.shape[1])
        order = batch.prediction_order
        content_mask = padding_mask & Mask.explicit(order[:, None, :] <= order[:, :, None])
        content_kv = self.encoder.content_kv(batch.tokens, content_mask, batch.segments)
        positions, is_valid = _positions_of(batch.prediction_mask)  # (b k)
        query_mask = padding_mask & Mask.explicit(order[:, None, :] < order.gather(1, positions)[:, :, None])
        x = self.unseen.expand(*positions.shape, -1)
        extra = torch.stack([positions, batch.segments.gather(1, positions)], dim=-1).to(x.dtype)
        for layer, queries, kv in zip(self.encoder.layers, self.queries, content_kv, strict=True):
            block = cast("Block", layer)
            attend = partial(queries, kv=with_position_column(kv), mask=query_mask, extra=extra)
            x = block.around_self(x, attend)
            x = block.around_feedforward(x, block.feedforward)
        return MaskedLMOutput(x[is_valid])


def with_position_column(kv: KV) -> KV:
    """Insert a zero into the keys, before their segment, where queries have their position."""
    k = kv.k.tensor
    zeros = k.new_zeros(*k.shape[:-1], 1)
    return KV.of(ProjectedKeys(torch.cat([k[..., :-1], zeros, k[..., -1:]], dim=-1)), kv.v, kv.mask)


def _positions_of(is_predicted: Tensor) -> tuple[Tensor, Tensor]:
    """Mask of predicted tokens (b t) -> their positions in order (b k), and which of these are not padding (b k)."""
    max_count = max(1, int(is_predicted.sum(dim=1).max()))
    positions = (~is_predicted).int().argsort(dim=1, stable=True)[:, :max_count]
    return positions, is_predicted.gather(1, positions)


def build(config: Config, sizes: MaskedLMSpec | DocumentSpec | TaggingSpec) -> XLNet | Classifier | Tagger:
    """Return the masked language model, or its encoder with a classification or tagging head."""
    encoder = _encoder(config, sizes)
    with_norm_eps(encoder, config.eps)
    if not isinstance(sizes, MaskedLMSpec):
        return with_task_head(encoder, config.dim, sizes, output=config.output, dropout=config.dropout)
    if sizes.has_pairs:
        raise ConfigError("xlnet does not support sentence pairs; set data.sentence_pairs='none'")
    query_attention = [_query_attention(block, config) for block in cast("list[Block]", list(encoder.layers))]
    readout = Readout(config.dim, sizes.vocab_size)
    readout.weight = encoder.embedding.table.weight
    nn.init.zeros_(readout.bias)
    return XLNet(encoder, query_attention, readout)


def _encoder(config: Config, sizes: MaskedLMSpec | DocumentSpec | TaggingSpec) -> Encoder:
    """Return everything that the content stream runs through."""
    tokens = embedding_table(sizes.vocab_size, config.dim, pad=sizes.special_tokens.pad)
    with torch.no_grad():
        tokens.weight.normal_(std=INIT_STD)
        tokens.weight[sizes.special_tokens.pad] = 0
    position = build_position("none", config.dim, max_length=sizes.max_length)
    layers = [_layer(config) for _ in range(config.layers)]
    return Encoder(Embedding(tokens, position, dropout=config.dropout, scale=1.0), layers)


def _layer(config: Config) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    relative = RelativeBias(config.dim, dims)
    attend = Attend(scores.build("scaled_dot", dims.head_dim), position_bias=relative, queries="text", keys="text")
    attention = MultiHeadAttention(attend, dims)
    for layer in (attention.q, attention.k, attention.v, attention.o):
        del layer.bias  # the projections of XLNet have no bias
        layer.register_buffer("bias", torch.zeros(layer.out_features), persistent=False)
    feedforward = FeedForward(config.dim, config.ffn_dim, activation=ACTIVATIONS[config.activation])
    return Block(attention, feedforward, make_norm=partial(PostNorm, config.dim, config.dropout))


def _query_attention(block: Block, config: Config) -> MultiHeadAttention:
    """Return the attention of a block for the query stream: the same weights, other queries."""
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias = QueryPositionBias(cast("RelativeBias", block.self_attn.attend.weigh.place))
    attend = Attend(scores.build("scaled_dot", dims.head_dim), position_bias=position_bias, queries="gaps", keys="text")
    attention = MultiHeadAttention(attend, dims)
    for name in ("q", "k", "v", "o"):
        setattr(attention, name, getattr(block.self_attn, name))
    return attention
