"""The Transformer, encoder and decoder: Vaswani et al. 2017. Reads with layers/block.py and attention/attend.py.

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
    ffn_dim: int = 2048  # width inside the feed-forward network
    heads: int = 8  # of each attention; they share the width
    dropout: float = 0.1  # of what each part of a block adds, and of the embedding
    attention_dropout: float = 0.0  # of attention weights; slow on a CPU
    norm: Literal["pre", "post"] = "pre"  # before each part of a block, or behind it as in the paper
    position: str = "sinusoidal"  # how places are told: see regard list positions
    score: str = "scaled_dot"  # of queries and keys: see regard list scores
    activation: Activation = "relu"  # inside the feed-forward network
    scale_embeddings: bool = True  # embeddings are multiplied by √dim; the models of others may do without
    bias: bool = False  # a number for each token that is added to its logit
    tie_embeddings: bool = (
        True  # one table for target embedding and readout, and for the source if the vocabulary is joint
    )

    def __post_init__(self) -> None:
        if min(self.layers, self.dim, self.ffn_dim, self.heads) < 1:
            raise ConfigError("layers, dim, hidden and heads must be at least 1")
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} is not a probability below 1")


PRESETS = {
    "base": Config(),
    "tiny": Config(layers=4, dim=128, ffn_dim=256, heads=4, dropout=0.3),  # Wu et al. 2021, for Multi30k
    "small": Config(layers=2, dim=128, ffn_dim=256, heads=4),
}
TINY = Config(layers=2, dim=16, ffn_dim=32, heads=2, dropout=0.1)  # for tests


class TransformerState(NamedTuple):
    """The past of each layer, one row a hypothesis; the source as each layer sees it, one row a sentence."""

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
    """Target tokens (b t) and what was before them -> features (b t d)."""

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
        for layer, before, source in zip(self.layers, state.past, state.source.value, strict=True):
            x, memory = layer(x, CAUSAL, past=before, source=source)
            past.append(memory)
        return self.last(x), TransformerState(tuple(past), state.source)


class Transformer(nn.Module):
    """The whole model, a `Decoder` in the sense of core.protocols."""

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
        """An equal model, faster at decoding on a CPU, with the weights of now; itself where nothing would be won."""
        return optimize_for_decoding(self, precision)


def build(config: Config, sizes: Seq2SeqSpec) -> Transformer:
    """The only function of this file that sees both the choices and what the data decided."""
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
    around = partial(NORMS[config.norm], config.dim, config.dropout)
    layers = []
    for _ in range(config.layers):
        own = _attention(config, embedding.position.position_bias, queries="source", keys="source")
        layers.append(Block(own, _feedforward(config), make_norm=around))
    return Encoder(embedding, layers, NORMS[config.norm].final_norm(config.dim))


def _decoder(config: Config, embedding: Embedding) -> DecoderStack:
    around = partial(NORMS[config.norm], config.dim, config.dropout)
    layers = []
    for _ in range(config.decoder_layers or config.layers):
        own = _attention(config, embedding.position.causal_position_bias, queries="target", keys="target")
        cross = _attention(config, None, queries="target", keys="source")
        layers.append(Block(own, _feedforward(config), make_norm=around, cross_attention=cross))
    return DecoderStack(embedding, layers, NORMS[config.norm].final_norm(config.dim))


def _feedforward(config: Config) -> FeedForward:
    return FeedForward(config.dim, config.ffn_dim, activation=ACTIVATIONS[config.activation])


def _attention(
    config: Config, where: Callable[..., PositionBias | None] | None, *, queries: str, keys: str
) -> MultiHeadAttention:
    """`where` makes what positions put inside the score, given the heads and their width."""
    widths = HeadDims.split_evenly(config.dim, config.heads)
    place = None if where is None else where(heads=widths.num_heads, dim=widths.head_dim)
    score = scores.build(config.score, widths.head_dim)
    attend = Attend(score, position_bias=place, dropout=config.attention_dropout, queries=queries, keys=keys)
    return MultiHeadAttention(attend, widths)
