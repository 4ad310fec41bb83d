"""Scores, one per module, registered by file name.

Each module has `class Score(ScoreFunction)`, which is built from the widths of queries and keys.
"""

from __future__ import annotations

import torch

from regard.attention.score import ScoreFunction
from regard.core.registry import find


def build(name: str, dim: int, key_dim: int | None = None) -> ScoreFunction:
    """Build a score by name, for queries of width `dim` and keys of width `key_dim` (default: `dim`)."""
    score: ScoreFunction = _score_class(name)(dim, key_dim)
    score.built_for = (dim, dim if key_dim is None else key_dim)
    return score


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch's stub; a compiler cannot list folders
def _score_class(name: str) -> type[ScoreFunction]:
    score_class: type[ScoreFunction] = find("regard.attention.scores", name).Score
    return score_class
