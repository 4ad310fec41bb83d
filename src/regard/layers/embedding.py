"""Tokens to features, places included: Vaswani et al. 2017, sections 3.4 and 3.5."""

from __future__ import annotations

import math

from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.position import PositionScheme


class Embedding(nn.Module):
    """(b t) -> (b t d): √d · E[token], with its place; another scale than √d where one is given."""

    def __init__(
        self, table: nn.Embedding, position: PositionScheme, *, dropout: float, scale: float | None = None
    ) -> None:
        super().__init__()
        self.table = table
        self.position = position
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(table.embedding_dim) if scale is None else scale

    def forward(self, tokens: Tensor, start: Tensor | int = 0) -> Tensor:
        placed: Tensor = self.dropout(self.position(self.table(tokens) * self.scale, start))
        return placed


class WordVectors(nn.Embedding):
    """(b t) -> (b t d): scale · E[token]. By √d a recurrent network reads unit variance, and tied logits are small."""

    def __init__(self, size: int, dim: int, *, pad: int, scale: float = 0.0) -> None:
        super().__init__(size, dim, padding_idx=pad)
        _begin(self)
        self.scale = scale or math.sqrt(dim)

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) * self.scale


def table(size: int, dim: int, *, pad: int) -> nn.Embedding:
    """A fresh table with a zero row for padding, sized so that √d · E has unit variance and tied logits start small."""
    fresh = nn.Embedding(size, dim, padding_idx=pad)
    _begin(fresh)
    return fresh


def _begin(table: nn.Embedding) -> None:
    nn.init.normal_(table.weight, std=table.embedding_dim**-0.5)
    nn.init.zeros_(table.weight[table.padding_idx])
