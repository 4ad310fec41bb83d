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


TINY_CONFIG = Config(embedding=8, dim=6, attention_dim=6, heads=2, dropout=0.1, word_dropout=0.0)  # for tests


class PackedFeatures(NamedTuple):
    """Packed features of some sequences."""

    features: Tensor  # (N d)
    packing: Packing
    lengths: Tensor  # (n)

    @property
    def padded_shape(self) -> tuple[int, int]:
        """Of the same features when they are padded."""
        return len(self.lengths), len(self.packing.batch_sizes)


def pack(x: Tensor, lengths: Tensor) -> PackedFeatures:
    """Padded features (n s …) -> packed ones; columns beyond the longest sequence are dropped."""
    width = int(lengths.max()) if len(lengths) else 0
    how = make_packing(lengths, width)
    return PackedFeatures(how.pack(x[:, :width]), how, lengths)


class GRUEncoder(nn.Module):
    """Mixed by a GRU from left to right and one from right to left: Yang et al. 2016, section 2.2."""

    def __init__(self, input_size: int, dim: int, *, update_gate_bias: float) -> None:
        super().__init__()
        self.both = BidirectionalRNN("gru", input_size, dim)
        if update_gate_bias:
            with torch.no_grad():  # PyTorch has the gates in this order: reset, update, new
                for name, bias in self.both.net.named_parameters():
                    if name.startswith("bias_hh"):
                        bias[dim : 2 * dim] = update_gate_bias

    def forward(self, sequences: PackedFeatures) -> Tensor:
        mixed: Tensor = self.both(sequences.features, sequences.packing)
        return mixed


class BlockEncoder(nn.Module):
    """Mixed by Transformer blocks."""

    def __init__(self, input_size: int, config: Config, *, max_length: int, axis: str) -> None:
        super().__init__()
        dim = 2 * config.dim
        self.widen = Linear(input_size, dim)
        self.enter = nn.LayerNorm(dim)  # words are embedded small; beside places of size 1 they would not be seen
        self.position = positions.build(config.position, dim, max_length=max_length)
        widths = HeadDims.split_evenly(dim, config.heads)
        self.layers = nn.ModuleList()
        for _ in range(config.layers):
            place = self.position.position_bias(heads=widths.num_heads, dim=widths.head_dim)
            attend = Attend(scores.build("scaled_dot", widths.head_dim), position_bias=place, queries=axis, keys=axis)
            around = partial(PreNorm, dim, config.dropout)
            self.layers.append(Block(MultiHeadAttention(attend, widths), FeedForward(dim, 2 * dim), make_norm=around))
        self.last = PreNorm.final_norm(dim)

    def forward(self, sequences: PackedFeatures) -> Tensor:
        x = self.position(sequences.packing.pad(self.enter(self.widen(sequences.features)), sequences.padded_shape))
        mask = Mask.lengths(sequences.lengths, sequences.padded_shape[1])
        for layer in self.layers:
            x, _ = layer(x, mask)
        mixed: Tensor = sequences.packing.pack(self.last(x))
        return mixed


class PointwiseEncoder(nn.Module):
    """Not mixed: where each item alone says what it means, attention then shows which one counts."""

    def __init__(self, input_size: int, dim: int) -> None:
        super().__init__()
        self.widen = Linear(input_size, 2 * dim)

    def forward(self, sequences: PackedFeatures) -> Tensor:
        return torch.tanh(self.widen(sequences.features))


class HierarchyLevel(nn.Module):
    """Packed features of sequences -> one vector (n 2·dim) for each."""

    def __init__(self, input_size: int, config: Config, *, encoder: str, max_length: int, axis: str) -> None:
        super().__init__()
        kinds: dict[str, Callable[[], nn.Module]] = {
            "gru": lambda: GRUEncoder(input_size, config.dim, update_gate_bias=config.gate),
            "blocks": lambda: BlockEncoder(input_size, config, max_length=max_length, axis=axis),
            "none": lambda: PointwiseEncoder(input_size, config.dim),
        }
        self.mixer = kinds[encoder]()
        self.pool = AttentionPooling(2 * config.dim, config.attention_dim, score=config.score, keys=axis)
        self.dropout = Dropout(config.dropout)

    def forward(self, sequences: PackedFeatures) -> Tensor:
        if sequences.padded_shape[1] == 0:  # every sequence is empty
            return sequences.features.new_zeros(sequences.padded_shape[0], self.pool.hidden.in_features)
        x: Tensor = self.mixer(sequences)
        keys = sequences.packing.pad(self.pool.project(x), sequences.padded_shape)
        mask = Mask.lengths(sequences.lengths, sequences.padded_shape[1])
        pooled: Tensor = self.dropout(self.pool(sequences.packing.pad(x, sequences.padded_shape), mask, projected=keys))
        return pooled
