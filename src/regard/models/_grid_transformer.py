"""Transformer decoder over the grid cells of an image: Vaswani et al. 2017, section 3.1, with the grid as source."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from torch import Tensor, nn

from regard.attention import scores
from regard.attention.attend import Attend
from regard.attention.masks import NO_MASK
from regard.core.data_specs import CaptioningSpec
from regard.core.state_tree import repeat_rows
from regard.layers import positions
from regard.layers.block import Block
from regard.layers.cnn_grid import GridEncoder
from regard.layers.embedding import Embedding, embedding_table
from regard.layers.feedforward import FeedForward
from regard.layers.fuse_for_decoding import optimize_for_decoding
from regard.layers.linear import Precision
from regard.layers.multihead import HeadDims, MultiHeadAttention
from regard.layers.norm import PreNorm
from regard.layers.readout import Readout
from regard.models._bag_of_words_loss import BagOfWordsLoss
from regard.models.transformer import DecoderStack, TransformerState


class TransformerShape(NamedTuple):
    """Width, depth and other hyperparameters of the decoder."""

    dim: int
    layers: int
    heads: int
    dropout: float
    score: str


class GridTransformer(nn.Module):
    """The complete model, a `Decoder` in the sense of core.protocols whose sources are images (b c h w) in -1 … 1."""

    def __init__(
        self,
        grid: GridEncoder,
        projection: nn.Linear,
        *,
        decoder: DecoderStack,
        readout: Readout,
        bag_of_words: BagOfWordsLoss | None = None,
    ) -> None:
        super().__init__()
        self.grid, self.into, self.decoder, self.readout, self.named = grid, projection, decoder, readout, bag_of_words

    def start(self, source: Tensor) -> TransformerState:
        return self.decoder.start(self.into(self.grid(source)), NO_MASK)

    def features(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x, state = self.decoder(tokens, state)
        return x, state

    def forward(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        x, state = self.features(tokens, state)
        return self.readout(x), state  # (r t v)

    def losses(self, images: Tensor, captions: Tensor, *, pad: int, smoothing: float = 0.0) -> dict[str, Tensor]:
        """Images (b c h w), the captions of each in consecutive rows (b·n t+1) -> the named parts of the loss,
        summed."""
        cells = self.grid(images)  # (b s d)
        state = repeat_rows(self.decoder.start(self.into(cells), NO_MASK), len(captions) // max(1, len(images)))
        x, _ = self.features(captions[:, :-1], state)
        mask = captions[:, 1:] != pad
        parts = {"words": self.readout.loss(x[mask], captions[:, 1:][mask], smoothing=smoothing)}
        return parts if self.named is None else parts | {"named": self.named.loss(cells, captions[:, 1:])}

    def for_decoding(self, precision: Precision = "float32") -> GridTransformer:
        """Return an equivalent model for faster decoding on a CPU, a snapshot of the current weights; the model itself
        if it cannot be optimized."""
        return optimize_for_decoding(self, precision)


def build(
    grid: GridEncoder,
    feature_dim: int,
    shape: TransformerShape,
    sizes: CaptioningSpec,
    *,
    bag_of_words: BagOfWordsLoss | None = None,
) -> GridTransformer:
    """Return the decoder for a grid encoder whose cells have width `feature_dim`."""
    words = embedding_table(sizes.vocab_size, shape.dim, pad=sizes.special_tokens.pad)
    embedding = Embedding(
        words, positions.build("sinusoidal", shape.dim, max_length=sizes.max_length), dropout=shape.dropout
    )
    make_norm = partial(PreNorm, shape.dim, shape.dropout)
    layers = [
        Block(
            _heads(shape, "words", "read"),
            FeedForward(shape.dim, 2 * shape.dim),
            make_norm=make_norm,
            cross_attention=_heads(shape, "words", "cells"),
        )
        for _ in range(shape.layers)
    ]
    readout = Readout(shape.dim, sizes.vocab_size, bias=False)
    readout.weight = words.weight
    decoder = DecoderStack(embedding, layers, PreNorm.final_norm(shape.dim))
    return GridTransformer(
        grid, nn.Linear(feature_dim, shape.dim), decoder=decoder, readout=readout, bag_of_words=bag_of_words
    )


def _heads(shape: TransformerShape, queries: str, keys: str) -> MultiHeadAttention:
    dims = HeadDims.split_evenly(shape.dim, shape.heads)
    return MultiHeadAttention(Attend(scores.build(shape.score, dims.head_dim), queries=queries, keys=keys), dims)
