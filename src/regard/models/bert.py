"""BERT: Devlin et al. 2019. A stack of bidirectional blocks that predicts masked tokens.

    x -> token, position, segment embedding -> [self-attention, feed-forward] × layers -> head -> logits

RoBERTa (Liu et al. 2019) is the same model without segments and sentence pairs, with new masks in every epoch. ALBERT
(Lan et al. 2020) shares the weights of all layers (section 3.1) and factorizes the embedding: a narrow table, then a
matrix. The part before the head is `encoder`, so that a model with another head can be initialized from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.config import check_fields
from regard.core.data_specs import DocumentSpec, MaskedLMSpec, TaggingSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.protocols.masked_lm import MaskedBatch, MaskedLMOutput
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.feedforward import ACTIVATIONS, Activation, FeedForward
from regard.layers.linear import Linear
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import NORMS, with_norm_eps
from regard.layers.positions._base import PositionScheme
from regard.layers.readout import Readout
from regard.models._task_heads import Classifier, Tagger, with_task_head

INIT_STD = 0.02  # standard deviation of initial embeddings


@dataclass(frozen=True)
class Config:
    """The defaults are a small BERT; presets: bert, roberta, albert, and the published sizes with _base."""

    layers: int = 4  # number of blocks
    dim: int = 128  # width of the features
    heads: int = 4  # attention heads; they share the width
    ffn_dim: int = 512  # hidden width of the feed-forward network
    embedding: int = 0  # width of the token embedding; 0: dim, less: widened by a matrix
    share_layers: bool = False  # share the weights of all layers
    segments: int = 2  # segments per row; 0: none, as in RoBERTa
    dropout: float = 0.1  # dropout of the output of each sublayer, and of the embedding
    attention_dropout: float = 0.0  # dropout of attention weights; slow on a CPU
    norm: Literal["pre", "post"] = "pre"  # before each sublayer, which trains faster, or after it as in the paper
    score: str = "scaled_dot"  # attention score: see regard list scores
    position: str = "learned"  # position encoding: see regard list positions
    activation: Activation = "gelu"  # of feed-forward network and head; gelu_tanh in the published ALBERT
    eps: float = 1e-5  # added to the variance in every LayerNorm; 1e-12 in the published models
    output: Literal["crf", "softmax"] = "crf"  # for tagging: a CRF over the tag sequence, or a softmax per tag

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "dim", "heads", "ffn_dim"),
            at_least_0=("embedding",),
            probability=("dropout", "attention_dropout"),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if self.segments not in (0, 2):
            raise ConfigError(f"segments={self.segments} must be 2, or 0 for single texts")

    @property
    def width(self) -> int:
        """Width of the token embedding."""
        return self.embedding or self.dim


PRESETS = {
    "small": Config(layers=2, dim=64, heads=4, ffn_dim=128),
    "bert": Config(),
    "roberta": Config(segments=0),
    "albert": Config(share_layers=True, embedding=64),
    "bert_base": Config(layers=12, dim=768, heads=12, ffn_dim=3072, attention_dropout=0.1, norm="post"),
    "roberta_base": Config(layers=12, dim=768, heads=12, ffn_dim=3072, attention_dropout=0.1, norm="post", segments=0),
    "albert_base": Config(
        layers=12,
        dim=768,
        heads=12,
        ffn_dim=3072,
        dropout=0.0,
        norm="post",
        share_layers=True,
        embedding=128,
        activation="gelu_tanh",
    ),
}
TINY = Config(layers=2, dim=16, heads=2, ffn_dim=32)  # for tests


class BertEmbedding(nn.Module):
    """Tokens (b t) and segments (b t) -> (b t d): the sum of their embeddings and the position, normalized, and widened
    if narrow."""

    def __init__(
        self, table: nn.Embedding, position: PositionScheme, *, num_segments: int, dim: int, dropout: float
    ) -> None:
        super().__init__()
        width = table.embedding_dim
        self.table, self.position = table, position
        self.segments = nn.Embedding(num_segments, width) if num_segments else None
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)
        self.widen = Linear(width, dim) if width != dim else nn.Identity()

    def forward(self, tokens: Tensor, segments: Tensor | None = None) -> Tensor:
        x = self.position(self.table(tokens))
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        widened: Tensor = self.widen(self.dropout(self.norm(x)))
        return widened


class Encoder(nn.Module):
    """Texts (b t) -> features (b t d) of each token, from the complete text."""

    def __init__(self, embedding: BertEmbedding, layers: list[Block], final_norm: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layers, self.last = embedding, nn.ModuleList(layers), final_norm

    def forward(self, text: Padded, segments: Tensor | None = None) -> Tensor:
        mask = Mask.lengths(text.lengths, text.tokens.shape[1])
        x = self.embedding(text.tokens, segments)
        for layer in self.layers:
            x, _ = layer(x, mask)
        features: Tensor = self.last(x)
        return features


class MaskedLMHead(nn.Module):
    """Features (n d) of masked positions -> vectors (n e) that are compared with the token embedding."""

    def __init__(self, dim: int, width: int, activation: Callable[[Tensor], Tensor] = gelu) -> None:
        super().__init__()
        self.dense = Linear(dim, width)
        self.norm = nn.LayerNorm(width)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.activation(self.dense(x)))
        return normed


class Bert(nn.Module):
    """The complete model, a `MaskedLM` in the sense of core.protocols.masked_lm."""

    def __init__(
        self, encoder: Encoder, head: MaskedLMHead, readout: Readout, *, pooler: nn.Module, pairs: Readout | None
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.readout, self.pooler, self.pairs = encoder, head, readout, pooler, pairs

    def forward(self, batch: MaskedBatch) -> MaskedLMOutput:
        x = self.encoder(batch.inputs, batch.segments)
        return MaskedLMOutput(self.head(x[batch.prediction_mask]), None if self.pairs is None else self.pooler(x[:, 0]))


def build(config: Config, sizes: MaskedLMSpec | DocumentSpec | TaggingSpec) -> Bert | Classifier | Tagger:
    """Return the masked language model, or its encoder with a classification or tagging head."""
    encoder = _encoder(config, sizes)
    with_norm_eps(encoder, config.eps)
    if not isinstance(sizes, MaskedLMSpec):
        return with_task_head(encoder, config.dim, sizes, output=config.output, dropout=config.dropout)
    readout = Readout(config.width, sizes.vocab_size)
    readout.weight = encoder.embedding.table.weight
    nn.init.zeros_(readout.bias)
    if sizes.has_pairs and not config.segments:
        raise ConfigError("the data has sentence pairs; set model.segments=2 or data.sentence_pairs='none'")
    pooler = nn.Sequential(Linear(config.dim, config.dim), nn.Tanh()) if sizes.has_pairs else nn.Identity()
    pairs = Readout(config.dim, 2) if sizes.has_pairs else None
    head = MaskedLMHead(config.dim, config.width, ACTIVATIONS[config.activation])
    with_norm_eps(head, config.eps)
    return Bert(encoder, head, readout, pooler=pooler, pairs=pairs)


def _encoder(config: Config, sizes: MaskedLMSpec | DocumentSpec | TaggingSpec) -> Encoder:
    """Return everything before the head."""
    table = nn.Embedding(sizes.vocab_size, config.width, padding_idx=sizes.special_tokens.pad)
    position = positions.build(config.position, config.width, max_length=sizes.max_length)
    embedding = BertEmbedding(table, position, num_segments=config.segments, dim=config.dim, dropout=config.dropout)
    with torch.no_grad():
        for part in embedding.modules():
            if isinstance(part, nn.Embedding):
                part.weight.normal_(std=INIT_STD)
        table.weight[sizes.special_tokens.pad] = 0
    layers = [_layer(config, position)]
    for _ in range(config.layers - 1):
        layer = _layer(config, position)
        layers.append(share_weights(layer, layers[0]) if config.share_layers else layer)
    return Encoder(embedding, layers, NORMS[config.norm].final_norm(config.dim))


def _layer(config: Config, position: PositionScheme) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias = position.position_bias(heads=dims.num_heads, dim=dims.head_dim)
    score = scores.build(config.score, dims.head_dim)
    attend = Attend(score, position_bias=position_bias, dropout=config.attention_dropout, queries="text", keys="text")
    feedforward = FeedForward(config.dim, config.ffn_dim, activation=ACTIVATIONS[config.activation])
    return Block(
        MultiHeadAttention(attend, dims),
        feedforward,
        make_norm=partial(NORMS[config.norm], config.dim, config.dropout),
    )


def share_weights(block: Block, first: Block) -> Block:
    """Return the block with the weights of the first block. Its attention stays a separate module, so that it can be
    recorded separately."""
    for name in ("q", "k", "v", "o"):
        setattr(block.self_attn, name, getattr(first.self_attn, name))
    block.self_attn.attend.weigh.place = first.self_attn.attend.weigh.place
    for name in ("feedforward", "around_self", "around_feedforward"):
        setattr(block, name, getattr(first, name))
    return block
