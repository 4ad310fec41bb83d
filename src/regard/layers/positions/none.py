"""No positions: self-attention treats the sequence as a set."""

from __future__ import annotations

from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """Adds nothing."""
