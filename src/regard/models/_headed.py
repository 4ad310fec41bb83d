"""The right head upon an encoder, by the family of sizes: labels for documents, tags for units."""

from __future__ import annotations

from typing import Literal

from torch import nn

from regard.core.sizes import Documents, Tagged
from regard.models._heads import Classifier, Tagger


def headed(
    encoder: nn.Module, dim: int, sizes: Documents | Tagged, *, output: Literal["crf", "softmax"], dropout: float
) -> Classifier | Tagger:
    """An encoder of features of width `dim` -> the model that labels or tags what the sizes are of."""
    if isinstance(sizes, Documents):
        return Classifier(encoder, dim, sizes, dropout=dropout)
    return Tagger(encoder, dim, sizes, output=output, dropout=dropout)
