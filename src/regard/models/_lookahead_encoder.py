"""Lookahead encoder: tokens that are fixed in advance are encoded bidirectionally and added to the features of every
position.

So a melody is harmonized with its next notes in view, and a gap is filled with both of its ends in view.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.core.protocols import Padded
from regard.layers.block import Block


class LookaheadEncoder(nn.Module):
    """Fixed tokens (b s), 0 for open positions -> features (b s d) added to those of each position."""

    def __init__(self, table: nn.Embedding, *, beat: nn.Module, layers: list[Block], final_norm: nn.Module) -> None:
        super().__init__()
        self.table, self.beat, self.last = table, beat, final_norm
        self.layers = nn.ModuleList(layers)

    def forward(self, fixed_tokens: Padded) -> Tensor:
        x = self.beat(self.table(fixed_tokens.tokens), 0)
        for layer in cast("Iterable[Block]", self.layers):
            x, _ = layer(x, Mask.lengths(fixed_tokens.lengths, fixed_tokens.tokens.shape[1]))
        has_fixed_tokens = (fixed_tokens.tokens != 0).any(dim=1)[:, None, None]  # pieces without get zeros
        features: Tensor = self.last(x) * has_fixed_tokens
        return features


def gather_positions(features: Tensor, start: Tensor | int, length: int) -> Tensor:
    """Features of every position (r s d) -> those of the positions from `start` on (r t d); zeros after the last."""
    positions = torch.arange(length, device=features.device) + (start[:, None] if isinstance(start, Tensor) else start)
    positions = positions.expand(len(features), length)
    is_valid = (positions >= 0) & (positions < features.shape[1])
    rows = torch.arange(len(features), device=features.device)[:, None]
    return features[rows, positions.clamp(0, max(0, features.shape[1] - 1))] * is_valid[..., None]
