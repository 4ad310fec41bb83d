"""The position itself, 0, 1, 2, …, added to every feature: unique, but unbounded."""

from __future__ import annotations

from torch import Tensor

from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """The position p in every feature."""

    def encode(self, positions: Tensor, length: Tensor | int) -> Tensor:
        return positions[..., None].float().expand(*positions.shape, self.dim)
