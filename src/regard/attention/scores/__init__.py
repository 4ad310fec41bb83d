"""One score a file, found by the file's name. Each has `class Score(ScoreFunction)`, made with (query, key width)."""

from __future__ import annotations

import torch

from regard.attention.score import ScoreFunction
from regard.core.registry import find


def build(name: str, dim: int, key_dim: int | None = None) -> ScoreFunction:
    """A fresh score by name, for queries of width `dim` and keys of width `key_dim` (default: the same)."""
    score: ScoreFunction = _kind(name)(dim, key_dim)
    return score


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch's stub; a compiler lists no folders
def _kind(name: str) -> type[ScoreFunction]:
    kind: type[ScoreFunction] = find("regard.attention.scores", name).Score
    return kind
