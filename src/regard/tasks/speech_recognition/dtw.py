"""Nearest neighbor by dynamic time warping (Sakoe and Chiba 1978), the classical recognizer of single words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.core.progress import track
from regard.data.speech.features import Features


def nearest_templates(queries: Sequence[Features], templates: Sequence[Features]) -> list[int]:
    """Return the index of the template with the smallest warped distance to each query (t m)."""
    lengths = np.array([len(template) for template in templates])
    padded = np.zeros((len(templates), lengths.max(), templates[0].shape[1]), np.float32)
    for row, template in enumerate(templates):
        padded[row, : len(template)] = template
    squares = (padded**2).sum(axis=2)
    return [
        int(warped_distances(query, padded, squares, lengths).argmin()) for query in track(queries, total=len(queries))
    ]


def warped_distances(
    query: Features, templates: NDArray[np.float32], squares: NDArray[np.float32], lengths: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Query (t m) and padded templates (n s m) with their squared norms (n s) -> distances (n) per step of the path.

    Steps go to the next frame of the query, of the template, or of both. Anti-diagonals are computed at a time, for
    all templates.
    """
    (t, _), (n, s, _) = query.shape, templates.shape
    costs = (query**2).sum(axis=1)[None, :, None] + squares[:, None] - 2 * np.einsum("tm,nsm->nts", query, templates)
    total = np.full((n, t + 1, s + 1), np.inf, np.float32)
    total[:, 0, 0] = 0
    for diagonal in range(t + s - 1):
        i = np.arange(max(0, diagonal - s + 1), min(t, diagonal + 1))
        j = diagonal - i
        best = np.minimum(np.minimum(total[:, i, j + 1], total[:, i + 1, j]), total[:, i, j])
        total[:, i + 1, j + 1] = np.sqrt(np.maximum(costs[:, i, j], 0)) + best
    distances: NDArray[np.float32] = total[np.arange(n), t, lengths] / (t + lengths)
    return distances
