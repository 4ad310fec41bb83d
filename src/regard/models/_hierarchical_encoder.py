"""One level of a document model: features of words (or sentences) are mixed, then pooled into one by attention.

They are mixed by a GRU in both directions or by Transformer blocks. Features come packed, without padding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.errors import ConfigError
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.linear import Linear
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.packed_rnn import BidirectionalRNN, Packing, make_packing
from regard.layers.pooling import AttentionPooling


@dataclass(frozen=True)
class Config:
    """The settings of models of levels; the widths are those of Yang et al. 2016."""

    embedding: int = 100  # width of a word's features
    dim: int = 50  # width of the GRU in each direction; blocks are twice as wide
    attention_dim: int = 100  # width in which the learned query is compared with words and sentences
    encoder: Literal["gru", "blocks"] = "gru"  # what mixes the features before attention looks at them
    sentence_encoder: Literal["", "gru", "blocks", "none"] = ""  # the same for sentences; "": as mixer, none: not mixed
    gate: float = 0.0  # bias of the GRU's update gate at the start; below 0: little is carried from word to word
    layers: int = 1  # blocks of each level
    heads: int = 4  # of a block
    position: str = "sinusoidal"  # how places are told to blocks: see regard list positions
    score: str = "dot"  # of the learned query and a word: see regard list scores
    dropout: float = 0.5  # of embeddings and of pooled features
    word_dropout: float = 0.1  # how often a word is read as unknown in training

    def __post_init__(self) -> None:
        for name in ("embedding", "dim", "attention_dim", "layers", "heads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} is not a probability below 1")
        if "blocks" in (self.encoder, self.sentence_encoder) and 2 * self.dim % self.heads:
            raise ConfigError(f"2·dim={2 * self.dim} cannot be divided among heads={self.heads}; choose a divisor")


SMALL = Config(embedding=8, dim=6, attention_dim=6, heads=2, dropout=0.1, word_dropout=0.0)  # for tests


class Sequences(NamedTuple):
    """Packed features of some sequences."""

    features: Tensor  # (N d)
    how: Packing
    lengths: Tensor  # (n)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the same features when they are padded."""
        return len(self.lengths), len(self.how.batch_sizes)


def pack(x: Tensor, lengths: Tensor) -> Sequences:
    """Padded features (n s …) -> packed ones; columns beyond the longest sequence are dropped."""
    width = int(lengths.max()) if len(lengths) else 0
    how = make_packing(lengths, width)
    return Sequences(how.pack(x[:, :width]), how, lengths)


class Recurrent(nn.Module):
    """Mixed by a GRU from left to right and one from right to left: Yang et al. 2016, section 2.2."""

    def __init__(self, inputs: int, dim: int, *, gate: float) -> None:
        super().__init__()
        self.both = BidirectionalRNN("gru", inputs, dim)
        if gate:
            with torch.no_grad():  # PyTorch has the gates in this order: reset, update, new
                for name, bias in self.both.net.named_parameters():
                    if name.startswith("bias_hh"):
                        bias[dim : 2 * dim] = gate

    def forward(self, given: Sequences) -> Tensor:
        mixed: Tensor = self.both(given.features, given.how)
        return mixed


class Blocks(nn.Module):
    """Mixed by Transformer blocks."""

    def __init__(self, inputs: int, config: Config, *, longest: int, axis: str) -> None:
        super().__init__()
        dim = 2 * config.dim
        self.widen = Linear(inputs, dim)
        self.enter = nn.LayerNorm(dim)  # words are embedded small; beside places of size 1 they would not be seen
        self.position = positions.build(config.position, dim, max_length=longest)
        widths = HeadDims.split_evenly(dim, config.heads)
        self.layers = nn.ModuleList()
        for _ in range(config.layers):
            place = self.position.position_bias(heads=widths.num_heads, dim=widths.head_dim)
            attend = Attend(scores.build("scaled_dot", widths.head_dim), position_bias=place, queries=axis, keys=axis)
            around = partial(PreNorm, dim, config.dropout)
            self.layers.append(Block(MultiHeadAttention(attend, widths), FeedForward(dim, 2 * dim), make_norm=around))
        self.last = PreNorm.final_norm(dim)

    def forward(self, given: Sequences) -> Tensor:
        x = self.position(given.how.pad(self.enter(self.widen(given.features)), given.shape))
        mask = Mask.lengths(given.lengths, given.shape[1])
        for layer in self.layers:
            x, _ = layer(x, mask)
        mixed: Tensor = given.how.pack(self.last(x))
        return mixed


class Apart(nn.Module):
    """Not mixed: where each item alone says what it means, attention then shows which one counts."""

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.widen = Linear(inputs, 2 * dim)

    def forward(self, given: Sequences) -> Tensor:
        return torch.tanh(self.widen(given.features))


class Level(nn.Module):
    """Packed features of sequences -> one vector (n 2·dim) for each."""

    def __init__(self, inputs: int, config: Config, *, mixer: str, longest: int, axis: str) -> None:
        super().__init__()
        kinds: dict[str, Callable[[], nn.Module]] = {
            "gru": lambda: Recurrent(inputs, config.dim, gate=config.gate),
            "blocks": lambda: Blocks(inputs, config, longest=longest, axis=axis),
            "none": lambda: Apart(inputs, config.dim),
        }
        self.mixer = kinds[mixer]()
        self.pool = AttentionPooling(2 * config.dim, config.attention_dim, score=config.score, keys=axis)
        self.dropout = Dropout(config.dropout)

    def forward(self, given: Sequences) -> Tensor:
        if given.shape[1] == 0:  # every sequence is empty
            return given.features.new_zeros(given.shape[0], self.pool.hidden.in_features)
        x: Tensor = self.mixer(given)
        keys = given.how.pad(self.pool.project(x), given.shape)
        mask = Mask.lengths(given.lengths, given.shape[1])
        pooled: Tensor = self.dropout(self.pool(given.how.pad(x, given.shape), mask, projected=keys))
        return pooled
