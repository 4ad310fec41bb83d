"""Ranks with ties: equal scores share the middle rank, so that a constant score gains nothing.

All metrics that rank use these two functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def middle_ranks(values: Any) -> NDArray[np.float64]:
    """Values (n) -> ranks from 1, the smallest value first; equal values share their mean rank."""
    _, group, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[group], dtype=np.float64)


def rank_among(target_scores: Tensor, other_scores: Tensor) -> Tensor:
    """Scores of targets (m) and of the items that each competes with (m n) -> ranks from 1, the best score first.

    A target that ties with k items has the middle of the k + 1 ranks.
    """
    above = (other_scores > target_scores[:, None]).sum(dim=1)
    equal = (other_scores == target_scores[:, None]).sum(dim=1)
    return 1 + above + equal / 2
