"""Hashed n-gram embeddings: features of a token from its neighbors, without a vocabulary of n-grams.

Bojanowski et al. 2017, section 3.2 hash character n-grams into a table of fixed size. A linear model over n-grams is
the strongest simple baseline for tagging and classification; this layer gives a network the same features.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor, nn

from regard.layers.dropout import Dropout

Pattern = tuple[int, ...]  # offsets of the tokens of an n-gram, relative to the current token

AROUND: tuple[Pattern, ...] = (
    (-1, 0),
    (0, 1),
    (-2, -1, 0),
    (-1, 0, 1),
    (0, 1, 2),
)  # bigrams and trigrams around a token
BEFORE: tuple[Pattern, ...] = ((-1, 0), (-2, -1, 0), (-3, -2, -1, 0))  # n-grams that end in the token: causal

MULTIPLIER = 0x5851F42D4C957F2D  # of a linear congruential generator: neighboring ids are far apart after it


class NgramEmbedding(nn.Module):
    """Tokens (b t) -> the sum of the embeddings of the n-grams around each token (b t d).

    Rows start at zero, so that an n-gram that never occurs in training adds nothing (except for hash collisions).
    """

    def __init__(
        self, rows: int, dim: int, *, patterns: tuple[Pattern, ...], pad: int, dropout: float, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, dim)
        nn.init.zeros_(self.table.weight)
        self.patterns, self.pad, self.scale = patterns, pad, scale
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        rows = hash_ngrams(tokens, self.patterns, self.table.num_embeddings, pad=self.pad)
        features: Tensor = self.dropout(self.table(rows)).sum(dim=0) * self.scale  # (n b t d) -> (b t d)
        return features

    def padding(self, tokens: Tensor) -> Tensor:
        """Tokens (b …) -> padding (b n) of the length that the longest n-gram reads before a token."""
        before = -min(min(pattern) for pattern in self.patterns)
        return tokens.new_full((len(tokens), before), self.pad)


def hash_ngrams(tokens: Tensor, patterns: tuple[Pattern, ...], num_rows: int, *, pad: int) -> Tensor:
    """Tokens (b t) -> the table row of the n-gram of each pattern at each token (n b t)."""
    return torch.stack([_hash(tokens, pattern, salt, pad=pad) for salt, pattern in enumerate(patterns)]).remainder(
        num_rows
    )


def _hash(tokens: Tensor, pattern: Pattern, salt: int, *, pad: int) -> Tensor:
    hashed = reduce(
        lambda state, offset: (state + shift(tokens, offset, pad)) * MULTIPLIER + 1,
        pattern,
        torch.full_like(tokens, salt),
    )
    return hashed >> 24  # the high bits of a multiplicative hash are the well-mixed ones


def shift(tokens: Tensor, offset: int, pad: int) -> Tensor:
    """Return, at each position of (b t), the token `offset` positions later; `pad` outside the text."""
    length = tokens.shape[1]
    distance = min(abs(offset), length)
    filler = tokens.new_full((len(tokens), distance), pad)
    if offset < 0:
        return torch.cat([filler, tokens[:, : length - distance]], dim=1)
    return torch.cat([tokens[:, distance:], filler], dim=1)
