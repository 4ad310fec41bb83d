"""One level of a document model: encode the features of words (or sentences), then pool them by attention.

The encoder is a bidirectional GRU or a stack of Transformer blocks. Features are packed, without padding.
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
from regard.core.config import check_fields
from regard.core.data_specs import DocumentSpec
from regard.core.errors import ConfigError
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.dropout import Dropout
from regard.layers.embedding import WordDropoutEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.linear import Linear
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.ngram_votes import NgramVotes
from regard.layers.norm import PreNorm
from regard.layers.packed_rnn import BidirectionalRNN, Packing, make_packing
from regard.layers.pooling import AttentionPooling
from regard.layers.readout import MultiLabelReadout, Readout, make_readout


@dataclass(frozen=True)
class Config:
    """Settings of hierarchical models; the widths are those of Yang et al. 2016."""

    embedding: int = 100  # width of the word embeddings
    dim: int = 50  # width of the GRU per direction; blocks have twice this width
    attention_dim: int = 100  # width of the attention pooling
    encoder: Literal["gru", "blocks"] = "gru"  # encoder before the attention pooling
    sentence_encoder: Literal["", "gru", "blocks", "none"] = (
        ""  # encoder of the sentences; "": same as encoder, "none": no encoder
    )
    gate: float = 0.0  # initial bias of the GRU's update gate; below 0: little is carried from word to word
    layers: int = 1  # blocks per level
    heads: int = 4  # heads per block
    position: str = "sinusoidal"  # position encoding of blocks: see regard list positions
    score: str = "dot"  # attention score of the pooling: see regard list scores
    dropout: float = 0.5  # dropout of embeddings and pooled features
    word_dropout: float = 0.1  # probability of replacing a word by UNK in training
    ngrams: int = 0  # rows of the hashed table of word n-grams; 0: no n-gram features
    votes: int = 0  # rows of the hashed table of naive Bayes n-gram votes; 0: no votes

    def __post_init__(self) -> None:
        check_fields(
            self,
            at_least_1=("embedding", "dim", "attention_dim", "layers", "heads"),
            at_least_0=("ngrams", "votes"),
            probability=("dropout", "word_dropout"),
        )
        if "blocks" in (self.encoder, self.sentence_encoder) and 2 * self.dim % self.heads:
            raise ConfigError(f"2·dim={2 * self.dim} cannot be divided among heads={self.heads}; choose a divisor")


TINY_CONFIG = Config(embedding=8, dim=6, attention_dim=6, heads=2, dropout=0.1, word_dropout=0.0)  # for tests


def build_embedding(config: Config, sizes: DocumentSpec) -> WordDropoutEmbedding:
    """Return the word embedding of a document model."""
    return WordDropoutEmbedding(
        sizes.vocab_size,
        config.embedding,
        special_tokens=sizes.special_tokens,
        dropout=config.dropout,
        word_dropout=config.word_dropout,
        ngrams=config.ngrams,
    )


def build_votes(config: Config, sizes: DocumentSpec) -> NgramVotes | None:
    """Return the n-gram votes of a document model, if it has any."""
    if not config.votes:
        return None
    pad = sizes.special_tokens.pad
    return NgramVotes(config.votes, sizes.num_labels, multi_label=sizes.multi_label, pad=pad)


def build_readout(dim: int, votes: NgramVotes | None, sizes: DocumentSpec) -> Readout | MultiLabelReadout:
    """Return the output layer for features of width `dim`, followed by the votes."""
    if votes is None:
        return make_readout(dim, sizes.num_labels, multi_label=sizes.multi_label)
    readout = make_readout(dim + votes.columns, sizes.num_labels, multi_label=sizes.multi_label)
    votes.connect(readout)
    return readout


class PackedFeatures(NamedTuple):
    """Packed features of sequences."""

    features: Tensor  # (N d)
    packing: Packing
    lengths: Tensor  # (n)

    @property
    def padded_shape(self) -> tuple[int, int]:
        """Batch size and length of the padded features."""
        return len(self.lengths), len(self.packing.batch_sizes)


def pack(x: Tensor, lengths: Tensor) -> PackedFeatures:
    """Padded features (n s …) -> packed features; columns after the longest sequence are dropped."""
    width = int(lengths.max()) if len(lengths) else 0
    packing = make_packing(lengths, width)
    return PackedFeatures(packing.pack(x[:, :width]), packing, lengths)


class GRUEncoder(nn.Module):
    """Bidirectional GRU: Yang et al. 2016, section 2.2."""

    def __init__(self, input_size: int, dim: int, *, update_gate_bias: float) -> None:
        super().__init__()
        self.both = BidirectionalRNN("gru", input_size, dim)
        if update_gate_bias:
            with torch.no_grad():  # gate order in PyTorch: reset, update, new
                for name, bias in self.both.net.named_parameters():
                    if name.startswith("bias_hh"):
                        bias[dim : 2 * dim] = update_gate_bias

    def forward(self, sequences: PackedFeatures) -> Tensor:
        encoded: Tensor = self.both(sequences.features, sequences.packing)
        return encoded


class BlockEncoder(nn.Module):
    """Transformer blocks."""

    def __init__(self, input_size: int, config: Config, *, max_length: int, axis: str) -> None:
        super().__init__()
        dim = 2 * config.dim
        self.widen = Linear(input_size, dim)
        self.enter = nn.LayerNorm(dim)  # word embeddings are small compared with position encodings of size 1
        self.position = positions.build(config.position, dim, max_length=max_length)
        dims = HeadDims.split_evenly(dim, config.heads)
        self.layers = nn.ModuleList()
        for _ in range(config.layers):
            position_bias = self.position.position_bias(heads=dims.num_heads, dim=dims.head_dim)
            attend = Attend(
                scores.build("scaled_dot", dims.head_dim), position_bias=position_bias, queries=axis, keys=axis
            )
            make_norm = partial(PreNorm, dim, config.dropout)
            self.layers.append(Block(MultiHeadAttention(attend, dims), FeedForward(dim, 2 * dim), make_norm=make_norm))
        self.last = PreNorm.final_norm(dim)

    def forward(self, sequences: PackedFeatures) -> Tensor:
        x = self.position(sequences.packing.pad(self.enter(self.widen(sequences.features)), sequences.padded_shape))
        mask = Mask.lengths(sequences.lengths, sequences.padded_shape[1])
        for layer in self.layers:
            x, _ = layer(x, mask)
        encoded: Tensor = sequences.packing.pack(self.last(x))
        return encoded


class PointwiseEncoder(nn.Module):
    """Linear layer per position, without context: the attention then shows which item is decisive."""

    def __init__(self, input_size: int, dim: int) -> None:
        super().__init__()
        self.widen = Linear(input_size, 2 * dim)

    def forward(self, sequences: PackedFeatures) -> Tensor:
        return torch.tanh(self.widen(sequences.features))


class HierarchyLevel(nn.Module):
    """Packed features of sequences -> one vector per sequence (n 2·dim)."""

    def __init__(self, input_size: int, config: Config, *, encoder: str, max_length: int, axis: str) -> None:
        super().__init__()
        encoders: dict[str, Callable[[], nn.Module]] = {
            "gru": lambda: GRUEncoder(input_size, config.dim, update_gate_bias=config.gate),
            "blocks": lambda: BlockEncoder(input_size, config, max_length=max_length, axis=axis),
            "none": lambda: PointwiseEncoder(input_size, config.dim),
        }
        self.mixer = encoders[encoder]()
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
