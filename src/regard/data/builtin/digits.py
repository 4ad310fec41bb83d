"""Handwritten digits of scikit-learn: 1,797 images of 8x8 with 17 levels (Alpaydin and Kaynak 1998)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from regard.core.extras import require

SIDE = 8
LEVELS = 17  # 0 … 16 pixels set in a block of 4x4


@lru_cache(maxsize=1)
def load() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return pixels (n 8 8 1), brightness 0 … 255 in 17 levels, and labels (n)."""
    dataset = require("sklearn.datasets", extra="vision").load_digits()
    pixels = np.rint(dataset.images * (255 / (LEVELS - 1))).astype(np.uint8)
    return pixels[..., None], dataset.target.astype(np.int64)
