"""GPT: Radford et al. 2019 (GPT-2), section 2.3. A stack of causal blocks that predicts the next token.

    x -> token and position embedding -> [norm, causal self-attention, norm, feed-forward] × layers -> norm -> logits

Pre-norm, GELU, learned positions, and one table for embedding and readout. The part before the readout is `encoder`, so
that a model with another head can be initialized from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.config import check_fields
from regard.core.data_specs import DocumentSpec, LanguageSpec, TaggingSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import ACTIVATIONS, Activation, FeedForward
from regard.layers.fuse_for_decoding import optimize_for_decoding
from regard.layers.kv_cache import KV
from regard.layers.linear import Precision
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.ngram_embedding import BEFORE, NgramEmbedding
from regard.layers.norm import PreNorm, with_norm_eps
from regard.layers.positions._base import PositionScheme
from regard.layers.readout import Readout
from regard.models._task_heads import Classifier, Tagger, with_task_head


@dataclass(frozen=True)
class Config:
    """The defaults suit a small machine; `preset = "gpt2"` is the paper's smallest model."""

    layers: int = 4  # number of blocks
    dim: int = 128  # width of the features
    heads: int = 4  # attention heads; they share the width
    ffn_dim: int = 0  # hidden width of the feed-forward network; 0: four times dim
    dropout: float = 0.0  # dropout of the output of each sublayer, and of the embedding
    attention_dropout: float = 0.0  # dropout of attention weights; slow on a CPU
    score: str = "scaled_dot"  # attention score: see regard list scores
    position: str = "learned"  # position encoding: see regard list positions
    activation: Activation = "gelu"  # gelu_tanh is GPT-2's approximation, three times as slow on a CPU
    scale_embeddings: bool = True  # multiply embeddings by √dim; not in GPT-2
    ngrams: int = 0  # rows of the hashed table of n-grams that end in each token; 0: no n-gram features
    bias: bool = False  # add a learned bias to the logit of each token
    eps: float = 1e-5  # added to the variance in every LayerNorm
    output: Literal["crf", "softmax"] = "crf"  # for tagging: a CRF over the tag sequence, or a softmax per tag

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("layers", "dim", "heads"),
            at_least_0=("ffn_dim", "ngrams"),
            probability=("dropout", "attention_dropout"),
        )
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {
    "small": Config(layers=2, dim=64, heads=4),
    "gpt2": Config(
        layers=12,
        dim=768,
        heads=12,
        dropout=0.1,
        attention_dropout=0.1,
        activation="gelu_tanh",
        scale_embeddings=False,
    ),
    "baby": Config(layers=6, dim=384, heads=6, dropout=0.2),  # nanoGPT's model for Shakespeare on a GPU
}
TINY = Config(layers=2, dim=16, heads=2, dropout=0.1)  # for tests


class Encoder(nn.Module):
    """Tokens and the KV cache -> features (b t d) of each token, from all tokens up to it."""

    def __init__(
        self, embedding: Embedding, layers: list[Block], final_norm: nn.Module, ngrams: NgramEmbedding | None = None
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.last = embedding, nn.ModuleList(layers), final_norm
        self.ngrams = ngrams

    def forward(self, text: Padded) -> Tensor:
        """Complete texts -> features (b t d). The mask is causal, so padding on the right has no effect."""
        features, _ = self.forward_with_cache(text.tokens, self.empty_cache(text.tokens))
        return features

    def forward_with_cache(self, tokens: Tensor, state: GPTState) -> tuple[Tensor, GPTState]:
        """Tokens (b t) after those of the state -> features (b t d), and the state after them."""
        x, recent = self.embedding(tokens, state.past[0].position), state.recent
        if self.ngrams is not None and recent is not None:
            text = torch.cat([recent, tokens], dim=1)
            x = x + self.ngrams(text)[:, recent.shape[1] :]
            recent = text[:, tokens.shape[1] :]
        caches = []
        for layer, layer_past in zip(self.layers, state.past, strict=True):
            x, cache = layer(x, Mask.causal(), past=layer_past)
            caches.append(cache)
        return self.last(x), GPTState(tuple(caches), recent)

    def empty_cache(self, tokens: Tensor) -> GPTState:
        """Return the state before the first token, with the batch size of `tokens`."""
        like = next(self.parameters()).new_zeros(len(tokens), 0)
        past = tuple(layer.empty_cache(like) for layer in cast("Iterable[Block]", self.layers))
        recent = None if self.ngrams is None else self.ngrams.padding(tokens)
        return GPTState(past, recent)


class GPTState(NamedTuple):
    """KV cache of each block, one row per hypothesis, and the last tokens if the model has n-gram features."""

    past: tuple[KV, ...]
    recent: Tensor | None = None  # (b n)


class GPT(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols."""

    def __init__(self, encoder: Encoder, readout: Readout) -> None:
        super().__init__()
        self.encoder, self.readout = encoder, readout

    def start(self, source: Padded) -> GPTState:
        """Return the state before the first token. There is no source; only its batch size is used."""
        return self.encoder.empty_cache(source.tokens)

    def features(self, tokens: Tensor, state: GPTState) -> tuple[Tensor, GPTState]:
        x, state = self.encoder.forward_with_cache(tokens, state)
        return x, state

    def forward(self, tokens: Tensor, state: GPTState) -> tuple[Tensor, GPTState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)

    def for_decoding(self, precision: Precision = "float32") -> GPT:
        """Return an equivalent model for faster decoding on a CPU, a snapshot of the current weights; the model itself
        if it cannot be optimized."""
        return optimize_for_decoding(self, precision)


def build(config: Config, sizes: LanguageSpec | DocumentSpec | TaggingSpec) -> GPT | Classifier | Tagger:
    """Return the language model, or its encoder with a classification or tagging head."""
    tokens = embedding_table(sizes.vocab_size, config.dim, pad=sizes.special_tokens.pad)
    position = positions.build(config.position, config.dim, max_length=sizes.max_length)
    embedding = Embedding(tokens, position, dropout=config.dropout, scale=None if config.scale_embeddings else 1.0)
    pad = sizes.special_tokens.pad
    ngrams = None
    if config.ngrams:
        ngrams = NgramEmbedding(
            config.ngrams, config.dim, patterns=BEFORE, pad=pad, dropout=config.dropout, scale=embedding.scale
        )
    layers = [_layer(config, position) for _ in range(config.layers)]
    encoder = Encoder(embedding, layers, PreNorm.final_norm(config.dim), ngrams)
    with_norm_eps(encoder, config.eps)
    if not isinstance(sizes, LanguageSpec):
        return with_task_head(encoder, config.dim, sizes, output=config.output, dropout=config.dropout)
    readout = Readout(config.dim, sizes.vocab_size, bias=config.bias)
    readout.weight = tokens.weight
    if config.bias:
        nn.init.zeros_(readout.bias)
    return GPT(encoder, readout)


def _layer(config: Config, position: PositionScheme) -> Block:
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias = position.causal_position_bias(heads=dims.num_heads, dim=dims.head_dim)
    score = scores.build(config.score, dims.head_dim)
    attend = Attend(score, position_bias=position_bias, dropout=config.attention_dropout, queries="text", keys="text")
    activation = ACTIVATIONS[config.activation]
    feedforward = FeedForward(config.dim, config.ffn_dim or 4 * config.dim, activation=activation)
    block = Block(MultiHeadAttention(attend, dims), feedforward, make_norm=partial(PreNorm, config.dim, config.dropout))
    with torch.no_grad():  # section 2.3: residual layers are scaled by 1/√(number of residual layers) at initialization
        for layer in (block.self_attn.o, block.feedforward.down):
            layer.weight *= (2 * config.layers) ** -0.5
    return block
