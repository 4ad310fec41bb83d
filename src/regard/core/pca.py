"""Vectors of many numbers as points on a page: by PCA, and by t-SNE where that can be computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import MissingExtra
from regard.core.extras import require

Array = NDArray[Any]
LEAST, MOST = 2.0, 30.0  # neighbours that t-SNE looks for: a third of the points, within these
DUPLICATE_RTOL = 1e-6  # vectors that differ by less than this share of their size are one point: t-SNE crashes on them


def project_2d(vectors: Array) -> dict[str, Array]:
    """Vectors (n d) -> points (n 2) by PCA and, where scikit-learn is there, enough of them and unlike, by t-SNE."""
    points, spread = pca_2d(vectors)
    flat = {"PCA": points}
    few = min(MOST, (len(vectors) - 1) / 3)
    if few < LEAST or not spread > DUPLICATE_RTOL * np.linalg.norm(vectors):
        return flat
    try:
        manifold = require("sklearn.manifold", extra="plots")
    except MissingExtra:
        return flat
    tsne = manifold.TSNE(metric="cosine", perplexity=few, init="pca", random_state=0, max_iter=300)
    return flat | {"t-SNE": np.asarray(tsne.fit_transform(vectors), dtype=np.float32)}


def pca_2d(vectors: Array) -> tuple[Array, float]:
    """Vectors (n d) -> points (n 2) by PCA, and how far they spread along the first axis."""
    centred = vectors - vectors.mean(axis=0)
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    points = np.pad(centred @ axes[:2].T, ((0, 0), (0, 2 - len(axes[:2])))).astype(np.float32)
    return points, float(spread[0])
