"""Numbers to text: attention maps as tiles of a max-pooled pyramid, other arrays as float32, all in base64 for JSON.

Weights are kept as 16-bit parts of one: every shown number is right to four decimals, and every row keeps its exact
sum. A map larger than one tile is kept at several levels, each the largest of 2 × 2 cells of the one below, so that a
page paints the coarse picture at once and unpacks fine tiles only where somebody looks.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TILE = 256
WEIGHT_SCALE = 65535
FloatArray = NDArray[np.float32]
QuantizedWeights = NDArray[np.uint16]
BoolArray = NDArray[np.bool_]


@dataclass
class Budget:
    """How many characters of base64 may still be written; what does not fit is left out, coarsest levels last."""

    remaining: int = 40_000_000

    def reserve(self, size: int) -> bool:
        """Whether `size` more characters fit; if so they are counted."""
        if size > self.remaining:
            return False
        self.remaining -= size
        return True


def quantize(weights: FloatArray) -> QuantizedWeights:
    """(… s) weights -> 65535ths, rounded so that each row keeps its sum (the rounded running sum is cut into steps)."""
    running = np.rint(np.cumsum(weights.astype(np.float64) * WEIGHT_SCALE, axis=-1))
    return np.clip(np.diff(running, axis=-1, prepend=0.0), 0, WEIGHT_SCALE).astype(np.uint16)


def pool(parts: QuantizedWeights) -> QuantizedWeights:
    """(t s) -> (⌈t/2⌉ ⌈s/2⌉): the largest of each 2 × 2 cells."""
    t, s = parts.shape
    padded = np.pad(parts, ((0, t % 2), (0, s % 2)))
    pooled: QuantizedWeights = padded.reshape(padded.shape[0] // 2, 2, padded.shape[1] // 2, 2).max(axis=(1, 3))
    return pooled


def pyramid(parts: QuantizedWeights) -> list[QuantizedWeights]:
    """All levels of one head, from every cell to the first that fits in one tile."""
    levels = [parts]
    while max(levels[-1].shape) > TILE:
        levels.append(pool(levels[-1]))
    return levels


def pack_tile(level: QuantizedWeights, i: int, j: int) -> str | None:
    """One tile as text: deflated high bytes, then low bytes; None where all is zero (half of a causal map)."""
    tile = level[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
    if not tile.any():
        return None
    planes = (tile >> 8).astype(np.uint8).tobytes() + (tile & 255).astype(np.uint8).tobytes()
    return base64.b64encode(zlib.compress(planes, 6)).decode("ascii")


def pack_head(parts: QuantizedWeights, *, budget: Budget) -> dict[str, Any]:
    """One head (t s) as levels of tiles. A level that does not fit the budget has no tiles; the coarsest always has."""
    levels: list[dict[str, Any]] = []
    for level in reversed(pyramid(parts)):
        tiles = _pack_level(level) if not levels or levels[0]["tiles"] is not None else None
        size = sum(len(tile or "") for row in tiles or [] for tile in row)
        fits = tiles is not None and (budget.reserve(size) or not levels)
        levels.insert(0, {"shape": list(level.shape), "tiles": tiles if fits else None})
    return {"levels": levels}


def _pack_level(level: QuantizedWeights) -> list[list[str | None]]:
    down, across = (-(-size // TILE) for size in level.shape)
    return [[pack_tile(level, i, j) for j in range(across)] for i in range(down)]


def pack_map(weights: FloatArray, *, budget: Budget) -> dict[str, Any]:
    """(h t s) -> the part of the JSON that holds a map's numbers."""
    return {
        "shape": list(weights.shape),
        "tile": TILE,
        "heads": [pack_head(quantize(head), budget=budget) for head in weights],
    }


def pack_floats(values: Any) -> dict[str, Any]:
    """Any array -> shape and little-endian float32 in base64."""
    array = np.ascontiguousarray(values, dtype="<f4")
    return {"shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode("ascii")}


def pack_bits(bits: BoolArray) -> dict[str, Any]:
    """Any array of yes and no -> shape and eight of them a byte, deflated, in base64."""
    packed = zlib.compress(np.packbits(bits).tobytes(), 6)
    return {"shape": list(bits.shape), "data": base64.b64encode(packed).decode("ascii")}
