"""The k greatest entries of each row, exactly, fast on a CPU, ties by the lowest index.

`torch.topk` sorts more than it needs and breaks ties as it likes. Here the row is cut into blocks; the k greatest
entries lie in the k blocks with the greatest maxima, so only those are searched, by NumPy's vectorised argmax.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK_COLUMNS = 64  # columns whose maximum is taken at once
MAX_ARGMAX_K = 16  # up to so many entries, taking one maximum after the other beats sorting

Matrix = NDArray[np.floating]
Index = NDArray[np.int64]


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(r v) -> values and columns (r k), greatest first; as `torch.topk`, but of equal entries the leftmost first."""
    k = min(k, scores.shape[1])
    if k > MAX_ARGMAX_K or scores.device.type != "cpu":
        return _by_sorting(scores, k)
    matrix = scores.numpy()
    blocked = k > 1 and scores.shape[1] > 2 * k * BLOCK_COLUMNS
    columns = torch.from_numpy(_two_levels(matrix, k) if blocked else _one_by_one(matrix, k))
    return scores.gather(1, columns), columns


def _one_by_one(matrix: Matrix, k: int) -> Index:
    if k == 1:
        return np.asarray(matrix.argmax(axis=1)[:, None], dtype=np.int64)
    # What was taken becomes -inf; nothing else may be as low, or it would be taken twice.
    left = np.maximum(matrix, np.finfo(matrix.dtype).min)
    rows = np.arange(len(left))
    columns = np.empty((len(left), k), dtype=np.int64)
    for place in range(k):
        columns[:, place] = left.argmax(axis=1)
        left[rows, columns[:, place]] = -np.inf
    return columns


def _two_levels(matrix: Matrix, k: int) -> Index:
    rows, size = matrix.shape
    whole = (
        size // BLOCK_COLUMNS * BLOCK_COLUMNS
    )  # the columns after this are too few for a block: they are searched in any case
    blocks = matrix[:, :whole].reshape(rows, -1, BLOCK_COLUMNS)
    maxima = torch.from_numpy(blocks).amax(dim=2).numpy()
    winners = np.sort(_one_by_one(maxima, k), axis=1)  # left to right, so that ties stay in order
    searched = blocks[np.arange(rows)[:, None], winners].reshape(rows, -1)
    chosen = _one_by_one(np.concatenate([searched, matrix[:, whole:]], axis=1), k)
    inside = np.minimum(chosen, k * BLOCK_COLUMNS - 1)
    columns = np.take_along_axis(winners, inside // BLOCK_COLUMNS, axis=1) * BLOCK_COLUMNS + inside % BLOCK_COLUMNS
    return np.asarray(np.where(chosen < k * BLOCK_COLUMNS, columns, chosen - k * BLOCK_COLUMNS + whole), dtype=np.int64)


def _by_sorting(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    if k <= scores.shape[1] // 4:
        columns = scores.topk(k, dim=1).indices.sort(dim=1).values
        values, order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
        if bool(((scores >= values[:, -1:]).sum(dim=1) == k).all()):  # no tie at the edge, where topk takes any
            return values, columns.gather(1, order)
    values, columns = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k], columns[:, :k]
