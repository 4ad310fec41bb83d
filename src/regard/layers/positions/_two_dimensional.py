"""Positions in an image: the first half of the features encodes the row, the second half the column.

Parmar et al. 2018, section 3.1: coordinates with sinusoidal or learned encodings; any scheme that is added to the
features can be used.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.layers import positions


class Position2D(nn.Module):
    """Rows and columns (…) -> (… d)."""

    def __init__(self, name: str, dim: int, *, height: int, width: int) -> None:
        super().__init__()
        self.dim, self.height, self.width = dim, height, width
        self.rows = positions.build(name, dim // 2, max_length=height)
        self.columns = positions.build(name, dim - dim // 2, max_length=width)
        if self.rows.position_bias(heads=1, dim=2) is not None:
            raise ConfigError(
                f"position={name!r} is one-dimensional and inside the score; for rows and columns choose one that is "
                "added to the features: sinusoidal, learned …"
            )

    def forward(self, rows: Tensor, columns: Tensor) -> Tensor:
        down, across = self.rows.encode(rows, self.height), self.columns.encode(columns, self.width)
        if down is None or across is None:
            return torch.zeros(*rows.shape, self.dim, device=rows.device)
        return torch.cat([down, across], dim=-1)

    def encode_raster(self) -> Tensor:
        """(height·width d): encodings of all positions, row by row."""
        device = next((p.device for p in self.parameters()), None)
        indices = torch.arange(self.height * self.width, device=device)
        encoded: Tensor = self(indices // self.width, indices % self.width)
        return encoded
