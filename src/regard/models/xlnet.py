"""XLNet: Yang et al. 2019. Words are foretold in a random order, each from those that came before it in that order.

The order is a mask. Two streams run through the same blocks (section 2.3): in the content stream a token sees itself
and what has an earlier turn; in the query stream, which begins with one learned vector, a gap sees its place and what
has an earlier turn, but never itself. Words that are no gaps have turn 0: all see them. With every word a gap and the
turns in reading order, this is a causal language model.

Places are relative, as in section 2.4. What the content stream runs through is `encoder`, so that a model with another
head can start from it.
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
    """The defaults are as large as the small BERT."""

    layers: int = 4  # blocks, one upon the other
    dim: int = 128  # width of the features
    heads: int = 4  # of each attention; they share the width
    ffn_dim: int = 512  # width inside the feed-forward network
    max_distance: int = 64  # distances that are told apart; those beyond share a vector
    dropout: float = 0.1  # of what each part of a block adds, and of the embedding
    output: Literal["crf", "softmax"] = "crf"  # where units are tagged: whole sequences of tags, or each by itself

    def __post_init__(self) -> None:
        if min(self.layers, self.dim, self.heads, self.ffn_dim, self.max_distance) < 1:
            raise ConfigError("layers, dim, heads, hidden and reach must be at least 1")
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} is not a probability below 1")


PRESETS = {"small": Config(layers=2, dim=64, heads=4, ffn_dim=128)}
TINY = Config(layers=2, dim=16, heads=2, ffn_dim=32, max_distance=3)  # for tests


class QueryPositionBias(nn.Module):
    """Relative places of queries that stand anywhere: the last feature of a query is its place, of a key zero."""

    is_dot_product = False

    def __init__(self, relative: Relative) -> None:
        super().__init__()
        self.relative = relative

    def score(
        self, score: ScoreFunction, q: Tensor, k: Tensor, query_offset: int, start: Tensor | None = None
    ) -> Tensor:
        q, places, k = q[..., :-1], q[:, :1, :, -1:], k[..., :-1]  # (b h t d), (b 1 t 1), (b h s d)
        reach = self.relative.table.shape[1] // 2
        met = (q * q.shape[-1] ** -0.5) @ self.relative.table.mT  # (b h t 2r+1): distance reach back … ahead
        distance = places.long() - torch.arange(k.shape[-2], device=k.device)  # (b 1 t s)
        rows = (reach - distance).clamp(0, 2 * reach).expand(-1, q.shape[1], -1, -1)
        scores: Tensor = score(q, k) + met.gather(-1, rows)
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
        """Tokens (b t) and who sees whom -> what there is to look at in each block."""
        x, found = self.embedding(tokens), []
        *layers, last = cast("list[Block]", list(self.layers))
        for layer in layers:
            x, memory = layer(x, mask)
            found.append(memory)
        return [*found, last.self_attn.project_kv(last.around_self.norm(x))]


class XLNet(nn.Module):
    """The whole model, a `Filler` in the sense of core.gaps. It cannot tell pairs of texts."""

    pairs = None

    def __init__(self, encoder: Encoder, query_attention: list[MultiHeadAttention], readout: Readout) -> None:
        super().__init__()
        self.encoder = encoder
        self.queries = nn.ModuleList(
            query_attention
        )  # the attention of each block for the query stream, with its weights
        self.unseen = nn.Parameter(torch.randn(readout.in_features) * 0.02)  # what a query is before it has looked
        self.readout = readout

    def forward(self, batch: MaskedBatch) -> MaskedLMOutput:
        real = Mask.lengths(batch.lengths, batch.tokens.shape[1])
        turns = batch.prediction_order
        memories = self.encoder.content_kv(batch.tokens, real & Mask.explicit(turns[:, None, :] <= turns[:, :, None]))
        places, there = _places_of(batch.prediction_mask)  # (b k)
        seen = real & Mask.explicit(turns[:, None, :] < turns.gather(1, places)[:, :, None])
        x = self.unseen.expand(*places.shape, -1)
        for layer, queries, memory in zip(self.encoder.layers, self.queries, memories, strict=True):
            block = cast("Block", layer)
            look = partial(queries, memory=with_position_column(memory), mask=seen, beside=places[..., None])
            x = block.around_self(x, look)
            x = block.around_feedforward(x, block.feedforward)
        return MaskedLMOutput(self.encoder.last(x)[there])


def with_position_column(memory: KV) -> KV:
    """A memory for queries that bring their places along: its keys have a zero where a query has its place."""
    k = memory.k.tensor
    zeros = k.new_zeros(k.shape[0], memory.length, 1)
    return KV.of(ProjectedKeys(concat_extra(k, zeros)), memory.v, memory.mask)


def _places_of(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Which tokens are chosen (b t) -> their places in order (b k), and which of these there are (b k)."""
    most = max(1, int(chosen.sum(dim=1).max()))
    places = (~chosen).int().argsort(dim=1, stable=True)[:, :most]
    return places, chosen.gather(1, places)


def build(config: Config, sizes: MaskedLMSpec | DocumentSpec | TaggingSpec) -> XLNet | Classifier | Tagger:
    """The model that fills gaps; or its encoder with a head for labels or tags."""
    encoder = _encoder(config, sizes)
    if not isinstance(sizes, MaskedLMSpec):
        return with_task_head(encoder, config.dim, sizes, output=config.output, dropout=config.dropout)
    if sizes.has_pairs:
        raise ConfigError("xlnet cannot tell whether two texts belong together; set data.sentence_pairs='none'")
    queries = [_second(block, config) for block in cast("list[Block]", list(encoder.layers))]
    readout = Readout(config.dim, sizes.vocab_size)
    readout.weight = encoder.embedding.table.weight
    nn.init.zeros_(readout.bias)
    return XLNet(encoder, queries, readout)


def _encoder(config: Config, sizes: MaskedLMSpec | DocumentSpec | TaggingSpec) -> Encoder:
    """All that the content stream runs through."""
    tokens = embedding_table(sizes.vocab_size, config.dim, pad=sizes.special_tokens.pad)
    nowhere = build_position("none", config.dim, max_length=sizes.max_length)
    layers = [_layer(config) for _ in range(config.layers)]
    return Encoder(Embedding(tokens, nowhere, dropout=config.dropout), layers, PreNorm.final_norm(config.dim))


def _layer(config: Config) -> Block:
    widths = HeadDims.split_evenly(config.dim, config.heads)
    relative = Relative(widths.num_heads, widths.head_dim, max_distance=config.max_distance)
    attend = Attend(scores.build("scaled_dot", widths.head_dim), position_bias=relative, queries="text", keys="text")
    feedforward = FeedForward(config.dim, config.ffn_dim, activation=gelu)
    return Block(
        MultiHeadAttention(attend, widths), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout)
    )


def _second(block: Block, config: Config) -> MultiHeadAttention:
    """The attention of a block once more, for the query stream: the same weights, other queries."""
    widths = HeadDims.split_evenly(config.dim, config.heads)
    place = QueryPositionBias(cast("Relative", block.self_attn.attend.weigh.place))
    attend = Attend(scores.build("scaled_dot", widths.head_dim), position_bias=place, queries="gaps", keys="text")
    second = MultiHeadAttention(attend, widths)
    for name in ("q", "k", "v", "o"):
        setattr(second, name, getattr(block.self_attn, name))
    return second
