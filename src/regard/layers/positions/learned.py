"""Learned positions, one vector per position: Gehring et al. 2017, section 3.1. The table ends at `max_length`."""

from __future__ import annotations

from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """A row of a learned table."""

    def __init__(self, dim: int, *, max_length: int) -> None:
        super().__init__(dim, max_length=max_length)
        self.table = nn.Embedding(max_length, dim)
        nn.init.normal_(self.table.weight, std=dim**-0.5)

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor:
        end = (int(length.max()) if length.numel() else 0) if isinstance(length, Tensor) else length
        if end > self.longest:
            raise ShapeError(
                f"learned positions end at length {self.longest} but the sequence has {end}; "
                "train with longer sequences or use sinusoidal, relative or rotary positions"
            )
        row: Tensor = self.table(positions)
        return row
