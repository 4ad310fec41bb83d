"""Widths that must agree."""

from __future__ import annotations

from regard.core.errors import ShapeError


def same(score: str, dim: int, key_dim: int | None) -> int:
    """The common width, or an error: an inner product needs one."""
    if key_dim is not None and key_dim != dim:
        raise ShapeError(
            f"score {score!r}: queries have width {dim} but keys {key_dim}; "
            "project them to one width (W_Q, W_K) or use 'general'"
        )
    return dim
