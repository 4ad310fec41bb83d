"""Baselines code images that their neighbours predict with few bits, and noise with as many as it has."""

import numpy as np
import pytest

from regard.core.data_specs import ImageGenerationSpec
from regard.tasks.image_generation import baselines


def images(kind, levels, count=24, channels=1):
    random = np.random.default_rng(0)
    if kind == "noise":
        return random.integers(0, 256, (count, 8, 8, channels))
    starts, slopes = random.integers(0, 100, (count, 1, 1, channels)), random.integers(0, 15, (count, 1, 1, channels))
    return (starts + slopes * np.arange(8)[:, None]).repeat(8, axis=2).astype(np.int64)


@pytest.mark.parametrize("channels", [1, 3])
def test_bits_of_planes_and_of_noise(channels):
    sizes = ImageGenerationSpec(height=8, width=8, channels=channels, levels=256, num_classes=0)
    plane = baselines.bits(images("planes", 256, channels=channels), images("planes", 256, channels=channels), sizes)
    noise = baselines.bits(images("noise", 256, channels=channels), images("noise", 256, channels=channels), sizes)
    assert set(plane) == {"linear.bits", "table.bits", "webp.bits"}
    assert plane["linear.bits"] < 4 and plane["webp.bits"] < 4
    assert noise["webp.bits"] > 7.9 and noise["linear.bits"] > 7


def test_the_table_of_two_levels_finds_a_chessboard():
    sizes = ImageGenerationSpec(height=8, width=8, channels=1, levels=2, num_classes=0)
    board = (np.indices((8, 8)).sum(axis=0) % 2)[None, :, :, None].repeat(40, axis=0)
    scores = baselines.bits(board, board, sizes)
    assert set(scores) == {"linear.bits", "table.bits"} and scores["table.bits"] < 0.1


def test_ridge_regression_upscales_what_it_was_fitted_to():
    random = np.random.default_rng(0)
    sizes = ImageGenerationSpec(height=8, width=8, channels=1, levels=256, num_classes=0, low_res_size=(2, 2))
    patterns = random.integers(-60, 60, (2, 2, 8, 8))
    weights = random.random((60, 2, 2))
    pixels = np.clip(128 + np.einsum("nij,ijhw->nhw", weights, patterns), 0, 255).astype(np.uint8)[..., None]
    scores = baselines.upscaling_quality(pixels[:50], pixels[50:], sizes)
    assert set(scores) == {"ridge.psnr", "ridge.ssim"} and scores["ridge.psnr"] > 20
