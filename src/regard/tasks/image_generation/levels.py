"""Conversion between images and sequences of intensity levels in raster order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import ImageGenerationSpec
from regard.core.extras import require
from regard.core.protocols.image_generator import ImageCondition
from regard.data.images.image_files import Pixels, to_image
from regard.data.images.resize import to_brightness, to_levels, to_random_levels


class ImageBatch(NamedTuple):
    """Levels of images in raster order, and their conditions."""

    pixels: Tensor  # (b h·w·c)
    condition: ImageCondition


def encode(
    pixels: Pixels, labels: NDArray[np.int64], sizes: ImageGenerationSpec, *, draws: NDArray[np.float32] | None = None
) -> ImageBatch:
    """Images (b h w c) of 0 … 255 and classes (-1: none) -> levels; with `draws`, levels are rounded at random."""
    levels = to_levels(pixels, sizes.levels) if draws is None else to_random_levels(pixels, sizes.levels, draws)
    low_res = downscale(pixels, sizes) if min(sizes.low_res_size) else np.zeros((len(pixels), 0), np.uint8)
    return ImageBatch(_flatten(levels), image_condition(labels, low_res, sizes))


def image_condition(labels: NDArray[np.int64], low_res: Pixels, sizes: ImageGenerationSpec) -> ImageCondition:
    """Return the condition for classes (-1: none) and the levels of low-resolution images (b h w c) or (b 0)."""
    class_ids = np.where((labels < 0) | (labels >= sizes.num_classes), sizes.num_classes, labels)
    return ImageCondition(torch.from_numpy(class_ids).long(), _flatten(low_res))


def _flatten(levels: Pixels) -> Tensor:
    return torch.from_numpy(levels.reshape(len(levels), -1)).long()


def decode(levels: Tensor, sizes: ImageGenerationSpec, *, size: tuple[int, int] | None = None) -> Pixels:
    """Levels (b n) -> images (b h w c) of 0 … 255."""
    height, width = size or (sizes.height, sizes.width)
    return to_brightness(levels.cpu().numpy(), sizes.levels).reshape(len(levels), height, width, sizes.channels)


def downscale(pixels: Pixels, sizes: ImageGenerationSpec) -> Pixels:
    """Images (b h w c) -> levels of the low-resolution images (b h w c): the mean brightness of each square."""
    (rows, columns), (b, h, w, c) = sizes.low_res_size, pixels.shape
    squares = pixels.reshape(b, rows, h // rows, columns, w // columns, c).astype(np.float64)
    return to_levels(np.rint(squares.mean(axis=(2, 4))).astype(np.uint8), sizes.levels)


def upscale_bicubic(small: Pixels, sizes: ImageGenerationSpec) -> Pixels:
    """Upscale images (b h w c) of 0 … 255 by bicubic interpolation, the baseline of upscaling."""
    filters = require("PIL.Image", extra="vision").Resampling
    size = sizes.width, sizes.height
    large = [np.asarray(to_image(image).resize(size, filters.BICUBIC), np.uint8) for image in small]
    return np.stack(large).reshape(len(small), sizes.height, sizes.width, sizes.channels)
