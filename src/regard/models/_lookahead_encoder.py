"""Lookahead encoder: tokens that are fixed in advance are encoded bidirectionally and added to the features of every
position.

So a melody is harmonized with its next notes in view, and a gap is filled with both of its ends in view.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.masks import Mask
from regard.core.protocols import Padded
from regard.layers.block import Block

TOKEN_DIM = 32  # width of the embeddings of a window
WINDOW_DIM = 256  # hidden width of a window


class LookaheadEncoder(nn.Module):
    """Fixed tokens (b s), 0 for open positions -> features (b s d) added to those of each position."""

    def __init__(
        self,
        table: nn.Embedding,
        *,
        beat: nn.Module,
        layers: list[Block],
        final_norm: nn.Module,
        window: WindowEncoder | None = None,
    ) -> None:
        super().__init__()
        self.table, self.beat, self.last, self.window = table, beat, final_norm, window
        self.layers = nn.ModuleList(layers)

    def forward(self, fixed_tokens: Padded) -> Tensor:
        x = self.beat(self.table(fixed_tokens.tokens), 0)
        for layer in cast("Iterable[Block]", self.layers):
            x, _ = layer(x, Mask.lengths(fixed_tokens.lengths, fixed_tokens.tokens.shape[1]))
        has_fixed_tokens = (fixed_tokens.tokens != 0).any(dim=1)[:, None, None]  # pieces without get zeros
        features: Tensor = self.last(x)
        if self.window is not None:
            features = features + self.window(fixed_tokens.tokens)
        return features * has_fixed_tokens


class WindowEncoder(nn.Module):
    """Fixed tokens (b s) -> features (b s d): those of a few steps before and after, through one hidden layer.

    Attention has to find "the bass two steps ahead" among all positions; a window has it at a fixed place. It starts
    with zeros.
    """

    def __init__(self, vocab_size: int, dim: int, *, voices: int, window: tuple[int, int]) -> None:
        super().__init__()
        self.voices, (self.before, self.after) = voices, window
        self.table = nn.Embedding(vocab_size, TOKEN_DIM)
        self.hidden = nn.Linear((self.before + 1 + self.after) * voices * TOKEN_DIM, WINDOW_DIM)
        self.out = nn.Linear(WINDOW_DIM, voices * dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        steps = pad(tokens, (0, -length % self.voices)).unflatten(1, (-1, self.voices))  # (b steps voices)
        around = pad(steps, (0, 0, self.before, self.after)).unfold(1, self.before + 1 + self.after, 1)
        windows = self.table(around.mT).flatten(2)  # (b steps window·voices·e)
        of_voices = self.out(self.hidden(windows).relu()).unflatten(2, (self.voices, -1))
        features: Tensor = of_voices.flatten(1, 2)[:, :length]
        return features


def gather_positions(features: Tensor, start: Tensor | int, length: int) -> Tensor:
    """Features of every position (r s d) -> those of the positions from `start` on (r t d); zeros after the last."""
    positions = torch.arange(length, device=features.device) + (start[:, None] if isinstance(start, Tensor) else start)
    positions = positions.expand(len(features), length)
    is_valid = (positions >= 0) & (positions < features.shape[1])
    rows = torch.arange(len(features), device=features.device)[:, None]
    return features[rows, positions.clamp(0, max(0, features.shape[1] - 1))] * is_valid[..., None]
