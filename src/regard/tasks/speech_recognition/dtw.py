"""Nearest neighbor by dynamic time warping (Sakoe and Chiba 1978), the classical recognizer of single words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.progress import track
from regard.data.speech.features import Features

GROUP_SIZE = 100  # templates that are compared at a time


class TemplateGroup(NamedTuple):
    """Templates of similar length, padded to the longest."""

    frames: NDArray[np.float32]  # (n s m)
    lengths: NDArray[np.int64]  # (n)
    indices: NDArray[np.int64]  # (n) of the templates in the full list


def nearest_templates(queries: Sequence[Features], templates: Sequence[Features]) -> list[int]:
    """Return the index of the template with the smallest warped distance to each query (t m)."""
    groups = _groups(templates)
    nearest = []
    for query in track(queries, total=len(queries)):
        distances = np.concatenate([warped_distances(query, group.frames, group.lengths) for group in groups])
        nearest.append(int(np.concatenate([group.indices for group in groups])[distances.argmin()]))
    return nearest


def _groups(templates: Sequence[Features]) -> list[TemplateGroup]:
    order = np.argsort([len(template) for template in templates], kind="stable")
    groups = []
    for low in range(0, len(order), GROUP_SIZE):
        indices = order[low : low + GROUP_SIZE]
        lengths = np.array([len(templates[i]) for i in indices], np.int64)
        frames = np.zeros((len(indices), int(lengths.max()), templates[0].shape[1]), np.float32)
        for row, index in enumerate(indices):
            frames[row, : lengths[row]] = templates[index]
        groups.append(TemplateGroup(frames, lengths, indices))
    return groups


def warped_distances(
    query: Features, templates: NDArray[np.float32], lengths: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Query (t m), padded templates (n s m) and their lengths -> distances (n), divided by the length of the path.

    Steps go to the next frame of the query, of the template, or of both. Anti-diagonals are computed at a time, for
    all templates.
    """
    (t, _), (n, s, _) = query.shape, templates.shape
    squares = (query**2).sum(axis=1)[:, None] + (templates**2).sum(axis=2)[:, None]  # (n t s)
    costs = np.sqrt(np.maximum(squares - 2 * (query @ templates.transpose(0, 2, 1)), 0))
    total = np.full((n, t + 1, s + 1), np.inf, np.float32)
    total[:, 0, 0] = 0
    for diagonal in range(t + s - 1):
        i = np.arange(max(0, diagonal - s + 1), min(t, diagonal + 1))
        j = diagonal - i
        best = np.minimum(np.minimum(total[:, i, j + 1], total[:, i + 1, j]), total[:, i, j])
        total[:, i + 1, j + 1] = costs[:, i, j] + best
    distances: NDArray[np.float32] = total[np.arange(n), t, lengths] / (t + lengths)
    return distances
