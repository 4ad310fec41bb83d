"""One level of a document model: features of words (or sentences) are mixed, then pooled into one by attention.

They are mixed by a GRU in both directions or by Transformer blocks. Features come packed, without padding.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import Mask
from regard.core.errors import ConfigError
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.feedforward import FeedForward
from regard.layers.heads import Heads, Widths
from regard.layers.linear import Linear
from regard.layers.packed import BothWays, Packing, packing
from regard.layers.pooling import AttentionPooling
from regard.layers.residual import PreNorm


@dataclass(frozen=True)
class Shape:
    """What a level is made of. The fields are settings of every model of levels, and explained there."""

    dim: int
    inner: int
    mixer: Literal["gru", "blocks"]
    layers: int
    heads: int
    position: str
    score: str
    dropout: float

    @staticmethod
    def of(config: Any) -> Shape:
        """The shape that a model's settings ask for, or an error that names what is wrong."""
        for name in ("embedding", "dim", "inner", "layers", "heads"):
            if getattr(config, name) < 1:
                raise ConfigError(f"{name}={getattr(config, name)} must be at least 1")
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(config, name) < 1:
                raise ConfigError(f"{name}={getattr(config, name)} is not a probability below 1")
        if config.mixer == "blocks" and 2 * config.dim % config.heads:
            raise ConfigError(f"2·dim={2 * config.dim} cannot be divided among heads={config.heads}; choose a divisor")
        return Shape(**{field.name: getattr(config, field.name) for field in fields(Shape)})


class Sequences(NamedTuple):
    """Packed features of some sequences."""

    features: Tensor  # (N d)
    how: Packing
    lengths: Tensor  # (n)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the same features when they are padded."""
        return len(self.lengths), len(self.how.rows)


def pack(x: Tensor, lengths: Tensor) -> Sequences:
    """Padded features (n s …) -> packed ones; columns beyond the longest sequence are dropped."""
    width = int(lengths.max()) if len(lengths) else 0
    how = packing(lengths, width)
    return Sequences(how.pack(x[:, :width]), how, lengths)


class Recurrent(nn.Module):
    """Mixed by a GRU from left to right and one from right to left: Yang et al. 2016, section 2.2."""

    def __init__(self, inputs: int, dim: int) -> None:
        super().__init__()
        self.both = BothWays("gru", inputs, dim)

    def forward(self, given: Sequences) -> Tensor:
        mixed: Tensor = self.both(given.features, given.how)
        return mixed


class Blocks(nn.Module):
    """Mixed by Transformer blocks."""

    def __init__(self, inputs: int, shape: Shape, *, longest: int, axis: str) -> None:
        super().__init__()
        dim = 2 * shape.dim
        self.widen = Linear(inputs, dim)
        self.enter = nn.LayerNorm(dim)  # words are embedded small; beside places of size 1 they would not be seen
        self.position = positions.build(shape.position, dim, longest=longest)
        widths = Widths.divided(dim, shape.heads)
        self.layers = nn.ModuleList()
        for _ in range(shape.layers):
            place = self.position.place(heads=widths.heads, dim=widths.head)
            attend = Attend(scores.build("scaled_dot", widths.head), place=place, queries=axis, keys=axis)
            around = partial(PreNorm, dim, shape.dropout)
            self.layers.append(Block(Heads(attend, widths), FeedForward(dim, 2 * dim), around=around))
        self.last = PreNorm.last(dim)

    def forward(self, given: Sequences) -> Tensor:
        x = self.position(given.how.pad(self.enter(self.widen(given.features)), given.shape))
        mask = Mask.lengths(given.lengths, given.shape[1])
        for layer in self.layers:
            x, _ = layer(x, mask)
        mixed: Tensor = given.how.pack(self.last(x))
        return mixed


class Level(nn.Module):
    """Packed features of sequences -> one vector (n 2·dim) for each."""

    def __init__(self, inputs: int, shape: Shape, *, longest: int, axis: str) -> None:
        super().__init__()
        self.mixer: nn.Module = (
            Recurrent(inputs, shape.dim) if shape.mixer == "gru" else Blocks(inputs, shape, longest=longest, axis=axis)
        )
        self.pool = AttentionPooling(2 * shape.dim, shape.inner, score=shape.score, keys=axis)
        self.dropout = Dropout(shape.dropout)

    def forward(self, given: Sequences) -> Tensor:
        if given.shape[1] == 0:  # every sequence is empty
            return given.features.new_zeros(given.shape[0], self.pool.hidden.in_features)
        x: Tensor = self.mixer(given)
        keys = given.how.pad(self.pool.project(x), given.shape)
        mask = Mask.lengths(given.lengths, given.shape[1])
        pooled: Tensor = self.dropout(self.pool(given.how.pad(x, given.shape), mask, projected=keys))
        return pooled
