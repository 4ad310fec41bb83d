"""Exact top-k per row, fast on a CPU; ties are resolved by the lowest index.

`torch.topk` sorts more than necessary and breaks ties arbitrarily. Here a row is split into blocks. The k largest
entries are in the k blocks with the largest maxima, so only those are searched, by NumPy's vectorized argmax.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK_COLUMNS = 64  # columns per block
MAX_ARGMAX_K = 16  # up to this k, repeated argmax is faster than sorting

Matrix = NDArray[np.floating]
Index = NDArray[np.int64]


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(r v) -> values and columns (r k), largest first; like `torch.topk`, but of equal entries the leftmost comes
    first."""
    k = min(k, scores.shape[1])
    if k > MAX_ARGMAX_K or scores.device.type != "cpu":
        return _by_sorting(scores, k)
    matrix = scores.numpy()
    blocked = k > 1 and scores.shape[1] > 2 * k * BLOCK_COLUMNS
    columns = torch.from_numpy(_two_levels(matrix, k) if blocked else _repeated_argmax(matrix, k))
    return scores.gather(1, columns), columns


def _repeated_argmax(matrix: Matrix, k: int) -> Index:
    if k == 1:
        return np.asarray(matrix.argmax(axis=1)[:, None], dtype=np.int64)
    # Selected entries become -inf; no other entry may be -inf, or it would be selected twice.
    remaining = np.maximum(matrix, np.finfo(matrix.dtype).min)
    rows = np.arange(len(remaining))
    columns = np.empty((len(remaining), k), dtype=np.int64)
    for rank in range(k):
        columns[:, rank] = remaining.argmax(axis=1)
        remaining[rows, columns[:, rank]] = -np.inf
    return columns


def _two_levels(matrix: Matrix, k: int) -> Index:
    rows, size = matrix.shape
    in_blocks = size // BLOCK_COLUMNS * BLOCK_COLUMNS  # the columns after these do not fill a block; always searched
    blocks = matrix[:, :in_blocks].reshape(rows, -1, BLOCK_COLUMNS)
    maxima = torch.from_numpy(blocks).amax(dim=2).numpy()
    best_blocks = np.sort(_repeated_argmax(maxima, k), axis=1)  # left to right, so that ties stay in order
    candidates = blocks[np.arange(rows)[:, None], best_blocks].reshape(rows, -1)
    selected = _repeated_argmax(np.concatenate([candidates, matrix[:, in_blocks:]], axis=1), k)
    block_columns = np.minimum(selected, k * BLOCK_COLUMNS - 1)
    columns = (
        np.take_along_axis(best_blocks, block_columns // BLOCK_COLUMNS, axis=1) * BLOCK_COLUMNS
        + block_columns % BLOCK_COLUMNS
    )
    return np.asarray(
        np.where(selected < k * BLOCK_COLUMNS, columns, selected - k * BLOCK_COLUMNS + in_blocks), dtype=np.int64
    )


def _by_sorting(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    if k <= scores.shape[1] // 4:
        columns = scores.topk(k, dim=1).indices.sort(dim=1).values
        values, order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
        if bool(((scores >= values[:, -1:]).sum(dim=1) == k).all()):  # no tie at the boundary, where topk takes any
            return values, columns.gather(1, order)
    values, columns = scores.sort(dim=1, descending=True, stable=True)
    return values[:, :k], columns[:, :k]
