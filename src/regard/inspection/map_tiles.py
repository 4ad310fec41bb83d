"""Pack arrays for JSON in base64: attention maps as tiles of a max-pooled pyramid, other arrays as float32.

Weights are rounded to 24 bits, as precise as float32 near 1: every displayed value is the weight rounded to four
decimals, also in means over heads. A map larger than one tile is stored at several levels, each a 2 × 2 max pooling of
the previous one. So a page paints the coarse image immediately and unpacks fine tiles only where the user zooms in.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 256
WEIGHT_SCALE = (1 << 24) - 1
FloatArray = NDArray[np.float32]
QuantizedWeights = NDArray[np.uint32]
BoolArray = NDArray[np.bool_]


@dataclass
class Budget:
    """Remaining size of a page in base64 characters. Levels that do not fit are omitted, the finest first."""

    remaining: int = 40_000_000

    def reserve(self, size: int) -> bool:
        """Reserve `size` characters; return False if they do not fit."""
        if size > self.remaining:
            return False
        self.remaining -= size
        return True


def quantize(weights: FloatArray) -> QuantizedWeights:
    """Weights (…) -> the nearest multiples of 1/(2^24 - 1)."""
    return np.clip(np.rint(weights.astype(np.float64) * WEIGHT_SCALE), 0, WEIGHT_SCALE).astype(np.uint32)


def pool(weights: QuantizedWeights) -> QuantizedWeights:
    """(t s) -> (⌈t/2⌉ ⌈s/2⌉): 2 × 2 max pooling."""
    t, s = weights.shape
    padded = np.pad(weights, ((0, t % 2), (0, s % 2)))
    pooled: QuantizedWeights = padded.reshape(padded.shape[0] // 2, 2, padded.shape[1] // 2, 2).max(axis=(1, 3))
    return pooled


def pyramid(weights: QuantizedWeights) -> list[QuantizedWeights]:
    """Return all levels of one head, from full resolution to the first that fits into one tile."""
    levels = [weights]
    while max(levels[-1].shape) > TILE:
        levels.append(pool(levels[-1]))
    return levels


def pack_tile(level: QuantizedWeights, i: int, j: int) -> str | None:
    """Return a tile as deflated bytes in base64, all highest bytes first; None if all weights are zero."""
    tile = level[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
    if not tile.any():
        return None
    planes = b"".join(((tile >> shift) & 255).astype(np.uint8).tobytes() for shift in (16, 8, 0))
    return base64.b64encode(zlib.compress(planes, 6)).decode("ascii")


def pack_head(weights: QuantizedWeights, *, budget: Budget) -> dict[str, Any]:
    """Pack one head (t s) as levels of tiles. A level over the budget has no tiles; the coarsest always has."""
    levels: list[dict[str, Any]] = []
    for level in reversed(pyramid(weights)):
        tiles = _pack_level(level) if not levels or levels[0]["tiles"] is not None else None
        size = sum(len(tile or "") for row in tiles or [] for tile in row)
        fits = tiles is not None and (budget.reserve(size) or not levels)
        levels.insert(0, {"shape": list(level.shape), "tiles": tiles if fits else None})
    return {"levels": levels}


def _pack_level(level: QuantizedWeights) -> list[list[str | None]]:
    num_rows, num_columns = (-(-size // TILE) for size in level.shape)
    return [[pack_tile(level, i, j) for j in range(num_columns)] for i in range(num_rows)]


def pack_map(weights: FloatArray, *, budget: Budget) -> dict[str, Any]:
    """(h t s) -> JSON of the weights of a map."""
    return {
        "shape": list(weights.shape),
        "tile": TILE,
        "heads": [pack_head(quantize(head), budget=budget) for head in weights],
    }


def pack_floats(values: Any) -> dict[str, Any]:
    """Array -> shape and deflated float32 in base64: all highest bytes, then the next, down to the lowest."""
    array = np.ascontiguousarray(values, dtype="<f4")
    words = array.view("<u4")
    planes = b"".join(((words >> shift) & 255).astype(np.uint8).tobytes() for shift in (24, 16, 8, 0))
    return {"shape": list(array.shape), "data": base64.b64encode(zlib.compress(planes, 6)).decode("ascii")}


def pack_bits(bits: BoolArray) -> dict[str, Any]:
    """Boolean array -> shape and packed bits, deflated, in base64."""
    packed = zlib.compress(np.packbits(bits).tobytes(), 6)
    return {"shape": list(bits.shape), "data": base64.b64encode(packed).decode("ascii")}
