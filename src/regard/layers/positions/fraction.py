"""The position as a fraction of the length: bounded, but the size of a step depends on the sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """p / max_length. The length of a sentence is unknown during generation, so the maximum length replaces it when a
    sequence is read in chunks. `encode_sequence` is the textbook form."""

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor:
        return (positions[..., None].float() / self.longest).expand(*positions.shape, self.dim)

    def encode_sequence(self, length: int) -> Tensor:
        """(t d): the textbook form p / (t - 1), which needs the complete sentence."""
        return torch.linspace(0.0, 1.0, length)[:, None].expand(length, self.dim)
