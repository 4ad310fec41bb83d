"""Upscaling of a large image in tiles: overlapping parts of the model's input size, blended where they overlap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import DataError
from regard.data.images.image_files import Pixels

OVERLAP = 4  # neighbouring tiles share 1 / OVERLAP of their side
MAX_TILES = 256  # of one image: a tile takes about as long as one new image


class TileGrid(NamedTuple):
    """Positions of equal tiles in an image, and the factors by which rows and columns are multiplied."""

    tops: tuple[int, ...]
    lefts: tuple[int, ...]
    tile: tuple[int, int]  # rows and columns of a tile
    factors: tuple[int, int]

    def __len__(self) -> int:
        return len(self.tops) * len(self.lefts)

    def cut(self, pixels: Pixels) -> Pixels:
        """Image (h w c) -> its tiles (n rows columns c), row by row."""
        rows, columns = self.tile
        return np.stack([pixels[top : top + rows, left : left + columns] for top in self.tops for left in self.lefts])

    def join(self, tiles: Pixels) -> Pixels:
        """Upscaled tiles (n rows columns c) -> the upscaled image (h w c); overlaps are weighted means."""
        rows, columns = (size * factor for size, factor in zip(self.tile, self.factors, strict=True))
        height = self.tops[-1] * self.factors[0] + rows
        width = self.lefts[-1] * self.factors[1] + columns
        weights = np.outer(_ramp(rows), _ramp(columns))[:, :, None]
        sums, totals = np.zeros((height, width, tiles.shape[-1])), np.zeros((height, width, 1))
        corners = [(top, left) for top in self.tops for left in self.lefts]
        for (top, left), tile in zip(corners, tiles, strict=True):
            y, x = top * self.factors[0], left * self.factors[1]
            sums[y : y + rows, x : x + columns] += weights * tile
            totals[y : y + rows, x : x + columns] += weights
        return np.rint(sums / totals).astype(np.uint8)


def tile_grid(name: str, size: tuple[int, int], sizes: ImageGenerationSpec) -> TileGrid:
    """Return the tiles of an image of a size (rows, columns), at least as large as a tile; too many are an error."""
    tops, lefts = (_starts(length, tile) for length, tile in zip(size, sizes.low_res_size, strict=True))
    factors = sizes.height // sizes.low_res_size[0], sizes.width // sizes.low_res_size[1]
    grid = TileGrid(tops, lefts, sizes.low_res_size, factors)
    if len(grid) > MAX_TILES:
        tile = "x".join(map(str, grid.tile))
        raise DataError(
            f"{name}: {size[0]}x{size[1]} pixels are {len(grid):,} tiles of {tile}, more than {MAX_TILES}; "
            f"scale it down first, for example to {_largest(grid.tile)} pixels"
        )
    return grid


def _starts(length: int, tile: int) -> tuple[int, ...]:
    """Return the starts of overlapping tiles; the last tile ends at the edge."""
    step = max(1, tile - tile // OVERLAP)
    return (*range(0, length - tile, step), length - tile)


def _largest(tile: tuple[int, int]) -> str:
    """Return the largest size with as many tiles along both sides."""
    per_side = int(MAX_TILES**0.5)
    return "x".join(str(side + (per_side - 1) * max(1, side - side // OVERLAP)) for side in tile)


def _ramp(length: int) -> NDArray[np.float64]:
    """Return weights that rise from the edges of a tile to its middle."""
    distance = np.minimum(np.arange(length), np.arange(length)[::-1]) + 1.0
    return np.minimum(distance, max(1.0, length / OVERLAP))
