"""Position schemes, one a file, found by the file's name. Each has `class Position(PositionScheme)`."""

from __future__ import annotations

from regard.core.registry import find
from regard.layers.positions._base import PositionScheme


def build(name: str, dim: int, *, max_length: int) -> PositionScheme:
    """A fresh scheme by name, for features of width `dim` and sequences up to `longest` (learned tables end there)."""
    scheme: PositionScheme = find("regard.layers.positions", name).Position(dim, max_length=max_length)
    return scheme
