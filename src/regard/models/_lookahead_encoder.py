"""Sight of what is to come: tokens of a piece that are given beforehand are read in both directions, and every place is
told what it should know of them. So a tune is harmonised with its next notes in view, a gap with both of its ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.core.protocols import Padded
from regard.layers.block import Block


class LookaheadEncoder(nn.Module):
    """Tokens (b s), 0 where a place is open -> (b s d), what is added to the features of each place."""

    def __init__(self, table: nn.Embedding, *, beat: nn.Module, layers: list[Block], final_norm: nn.Module) -> None:
        super().__init__()
        self.table, self.beat, self.last = table, beat, final_norm
        self.layers = nn.ModuleList(layers)

    def forward(self, fixed_tokens: Padded) -> Tensor:
        x = self.beat(self.table(fixed_tokens.tokens), 0)
        for layer in cast("Iterable[Block]", self.layers):
            x, _ = layer(x, Mask.lengths(fixed_tokens.lengths, fixed_tokens.tokens.shape[1]))
        something = (fixed_tokens.tokens != 0).any(dim=1)[
            :, None, None
        ]  # a piece of which nothing is given is told nothing
        seen: Tensor = self.last(x) * something
        return seen


def gather_positions(features: Tensor, start: Tensor | int, length: int) -> Tensor:
    """What every place is told (r s d) -> (r t d) that of the places from `start` on; nothing beyond the last."""
    places = torch.arange(length, device=features.device) + (start[:, None] if isinstance(start, Tensor) else start)
    places = places.expand(len(features), length)
    inside = (places >= 0) & (places < features.shape[1])
    rows = torch.arange(len(features), device=features.device)[:, None]
    return features[rows, places.clamp(0, max(0, features.shape[1] - 1))] * inside[..., None]
