"""Projection of vectors to two dimensions, by PCA and, if possible, by t-SNE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import MissingExtra
from regard.core.extras import require

Array = NDArray[Any]
MIN_PERPLEXITY, MAX_PERPLEXITY = 2.0, 30.0  # t-SNE: a third of the points, within these bounds
DUPLICATE_RTOL = 1e-6  # vectors whose spread is below this fraction of their norm are duplicates: t-SNE crashes on them


def project_2d(vectors: Array) -> dict[str, Array]:
    """Vectors (n d) -> points (n 2) by method: "PCA", and "t-SNE" if possible.

    t-SNE needs scikit-learn and enough vectors that are not all equal.
    """
    points, spread = pca_2d(vectors)
    projections = {"PCA": points}
    perplexity = min(MAX_PERPLEXITY, (len(vectors) - 1) / 3)
    if perplexity < MIN_PERPLEXITY or not spread > DUPLICATE_RTOL * np.linalg.norm(vectors):
        return projections
    try:
        manifold = require("sklearn.manifold", extra="plots")
    except MissingExtra:
        return projections
    tsne = manifold.TSNE(metric="cosine", perplexity=perplexity, init="pca", random_state=0, max_iter=300)
    return projections | {"t-SNE": np.asarray(tsne.fit_transform(vectors), dtype=np.float32)}


def pca_2d(vectors: Array) -> tuple[Array, float]:
    """Vectors (n d) -> points (n 2) by PCA, and the first singular value of the centered vectors."""
    centered = vectors - vectors.mean(axis=0)
    _, singular_values, axes = np.linalg.svd(centered, full_matrices=False)
    points = np.pad(centered @ axes[:2].T, ((0, 0), (0, 2 - len(axes[:2])))).astype(np.float32)
    return points, float(singular_values[0])
