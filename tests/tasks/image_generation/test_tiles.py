"""Tiles: they cover the image, and joining unchanged tiles gives the image back."""

import numpy as np
import pytest

from regard.core.data_specs import ImageGenerationSpec
from regard.tasks.image_generation.tiles import tile_grid

SIZES = ImageGenerationSpec(height=8, width=16, channels=3, levels=4, num_classes=0, low_res_size=(8, 8))


@pytest.mark.parametrize("size", [(8, 8), (9, 8), (20, 31), (64, 8)])
def test_joined_tiles_are_the_image(size):
    image = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    grid = tile_grid("a.png", size, SIZES)
    tiles = grid.cut(image)
    assert tiles.shape == (len(grid), 8, 8, 3)
    joined = grid.join(tiles.repeat(2, axis=2))  # twice as wide: every column is repeated
    assert np.array_equal(joined, image.repeat(2, axis=1))
