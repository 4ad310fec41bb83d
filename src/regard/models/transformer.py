"""The Transformer, encoder and decoder: Vaswani et al. 2017. Reads with layers/heads.py and attention/attend.py.

encoder: x -> [self-attention, feed-forward] × layers -> memory
decoder: y -> [causal self-attention, attention over the memory, feed-forward] × layers -> logits
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.core.sizes import Text
from regard.core.tree import Shared
from regard.layers import positions
from regard.layers.embedding import Embedding, table
from regard.layers.feedforward import FeedForward
from regard.layers.heads import Heads, Widths
from regard.layers.memory import KV
from regard.layers.position import PositionScheme
from regard.layers.readout import Readout
from regard.layers.residual import PostNorm, PreNorm
from regard.models._blocks import Precision
from regard.models._prepared import Prepared, preparable


@dataclass(frozen=True)
class Config:
    """Section 3; the defaults are the paper's base model, `preset = "tiny"` is 4+4 layers of 128."""

    layers: int = 6
    decoder_layers: int = 0  # 0: as many as the encoder has
    dim: int = 512
    hidden: int = 2048
    heads: int = 8
    dropout: float = 0.1
    attention_dropout: float = 0.0
    norm: Literal["pre", "post"] = "pre"
    position: str = "sinusoidal"
    score: str = "scaled_dot"
    share: bool = (
        True  # one table for target embedding and readout, and for the source too where the vocabulary is joint
    )

    def __post_init__(self) -> None:
        if min(self.layers, self.dim, self.hidden, self.heads) < 1:
            raise ConfigError("layers, dim, hidden and heads must be at least 1")
        if self.dim % self.heads:
            raise ConfigError(
                f"dim={self.dim} cannot be divided among heads={self.heads}; choose a multiple of {self.heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout={self.dropout} is not a probability below 1")


PRESETS = {"base": Config(), "tiny": Config(layers=4, dim=128, hidden=256, heads=4, dropout=0.3)}
TINY = Config(layers=2, dim=16, hidden=32, heads=2, dropout=0.1)  # for tests


class EncoderLayer(nn.Module):
    """Section 3.1: self-attention, then a feed-forward network."""

    def __init__(self, config: Config, position: PositionScheme) -> None:
        super().__init__()
        around = PreNorm if config.norm == "pre" else PostNorm
        self.self_attn = _attention(config, position, queries="source", keys="source")
        self.feedforward = FeedForward(config.dim, config.hidden)
        self.around_self = around(config.dim, config.dropout)
        self.around_feedforward = around(config.dim, config.dropout)

    def forward(self, x: Tensor, mask: Mask) -> Tensor:
        x = self.around_self(x, lambda y: self.self_attn(y, self.self_attn.memorize(y), mask))
        x = self.around_feedforward(x, self.feedforward)
        return x


class DecoderLayer(nn.Module):
    """Section 3.1: self-attention over the past, attention over the source, a feed-forward network."""

    def __init__(self, config: Config, position: PositionScheme) -> None:
        super().__init__()
        around = PreNorm if config.norm == "pre" else PostNorm
        self.self_attn = _attention(config, position, queries="target", keys="target")
        self.cross_attn = _attention(config, None, queries="target", keys="source")
        self.feedforward = FeedForward(config.dim, config.hidden)
        self.around_self = around(config.dim, config.dropout)
        self.around_cross = around(config.dim, config.dropout)
        self.around_feedforward = around(config.dim, config.dropout)

    def forward(self, x: Tensor, past: KV, source: KV, mask: Mask) -> tuple[Tensor, KV]:
        grown = past

        def look_back(y: Tensor) -> Tensor:
            nonlocal grown
            grown = past.append(self.self_attn.memorize(y))
            mixed: Tensor = self.self_attn(y, grown, Mask.causal())
            return mixed

        x = self.around_self(x, look_back)
        x = self.around_cross(x, lambda y: self.cross_attn(y, source, mask))
        x = self.around_feedforward(x, self.feedforward)
        return x, grown


class Memory(NamedTuple):
    """The source as each decoder layer sees it, and where it is padding."""

    cross: tuple[KV, ...]
    mask: Mask


class TransformerState(NamedTuple):
    """The past of each layer, one row a hypothesis; the source, one row a sentence."""

    past: tuple[KV, ...]
    source: Shared[Memory]


class Encoder(nn.Module):
    """Source tokens (b s) -> memory (b s d)."""

    def __init__(self, config: Config, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(EncoderLayer(config, embedding.position) for _ in range(config.layers))
        self.last = (PreNorm if config.norm == "pre" else PostNorm).last(config.dim)

    def forward(self, tokens: Tensor, mask: Mask) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, mask)
        out: Tensor = self.last(x)
        return out


class DecoderStack(nn.Module):
    """Target tokens (b t) and what was before them -> features (b t d)."""

    def __init__(self, config: Config, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        depth = config.decoder_layers or config.layers
        self.layers = nn.ModuleList(DecoderLayer(config, embedding.position) for _ in range(depth))
        self.last = (PreNorm if config.norm == "pre" else PostNorm).last(config.dim)

    def start(self, memory: Tensor, mask: Mask) -> TransformerState:
        layers = [layer for layer in self.layers if isinstance(layer, DecoderLayer)]  # all are; type checkers ask
        cross = tuple(layer.cross_attn.memorize(memory) for layer in layers)
        past = tuple(layer.self_attn.empty(memory) for layer in layers)
        return TransformerState(past, Shared(Memory(cross, mask)))

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        cross, mask = state.source.value
        x = self.embedding(tokens, state.past[0].length)  # (b t d)
        past = []
        for layer, old, source in zip(self.layers, state.past, cross, strict=True):
            x, grown = layer(x, old, source, mask)
            past.append(grown)
        return self.last(x), state._replace(past=tuple(past))


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

    def for_decoding(self, precision: Precision = "float32") -> nn.Module:
        """An equal model for decoding on a CPU, of the weights as they are now; the model itself where none is made."""
        return Prepared(self, precision) if preparable(self, precision) else self


def build(config: Config, sizes: Text) -> Transformer:
    """The only function of this file that sees both the choices and what the data decided."""
    pad = sizes.marks.pad
    target = table(sizes.target, config.dim, pad=pad)
    joint = sizes.joint and config.share
    source = target if joint else table(sizes.source, config.dim, pad=pad)
    embeddings = [
        Embedding(made, positions.build(config.position, config.dim, longest=sizes.longest), dropout=config.dropout)
        for made in (source, target)
    ]
    readout = Readout(config.dim, sizes.target, bias=False)
    if config.share:
        readout.weight = target.weight  # section 3.4
    else:
        nn.init.normal_(readout.weight, std=config.dim**-0.5)
    return Transformer(Encoder(config, embeddings[0]), DecoderStack(config, embeddings[1]), readout)


def _attention(config: Config, position: PositionScheme | None, *, queries: str, keys: str) -> Heads:
    widths = Widths.divided(config.dim, config.heads)
    place = None if position is None else position.place(heads=widths.heads, dim=widths.head)
    score = scores.build(config.score, widths.head)
    attend = Attend(score, place=place, dropout=config.attention_dropout, queries=queries, keys=keys)
    return Heads(attend, widths)
