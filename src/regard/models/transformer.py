"""The Transformer, encoder and decoder: Vaswani et al. 2017. See also layers/block.py and attention/attend.py.

encoder: x -> [self-attention, feed-forward] × layers -> memory
decoder: y -> [causal self-attention, attention over the memory, feed-forward] × layers -> logits
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, cast

from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import CAUSAL, Mask
from regard.attention.weigh import PositionBias
from regard.core.config import check_fields
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.state_tree import Shared
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import ACTIVATIONS, Activation, FeedForward
from regard.layers.fuse_for_decoding import optimize_for_decoding
from regard.layers.kv_cache import KV
from regard.layers.linear import Precision
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import NORMS
from regard.layers.readout import Readout


@dataclass(frozen=True)
class Config:
    """Section 3; the defaults are the paper's base model, `preset = "tiny"` is 4+4 layers of 128."""

    layers: int = 6  # blocks of the encoder
    decoder_layers: int = 0  # blocks of the decoder; 0: as many as the encoder has
    dim: int = 512  # width of the features
    ffn_dim: int = 2048  # hidden width of the feed-forward network
    heads: int = 8  # attention heads; they share the width
    dropout: float = 0.1  # dropout of the output of each sublayer, and of the embedding
    attention_dropout: float = 0.0  # dropout of attention weights; slow on a CPU
    norm: Literal["pre", "post"] = "pre"  # layer norm before each sublayer, or after it as in the paper
    position: str = "sinusoidal"  # position encoding: see regard list positions
    score: str = "scaled_dot"  # attention score: see regard list scores
    activation: Activation = "relu"  # activation of the feed-forward network
    scale_embeddings: bool = True  # multiply embeddings by √dim; imported models may not
    bias: bool = False  # add a learned bias to the logit of each token
    tie_embeddings: bool = True  # one table for readout and target embedding (and source, if the vocabulary is joint)

    def __post_init__(self) -> None:
        check_fields(self, at_least_1=("layers", "dim", "ffn_dim", "heads"), probability=("dropout",))
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )


PRESETS = {
    "base": Config(),
    "tiny": Config(layers=4, dim=128, ffn_dim=256, heads=4, dropout=0.3),  # Wu et al. 2021, for Multi30k
    "small": Config(layers=2, dim=128, ffn_dim=256, heads=4),
}
AUTO_PRESETS = {0: "small", 20_000: "tiny", 400_000: "base"}  # least number of examples -> model.preset=auto
TINY = Config(layers=2, dim=16, ffn_dim=32, heads=2, dropout=0.1)  # for tests


class TransformerState(NamedTuple):
    """KV cache of each layer, one row per hypothesis; the source's keys and values for each layer, one row per
    sentence."""

    past: tuple[KV, ...]
    source: Shared[tuple[KV, ...]]


class Encoder(nn.Module):
    """Source tokens (b s) -> memory (b s d)."""

    def __init__(self, embedding: Embedding, layers: list[Block], final_norm: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layers, self.last = embedding, nn.ModuleList(layers), final_norm

    def forward(self, tokens: Tensor, mask: Mask) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x, _ = layer(x, mask)
        out: Tensor = self.last(x)
        return out


class DecoderStack(nn.Module):
    """Target tokens (b t) and the state before them -> features (b t d)."""

    def __init__(self, embedding: Embedding, layers: list[Block], final_norm: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layers, self.last = embedding, nn.ModuleList(layers), final_norm

    def start(self, memory: Tensor, mask: Mask) -> TransformerState:
        layers = cast("Iterable[Block]", self.layers)
        past, source = zip(
            *((layer.empty_cache(memory), layer.project_kv(memory, mask)) for layer in layers), strict=True
        )
        return TransformerState(past, Shared(source))

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x = self.embedding(tokens, state.past[0].position)  # (b t d)
        past = []
        for layer, layer_past, source in zip(self.layers, state.past, state.source.value, strict=True):
            x, cache = layer(x, CAUSAL, past=layer_past, source=source)
            past.append(cache)
        return self.last(x), TransformerState(tuple(past), state.source)


class Transformer(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols."""

    def __init__(self, encoder: Encoder, decoder: DecoderStack, readout: Readout) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.readout = readout

    def start(self, source: Padded) -> TransformerState:
        mask = Mask.lengths(source.lengths, source.tokens.shape[1])
        return self.decoder.start(self.encoder(source.tokens, mask), mask)

    def features(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x, state = self.decoder(tokens, state)
        return x, state

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (b t v)

    def for_decoding(self, precision: Precision = "float32") -> Transformer:
        """Return an equivalent model for faster decoding on a CPU, a snapshot of the current weights; the model itself
        if it cannot be optimized."""
        return optimize_for_decoding(self, precision)


def build(config: Config, sizes: Seq2SeqSpec) -> Transformer:
    """Return a model for the given settings and data spec."""
    pad = sizes.special_tokens.pad
    target = embedding_table(sizes.target_vocab_size, config.dim, pad=pad)
    joint = sizes.joint_vocab and config.tie_embeddings
    source = target if joint else embedding_table(sizes.source_vocab_size, config.dim, pad=pad)
    embeddings = [
        Embedding(
            tokens,
            positions.build(config.position, config.dim, max_length=sizes.max_length),
            dropout=config.dropout,
            scale=None if config.scale_embeddings else 1.0,
        )
        for tokens in (source, target)
    ]
    readout = Readout(config.dim, sizes.target_vocab_size, bias=config.bias)
    if config.bias:
        nn.init.zeros_(readout.bias)
    if config.tie_embeddings:
        readout.weight = target.weight  # section 3.4
    else:
        nn.init.normal_(readout.weight, std=config.dim**-0.5)
    return Transformer(_encoder(config, embeddings[0]), _decoder(config, embeddings[1]), readout)


def _encoder(config: Config, embedding: Embedding) -> Encoder:
    make_norm = partial(NORMS[config.norm], config.dim, config.dropout)
    layers = []
    for _ in range(config.layers):
        self_attention = _attention(config, embedding.position.position_bias, queries="source", keys="source")
        layers.append(Block(self_attention, _feedforward(config), make_norm=make_norm))
    return Encoder(embedding, layers, NORMS[config.norm].final_norm(config.dim))


def _decoder(config: Config, embedding: Embedding) -> DecoderStack:
    make_norm = partial(NORMS[config.norm], config.dim, config.dropout)
    layers = []
    for _ in range(config.decoder_layers or config.layers):
        self_attention = _attention(config, embedding.position.causal_position_bias, queries="target", keys="target")
        cross_attention = _attention(config, None, queries="target", keys="source")
        layers.append(Block(self_attention, _feedforward(config), make_norm=make_norm, cross_attention=cross_attention))
    return DecoderStack(embedding, layers, NORMS[config.norm].final_norm(config.dim))


def _feedforward(config: Config) -> FeedForward:
    return FeedForward(config.dim, config.ffn_dim, activation=ACTIVATIONS[config.activation])


def _attention(
    config: Config, make_position_bias: Callable[..., PositionBias | None] | None, *, queries: str, keys: str
) -> MultiHeadAttention:
    """`make_position_bias` returns the position bias, given the number of heads and their width."""
    dims = HeadDims.split_evenly(config.dim, config.heads)
    position_bias = None if make_position_bias is None else make_position_bias(heads=dims.num_heads, dim=dims.head_dim)
    score = scores.build(config.score, dims.head_dim)
    attend = Attend(score, position_bias=position_bias, dropout=config.attention_dropout, queries=queries, keys=keys)
    return MultiHeadAttention(attend, dims)
