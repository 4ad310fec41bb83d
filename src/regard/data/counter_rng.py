"""Counter-based random numbers for many rows at the same time: SplitMix64, Steele et al. 2014."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.core.protocols import Indices

STEP = np.uint64(0x9E3779B97F4A7C15)
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def uniform(keys: Indices, count: int) -> NDArray[np.float64]:
    """Keys (r) -> `count` random numbers in [0, 1) for each key (r count), independent of the other keys."""
    with np.errstate(over="ignore"):  # products are meant to wrap modulo 2^64
        seeds = _mix(keys.astype(np.uint64) * FACTORS[0] + STEP)
        offsets = np.arange(1, count + 1, dtype=np.uint64) * STEP
        bits = _mix(seeds[:, None] + offsets) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * FACTORS[0]
    x = (x ^ (x >> np.uint64(27))) * FACTORS[1]
    return x ^ (x >> np.uint64(31))
