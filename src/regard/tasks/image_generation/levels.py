"""Images as levels of brightness in raster order, with what they are of; and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import ImageGenerationSpec as PixelSizes
from regard.core.extras import require
from regard.core.protocols.image_generator import ImageCondition
from regard.data.images.image_files import Pixels, to_image
from regard.data.images.resize import to_brightness, to_levels, to_random_levels


class ImageBatch(NamedTuple):
    """Levels of images in raster order, and what they are of."""

    pixels: Tensor  # (b h·w·c)
    condition: ImageCondition


def encode(
    pixels: Pixels, labels: NDArray[np.int64], sizes: PixelSizes, *, draws: NDArray[np.float32] | None = None
) -> ImageBatch:
    """Images (b h w c) of 0 … 255 and their classes, -1 where none is told. With `draws` levels are drawn at random."""
    levels = to_levels(pixels, sizes.levels) if draws is None else to_random_levels(pixels, sizes.levels, draws)
    small = downscale(pixels, sizes) if min(sizes.low_res_size) else np.zeros((len(pixels), 0), np.uint8)
    return ImageBatch(_flat(levels), image_condition(labels, small, sizes))


def image_condition(labels: NDArray[np.int64], small: Pixels, sizes: PixelSizes) -> ImageCondition:
    """Classes, -1 where none is told, and the levels of small images (b h w c) or (b 0)."""
    told = np.where((labels < 0) | (labels >= sizes.num_classes), sizes.num_classes, labels)
    return ImageCondition(torch.from_numpy(told).long(), _flat(small))


def _flat(levels: Pixels) -> Tensor:
    return torch.from_numpy(levels.reshape(len(levels), -1)).long()


def decode(levels: Tensor, sizes: PixelSizes, *, size: tuple[int, int] | None = None) -> Pixels:
    """(b n) -> images (b h w c) of 0 … 255."""
    height, width = size or (sizes.height, sizes.width)
    return to_brightness(levels.cpu().numpy(), sizes.levels).reshape(len(levels), height, width, sizes.channels)


def downscale(pixels: Pixels, sizes: PixelSizes) -> Pixels:
    """Images (b h w c) -> levels of the small ones (b h w c): the mean brightness of each square."""
    (rows, columns), (b, h, w, c) = sizes.low_res_size, pixels.shape
    squares = pixels.reshape(b, rows, h // rows, columns, w // columns, c).astype(np.float64)
    return to_levels(np.rint(squares.mean(axis=(2, 4))).astype(np.uint8), sizes.levels)


def upscale_bicubic(small: Pixels, sizes: PixelSizes) -> Pixels:
    """Small images (b h w c) of 0 … 255 -> large ones, by the interpolation that others are measured by."""
    filters = require("PIL.Image", extra="vision").Resampling
    size = sizes.width, sizes.height
    large = [np.asarray(to_image(image).resize(size, filters.BICUBIC), np.uint8) for image in small]
    return np.stack(large).reshape(len(small), sizes.height, sizes.width, sizes.channels)


def quality(images: Pixels, truth: Pixels) -> dict[str, float]:
    """Images beside the true ones (b h w c) -> mean peak signal-to-noise ratio and structural similarity, by
    scikit-image."""
    metrics = require("skimage.metrics", extra="vision")
    window = min(7, (min(truth.shape[1:3]) - 1) // 2 * 2 + 1)  # odd, and no wider than the image
    settings = {"data_range": 255, "win_size": window, "channel_axis": 2}
    pairs = list(zip(truth, images, strict=True))
    return {
        "psnr": float(np.mean([metrics.peak_signal_noise_ratio(a, b, data_range=255) for a, b in pairs])),
        "ssim": float(np.mean([metrics.structural_similarity(a, b, **settings) for a, b in pairs])),
    }


def histogram_bits(pixels: Pixels, held_out: Pixels, levels: int) -> float:
    """Bits per dimension of held-out images where every level is foretold by its share in the training images."""
    counts = np.bincount(to_levels(pixels, levels).ravel(), minlength=levels) + 1.0  # none is impossible
    seen = np.bincount(to_levels(held_out, levels).ravel(), minlength=levels)
    return float(-(seen * np.log2(counts / counts.sum())).sum() / seen.sum())
