"""Random numbers that follow from a number alone, many rows at once: SplitMix64, Steele et al. 2014."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.core.protocols import Indices

STEP = np.uint64(0x9E3779B97F4A7C15)
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def uniform(keys: Indices, count: int) -> NDArray[np.float64]:
    """Numbers (r) -> for each `count` numbers from [0, 1) (r count), whatever other numbers there are."""
    with np.errstate(over="ignore"):  # products modulo 2^64 are what is meant
        seeds = _mixed(keys.astype(np.uint64) * FACTORS[0] + STEP)
        places = np.arange(1, count + 1, dtype=np.uint64) * STEP
        bits = _mixed(seeds[:, None] + places) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * FACTORS[0]
    x = (x ^ (x >> np.uint64(27))) * FACTORS[1]
    return x ^ (x >> np.uint64(31))
