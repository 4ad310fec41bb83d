"""Token embeddings: scaled and with positions (Vaswani et al. 2017, sections 3.4 and 3.5), scaled word vectors for
recurrent networks, and embeddings with word dropout."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.core.data_specs import SpecialTokens
from regard.layers.dropout import Dropout
from regard.layers.ngram_embedding import AROUND, NgramEmbedding
from regard.layers.positions._base import PositionScheme


class Embedding(nn.Module):
    """(b t) -> (b t d): √d · E[token] plus the position encoding; `scale` replaces √d."""

    def __init__(
        self, table: nn.Embedding, position: PositionScheme, *, dropout: float, scale: float | None = None
    ) -> None:
        super().__init__()
        self.table = table
        self.position = position
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(table.embedding_dim) if scale is None else scale

    def forward(self, tokens: Tensor, start: Tensor | int = 0) -> Tensor:
        x: Tensor = self.dropout(self.position(self.table(tokens) * self.scale, start))
        return x


class WordVectors(nn.Embedding):
    """(b t) -> (b t d): scale · E[token]. With √d the inputs of a recurrent network have unit variance, and tied logits
    are small."""

    def __init__(self, vocab_size: int, dim: int, *, pad: int, scale: float = 0.0) -> None:
        super().__init__(vocab_size, dim, padding_idx=pad)
        _init_table(self)
        self.scale = scale or math.sqrt(dim)

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) * self.scale


class WordDropoutEmbedding(nn.Module):
    """Tokens (b t) -> features (b t d), with word dropout: in training some tokens are replaced by UNK (Iyyer et al.
    2015, section 3). `ngrams` is the number of rows of a hashed table of the n-grams around each token; 0: no table."""

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        special_tokens: SpecialTokens,
        dropout: float,
        word_dropout: float,
        ngrams: int = 0,
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, dim, padding_idx=special_tokens.pad)
        nn.init.normal_(self.table.weight, std=0.1)
        nn.init.zeros_(self.table.weight[special_tokens.pad])
        self.unknown, self.word_dropout = special_tokens.unk, word_dropout
        self.dropout = Dropout(dropout)
        self.ngrams = (
            NgramEmbedding(ngrams, dim, patterns=AROUND, pad=special_tokens.pad, dropout=dropout) if ngrams else None
        )

    def forward(self, tokens: Tensor) -> Tensor:
        words = tokens
        if self.training and self.word_dropout:
            dropped = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            words = tokens.masked_fill(dropped, self.unknown)
        features: Tensor = self.dropout(self.table(words))
        return features if self.ngrams is None else features + self.ngrams(tokens)


def embedding_table(vocab_size: int, dim: int, *, pad: int) -> nn.Embedding:
    """Return a new table with a zero row for padding, initialized so that √d · E has unit variance and tied logits
    start small."""
    table = nn.Embedding(vocab_size, dim, padding_idx=pad)
    _init_table(table)
    return table


def _init_table(table: nn.Embedding) -> None:
    nn.init.normal_(table.weight, std=table.embedding_dim**-0.5)
    nn.init.zeros_(table.weight[table.padding_idx])
