"""Position schemes, one per file, registered by file name. Each file has `class Position(PositionScheme)`."""

from __future__ import annotations

from regard.core.registry import find
from regard.layers.positions._base import PositionScheme


def build(name: str, dim: int, *, max_length: int) -> PositionScheme:
    """Return a new scheme by name, for features of width `dim` and sequences up to `max_length` (the size of learned
    tables)."""
    scheme: PositionScheme = find("regard.layers.positions", name).Position(dim, max_length=max_length)
    return scheme
