"""Images of any size are resized to the target shape; levels and brightness are inverse to each other."""

import numpy as np
import pytest
from PIL import Image

from regard.core.errors import ConfigError
from regard.data.images.resize import ImageShape, check_levels, to_brightness, to_levels, to_random_levels


def test_levels_survive_brightness():
    for levels in range(2, 257):
        values = np.arange(levels)
        assert (to_levels(to_brightness(values, levels), levels) == values).all()
        assert to_brightness(values, levels)[[0, -1]].tolist() == [0, 255]


def test_brightness_goes_to_the_nearest_level():
    brightness = np.arange(256, dtype=np.uint8)
    for levels in (2, 3, 17, 100, 256):
        gap = np.abs(brightness[:, None] / 255 - np.arange(levels) / (levels - 1))
        assert (np.abs(gap[brightness, to_levels(brightness, levels)] - gap.min(axis=1)) < 1e-12).all()


@pytest.mark.parametrize("levels", [2, 5, 256])
def test_random_levels_have_the_brightness_as_their_mean(levels):
    draws = (np.arange(10_000, dtype=np.float32) + 0.5) / 10_000
    for brightness in (0, 1, 77, 128, 254, 255):
        values = to_random_levels(np.full(10_000, brightness, np.uint8), levels, draws)
        assert values.max() < levels and abs(values.mean() / (levels - 1) - brightness / 255) < 1e-3
    last = np.full(3, np.nextafter(np.float32(1), np.float32(0)))
    assert to_random_levels(np.full(3, 255, np.uint8), levels, last).max() == levels - 1


@pytest.mark.parametrize("levels", [-1, 1, 257])
def test_levels_have_bounds(levels):
    with pytest.raises(ConfigError, match=rf"^levels={levels}: a pixel has 2 … 256 levels of brightness$"):
        check_levels(levels)
    check_levels(2)


def dot(width, height):
    """Return a black image with a white pixel in the middle."""
    image = np.zeros((height, width), np.uint8)
    image[height // 2, width // 2] = 255
    return Image.fromarray(image)


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(3, 9), (9, 3), (5, 7), (1, 1), (20, 4)])
def test_every_fit_gives_the_shape(fit, channels, size):
    pixels = ImageShape(5, 7, channels, fit).apply(dot(*size))
    assert pixels.shape == (5, 7, channels) and pixels.dtype == np.uint8


def test_stretch_crop_and_pad():
    bright = Image.fromarray(np.full((4, 8), 200, np.uint8))
    assert (ImageShape(8, 8, 1, "stretch").apply(bright) == 200).all()
    padded = ImageShape(8, 8, 1, "pad", fill=9).apply(bright)[:, :, 0]
    assert (padded[2:6] == 200).all() and (padded[[0, 1, 6, 7]] == 9).all()
    left_dark = Image.fromarray(np.array([[0, 0, 200, 200, 200, 200, 0, 0]] * 4, np.uint8))
    assert (ImageShape(4, 4, 1, "crop").apply(left_dark) == 200).all()
    small = ImageShape(8, 8, 3, "pad", fill=7).apply(Image.fromarray(np.full((2, 2), 50, np.uint8)))
    assert (small == 50).sum() == 4 * 3 and (small == 7).sum() == 60 * 3  # it is never enlarged


def test_arrays_of_the_right_shape_are_not_copied():
    pixels = np.zeros((3, 5, 7, 1), np.uint8)
    assert ImageShape(5, 7, 1).apply_array(pixels) is pixels
    assert ImageShape(4, 4, 3).apply_array(pixels).shape == (3, 4, 4, 3)


def test_wrong_shapes():
    with pytest.raises(ConfigError, match=r"^height=0, width=4, channels=1: an image has at least one pixel, and 1"):
        ImageShape(0, 4, 1)
    with pytest.raises(ConfigError, match=r"channels=2"):
        ImageShape(4, 4, 2)
    with pytest.raises(ConfigError, match=r"^fill=256: the brightness of the border must lie in 0 … 255$"):
        ImageShape(4, 4, 1, fill=256)


def test_a_shape_with_too_many_pixels_is_refused():
    with pytest.raises(ConfigError, match=r"height=100000000, width=64: an image has at most 67,108,864 pixels"):
        ImageShape(100_000_000, 64, 3)
