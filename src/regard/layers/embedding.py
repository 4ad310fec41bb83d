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


def table(size: int, dim: int, *, pad: int) -> nn.Embedding:
    """A fresh table with a zero row for padding, sized so that √d · E has unit variance and tied logits start small."""
    fresh = nn.Embedding(size, dim, padding_idx=pad)
    nn.init.normal_(fresh.weight, std=dim**-0.5)
    nn.init.zeros_(fresh.weight[pad])
    return fresh
