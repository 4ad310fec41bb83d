"""Baselines of image generation: a linear map, a table of counts and WebP in bits; ridge regression for upscaling."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import ImageGenerationSpec
from regard.core.extras import require
from regard.data.images.image_files import Pixels
from regard.layers.linear_prediction import LinearPrediction, UpscaledPatches, brightness
from regard.layers.pixel_embedding import PixelPositions
from regard.tasks.image_generation.levels import decode, encode
from regard.tasks.image_generation.metrics import quality

Levels = NDArray[np.int64]
RADIUS = 2  # of the pixels around, for the linear map: 12 pixels
MAX_LINEAR_IMAGES = 512  # training images that the linear map is fitted to
SMOOTHING = 0.02  # added to every count
TABLE_CONTEXTS = 2**14  # contexts of the table of counts
# rows and columns to the neighbours of the table, the nearest first
TABLE_NEIGHBOURS: tuple[tuple[int, int], ...] = (
    *((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0), (-1, -2)),
    *((-1, 2), (-2, -1), (-2, 1), (0, -3), (-3, 0), (-2, -2), (-2, 2)),
)
MAX_WEBP_IMAGES = 1024  # test images in the mosaic: WebP needs 20 ms for each
MOSAIC_COLUMNS = 32  # images next to each other in the mosaic that WebP compresses


def bits(train: Levels, test: Levels, sizes: ImageGenerationSpec) -> dict[str, float]:
    """Levels of training and test images (b h w c) -> the bits per dimension of each baseline."""
    spread = train[:: max(1, len(train) // MAX_LINEAR_IMAGES)][:MAX_LINEAR_IMAGES]
    scores = {
        "linear.bits": linear_bits(spread, test, sizes),
        "table.bits": table_bits(train, test, sizes.levels),
    }
    return scores | ({"webp.bits": webp_bits(test.astype(np.uint8))} if sizes.levels == 256 else {})


def linear_bits(train: Levels, test: Levels, sizes: ImageGenerationSpec) -> float:
    """Code the error of a linear map of 12 neighbouring pixels and of the previous channels by its histogram."""
    sizes = replace(sizes, low_res_size=(0, 0))
    order = torch.arange(sizes.height * sizes.width)
    positions = PixelPositions.from_order(order, sizes, channels_per_position=sizes.channels)
    prediction = LinearPrediction(positions, sizes=sizes, radius=RADIUS)
    raster, nothing = positions.raster_indices(sizes), torch.zeros(0)
    images = [torch.from_numpy(levels.reshape(len(levels), -1)) for levels in (train, test)]
    prediction.fit(images[0], raster, nothing.expand(len(train), 0))
    expected = [_expected_levels(prediction, image[:, raster], sizes.levels) for image in images]
    values = [image[:, raster].view(-1, sizes.channels).numpy() for image in images]
    total = 0.0
    for channel in range(sizes.channels):
        counts = np.bincount((values[0] - expected[0])[:, channel] + sizes.levels - 1, minlength=2 * sizes.levels - 1)
        cumulative = np.concatenate([[0.0], np.cumsum(counts + SMOOTHING)])
        first = sizes.levels - 1 - expected[1][:, channel]  # index of the error that leads to level 0
        possible = cumulative[first + sizes.levels] - cumulative[first]
        errors = first + values[1][:, channel]
        total -= np.log2((counts[errors] + SMOOTHING) / possible).sum()
    return float(total / values[1].size)


def _expected_levels(prediction: LinearPrediction, labels: Tensor, levels: int) -> Levels:
    """Levels (b t c) -> the level that the linear map predicts for each (b·t c)."""
    expected = []
    for images in labels.split(64):
        part = images.view(len(images), -1, prediction.channels)
        linear = prediction(part.flatten(1), 0, part.shape[1], prediction.patches(part.new_zeros(len(part), 0)))
        linear = linear + brightness(part, levels) @ prediction.get_buffer("coupling").mT
        expected.append(((linear + 1) * ((levels - 1) / 2)).round().clamp(0, levels - 1).long().flatten(0, 1))
    return torch.cat(expected).numpy()


def table_bits(train: Levels, test: Levels, levels: int) -> float:
    """Predict each level by counts for the values of its nearest neighbours, 4 of 11 steps each or 14 of 2 levels."""
    steps = min(levels, 11)
    count = min(len(TABLE_NEIGHBOURS), int(np.log(TABLE_CONTEXTS + 1) / np.log(steps) + 1e-9))
    counts = np.full((train.shape[3] * steps**count, levels), SMOOTHING)
    np.add.at(counts, (_contexts(train, levels, steps, count), train.ravel()), 1.0)
    chosen = _contexts(test, levels, steps, count)
    return float(-np.log2(counts[chosen, test.ravel()] / counts.sum(axis=1)[chosen]).mean())


def _contexts(images: Levels, levels: int, steps: int, count: int) -> Levels:
    """Images (b h w c) -> the index of the context of every level, flat; missing pixels count as level 0.

    The lowest and the highest level have steps of their own: large areas of drawings have exactly these.
    """
    inner = np.clip((images - 1) * (steps - 2) // max(1, levels - 2), 0, max(0, steps - 3)) + 1
    coarse = np.where(images == 0, 0, np.where(images == levels - 1, steps - 1, inner))
    padded = np.pad(coarse, ((0, 0), (3, 0), (3, 3), (0, 0)))
    height, width, channels = images.shape[1:]
    index = np.broadcast_to(np.arange(channels), images.shape).copy()
    for row, column in TABLE_NEIGHBOURS[:count]:
        index = index * steps + padded[:, 3 + row : 3 + row + height, 3 + column : 3 + column + width]
    return index.ravel()


def webp_bits(images: Pixels) -> float:
    """Compress the first images (b h w c) as one mosaic by lossless WebP, and return the bits per level."""
    pillow = require("PIL.Image", extra="vision")
    images = images[:MAX_WEBP_IMAGES]
    columns = min(MOSAIC_COLUMNS, len(images))
    images = images[: len(images) // columns * columns]
    rows = images.reshape(-1, columns, *images.shape[1:]).transpose(0, 2, 1, 3, 4)
    mosaic = rows.reshape(rows.shape[0] * rows.shape[1], -1, images.shape[3])
    file = io.BytesIO()
    pillow.fromarray(mosaic if mosaic.shape[2] == 3 else mosaic[:, :, 0]).save(
        file, "WEBP", lossless=True, quality=100, method=6
    )
    return 8 * len(file.getvalue()) / mosaic.size


def upscaling_quality(train: Pixels, test: Pixels, sizes: ImageGenerationSpec) -> dict[str, float]:
    """Return PSNR and SSIM of ridge regression over bicubic interpolation, its penalty chosen by cross-validation."""
    order = torch.arange(sizes.height * sizes.width)
    upscaling = UpscaledPatches(PixelPositions.from_order(order, sizes, channels_per_position=sizes.channels), sizes)
    fitted, scored = (encode(pixels, np.full(len(pixels), -1), sizes) for pixels in (train, test))
    upscaling.fit(brightness(fitted.condition.low_res, sizes.levels), brightness(fitted.pixels, sizes.levels))
    upscaled = upscaling.upscale(brightness(scored.condition.low_res, sizes.levels))
    levels = ((upscaled + 1) * ((sizes.levels - 1) / 2)).round().clamp(0, sizes.levels - 1)
    return {f"ridge.{name}": value for name, value in quality(decode(levels.long(), sizes), test).items()}
