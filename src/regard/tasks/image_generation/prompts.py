"""Inputs of image generation: images to complete or to upscale, converted to levels and conditions.

An image that is larger than the model's low-resolution input is upscaled in tiles (tiles.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import ImageGenerationSpec
from regard.core.errors import DataError
from regard.core.protocols.image_generator import ImageCondition
from regard.data.images.image_files import Pixels
from regard.data.images.resize import ImageShape, to_levels
from regard.tasks._shared.image_inputs import Box, InputImage, box_slices, resize_image
from regard.tasks.image_generation.generate import UNKNOWN
from regard.tasks.image_generation.levels import downscale, image_condition
from regard.tasks.image_generation.tiles import TileGrid, tile_grid


class KeptPixels(NamedTuple):
    """The pixels of an input image that a completion keeps."""

    rows: int = 0  # upper rows; 0: all of a part of an image, or of an image with a region, else half
    region: Box | None = None  # of the canvas, to generate again


class PreparedRequest(NamedTuple):
    """The model inputs of a request."""

    image: InputImage | None  # the input image after resizing
    condition: ImageCondition
    known_levels: Tensor | None = None  # levels (b n), UNKNOWN at positions to generate
    ground_truth: Pixels | None = None  # (h w c) the true image, if a downscaled image is upscaled again
    tiles: TileGrid | None = None  # the tiles of a large image to upscale; each is one row of the condition


def prepare(
    image: InputImage | None, sizes: ImageGenerationSpec, *, kept: KeptPixels, labels: NDArray[np.int64]
) -> PreparedRequest:
    """Prepare an image to complete or to upscale, or no image.

    For upscaling, an image of the output size is downscaled first, so that the result can be compared with it. Any
    other image is resized to the low-resolution input of the model.
    """
    if image is None or not min(sizes.low_res_size):
        used, levels = (None, None) if image is None else prepare_completion(image, sizes, kept)
        return PreparedRequest(used, image_condition(labels, np.zeros((len(labels), 0), np.uint8), sizes), levels)
    height, width, channels = image.pixels.shape
    if (height, width) == (sizes.height, sizes.width):
        remark = f"{height}x{width} pixels, as the result has: made small first"
        used = image._replace(remarks=(*image.remarks, remark))
        return PreparedRequest(
            used, image_condition(labels, downscale(image.pixels[None], sizes), sizes), ground_truth=image.pixels
        )
    used = resize_image(image, ImageShape(*sizes.low_res_size, channels))
    return PreparedRequest(used, image_condition(labels, to_levels(used.pixels[None], sizes.levels), sizes))


def prepare_tiles(image: InputImage, sizes: ImageGenerationSpec, *, label: int) -> PreparedRequest | None:
    """Prepare an image for upscaling in tiles; None if it is no larger than the model's input, or of its output size.

    A side that is shorter than a tile is stretched to the tile, and the other side with it.
    """
    (height, width, channels), (rows, columns) = image.pixels.shape, sizes.low_res_size
    if (height, width) == (sizes.height, sizes.width) or (height <= rows and width <= columns):
        return None
    factor = max(1.0, rows / height, columns / width)
    if factor > 1:
        image = resize_image(
            image, ImageShape(max(rows, round(height * factor)), max(columns, round(width * factor)), channels)
        )
    grid = tile_grid(image.name, (image.pixels.shape[0], image.pixels.shape[1]), sizes)
    remark = f"upscaled in {len(grid)} tiles of {rows}x{columns} pixels"
    used = image._replace(remarks=(*image.remarks, remark))
    low_res = to_levels(grid.cut(image.pixels), sizes.levels)
    return PreparedRequest(used, image_condition(np.full(len(grid), label), low_res, sizes), tiles=grid)


def prepare_completion(image: InputImage, sizes: ImageGenerationSpec, kept: KeptPixels) -> tuple[InputImage, Tensor]:
    """Return the image resized to the width of the canvas, and levels (1 n), UNKNOWN at the pixels to generate."""
    height, width, channels = image.pixels.shape
    if height > sizes.height or width > sizes.width:
        size, canvas = f"{height}x{width}", f"{sizes.height}x{sizes.width}"
        raise DataError(f"{image.name}: {size} pixels, larger than the canvas of {canvas}; scale it down first")
    if width < sizes.width:
        new_height = max(1, round(height * sizes.width / width))
        image = resize_image(image, ImageShape(min(new_height, sizes.height), sizes.width, channels))
    num_rows = len(image.pixels)
    all_rows = num_rows < sizes.height or kept.region is not None
    num_kept = kept.rows or (num_rows if all_rows else sizes.height // 2)
    if num_kept > num_rows:
        raise DataError(f"{image.name}: cannot keep {num_kept} rows of an image of {num_rows}; give a smaller rows=…")
    levels = torch.full((sizes.height, sizes.width, channels), UNKNOWN)
    levels[:num_kept] = torch.from_numpy(to_levels(image.pixels[:num_kept], sizes.levels).astype(np.int64))
    if kept.region is not None:
        levels[box_slices(kept.region, sizes.height, sizes.width)] = UNKNOWN
    return image, levels.view(1, -1)
