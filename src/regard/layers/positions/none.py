"""No positions: self-attention then sees a set."""

from __future__ import annotations

from regard.layers.positions._base import PositionScheme


class Position(PositionScheme):
    """Adds nothing."""
