"""XLNet: Yang et al. 2019. Tokens are predicted in a random order, each from those before it in that order.

The order is a mask. Two streams run through the same blocks (section 2.3). In the content stream a token attends to
itself and to tokens that are earlier in the order. In the query stream, which starts with one learned vector, a masked
position has its position and attends to earlier tokens, but not to itself. Tokens that are not predicted have order 0
and are visible to all. If every token is predicted, in reading order, this is a causal language model.

Positions are relative, as in section 2.4. The content stream runs through `encoder`, so that a model with another head
can be initialized from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.attention.score import Dot, ProjectedKeys, ScoreFunction
from regard.core.config import check_fields
from regard.core.data_specs import DocumentSpec, MaskedLMSpec, TaggingSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.protocols.masked_lm import MaskedBatch, MaskedLMOutput
from regard.layers.block import Block
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import FeedForward
from regard.layers.kv_cache import KV
from regard.layers.multihead import HeadDims, MultiHeadAttention, concat_extra
from regard.layers.norm import PreNorm
from regard.layers.positions import build as build_position
from regard.layers.positions.relative import Relative
from regard.layers.readout import Readout
from regard.models._task_heads import Classifier, Tagger, with_task_head


@dataclass(frozen=True)
class Config:
    """The defaults have the size of the small BERT."""

    layers: int = 4  # number of blocks
    dim: int = 128  # width of the features
    heads: int = 4  # attention heads; they share the width
    ffn_dim: int = 512  # hidden width of the feed-forward network
    max_distance: int = 64  # distances with separate vectors; larger ones share one
    dropout: float = 0.1  # dropout of the output of each sublayer, and of the embedding
    output: Literal["crf", "softmax"] = "crf"  # for tagging: a CRF over the tag sequence, or a softmax per tag

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("layers", "dim", "heads", "ffn_dim", "max_distance"), probability=("dropout",))
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {"small": Config(layers=2, dim=64, heads=4, ffn_dim=128)}
TINY = Config(layers=2, dim=16, heads=2, ffn_dim=32, max_distance=3)  # for tests


class QueryPositionBias(nn.Module):
    """Relative positions for queries at arbitrary positions: the last feature of a query is its position, that of a key
    is zero."""

    is_dot_product = False
    formula = Relative.formula

    def __init__(self, relative: Relative) -> None:
        super().__init__()
        self.relative = relative

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        q, positions, k = q[..., :-1], q[:, :1, :, -1:], k[..., :-1]  # (b h t d), (b 1 t 1), (b h s d)
        max_distance = self.relative.table.shape[1] // 2
        by_distance = (
            q * q.shape[-1] ** -0.5
        ) @ self.relative.table.mT  # (b h t 2r+1): from max_distance back to max_distance ahead
        distance = positions.long() - torch.arange(k.shape[-2], device=k.device)  # (b 1 t s)
        rows = (max_distance - distance).clamp(0, 2 * max_distance).expand(-1, q.shape[1], -1, -1)
        scores: Tensor = score(q, k) + by_distance.gather(-1, rows)
        return scores

    def as_dot(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Dot | None:
        return None


class Encoder(nn.Module):
    """Texts (b t) -> features (b t d) of each token, from the whole text: the content stream without an order."""

    def __init__(self, embedding: Embedding, layers: list[Block], final_norm: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layers, self.last = embedding, nn.ModuleList(layers), final_norm

    def forward(self, text: Padded) -> Tensor:
        mask = Mask.lengths(text.lengths, text.tokens.shape[1])
        x = self.embedding(text.tokens)
        for layer in self.layers:
            x, _ = layer(x, mask)
        features: Tensor = self.last(x)
        return features

    def content_kv(self, tokens: Tensor, mask: Mask) -> list[KV]:
        """Tokens (b t) and the mask of the content stream -> keys and values of each block."""
        x, kvs = self.embedding(tokens), []
        *layers, last = cast("list[Block]", list(self.layers))
        for layer in layers:
            x, kv = layer(x, mask)
            kvs.append(kv)
        return [*kvs, last.self_attn.project_kv(last.around_self.norm(x))]


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
        content_kv = self.encoder.content_kv(
            batch.tokens, padding_mask & Mask.explicit(order[:, None, :] <= order[:, :, None])
        )
        positions, is_valid = _positions_of(batch.prediction_mask)  # (b k)
        query_mask = padding_mask & Mask.explicit(order[:, None, :] < order.gather(1, positions)[:, :, None])
        x = self.unseen.expand(*positions.shape, -1)
        for layer, queries, kv in zip(self.encoder.layers, self.queries, content_kv, strict=True):
            block = cast("Block", layer)
            attend = partial(queries, kv=with_position_column(kv), mask=query_mask, extra=positions[..., None])
            x = block.around_self(x, attend)
            x = block.around_feedforward(x, block.feedforward)
        return MaskedLMOutput(self.encoder.last(x)[is_valid])


def with_position_column(kv: KV) -> KV:
    """Append a zero to the keys where queries have their position."""
    k = kv.k.tensor
    zeros = k.new_zeros(k.shape[0], kv.length, 1)
    return KV.of(ProjectedKeys(concat_extra(k, zeros)), kv.v, kv.mask)


def _positions_of(is_predicted: Tensor) -> tuple[Tensor, Tensor]:
    """Mask of predicted tokens (b t) -> their positions in order (b k), and which of these are not padding (b k)."""
    max_count = max(1, int(is_predicted.sum(dim=1).max()))
    positions = (~is_predicted).int().argsort(dim=1, stable=True)[:, :max_count]
    return positions, is_predicted.gather(1, positions)


def build(config: Config, sizes: MaskedLMSpec | DocumentSpec | TaggingSpec) -> XLNet | Classifier | Tagger:
    """Return the masked language model, or its encoder with a classification or tagging head."""
    encoder = _encoder(config, sizes)
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
    position = build_position("none", config.dim, max_length=sizes.max_length)
    layers = [_layer(config) for _ in range(config.layers)]
    return Encoder(Embedding(tokens, position, dropout=config.dropout), layers, PreNorm.final_norm(config.dim))


def _layer(config: Config) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    relative = Relative(dims.num_heads, dims.head_dim, max_distance=config.max_distance)
    attend = Attend(scores.build("scaled_dot", dims.head_dim), position_bias=relative, queries="text", keys="text")
    feedforward = FeedForward(config.dim, config.ffn_dim, activation=gelu)
    return Block(MultiHeadAttention(attend, dims), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout))


def _query_attention(block: Block, config: Config) -> MultiHeadAttention:
    """Return the attention of a block for the query stream: the same weights, other queries."""
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias = QueryPositionBias(cast("Relative", block.self_attn.attend.weigh.place))
    attend = Attend(scores.build("scaled_dot", dims.head_dim), position_bias=position_bias, queries="gaps", keys="text")
    attention = MultiHeadAttention(attend, dims)
    for name in ("q", "k", "v", "o"):
        setattr(attention, name, getattr(block.self_attn, name))
    return attention
