"""The place as a fraction of the length: bounded, but a step means something else in every sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """p / longest. The length of a sentence is not known while it is being written, so the longest length stands for it
    where the sequence is read in chunks; `of_length` gives the textbook form."""

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor:
        return (positions[..., None].float() / self.longest).expand(*positions.shape, self.dim)

    def encode_sequence(self, length: int) -> Tensor:
        """(t d): the textbook's p / (t - 1), which needs the whole sentence."""
        return torch.linspace(0.0, 1.0, length)[:, None].expand(length, self.dim)
