"""Similarity of images to the true images, also of images that are smaller than the window of SSIM."""

import numpy as np
import pytest

from regard.tasks.image_generation.metrics import quality


@pytest.mark.parametrize("size", [(1, 1), (2, 9), (9, 2)])
def test_images_below_three_pixels_have_no_ssim(size):
    truth = np.full((2, *size, 3), 100, dtype=np.uint8)
    assert quality(truth + np.uint8(10), truth) == {"psnr": pytest.approx(20 * np.log10(255 / 10))}


@pytest.mark.parametrize("size", [(3, 3), (4, 9), (8, 8)])
def test_equal_images_have_ssim_one_and_infinite_psnr(size):
    truth = np.arange(np.prod(size) * 3, dtype=np.uint8).reshape(1, *size, 3)
    assert quality(truth, truth) == {"psnr": np.inf, "ssim": pytest.approx(1)}
    assert quality(truth ^ np.uint8(63), truth)["ssim"] < 0.9
