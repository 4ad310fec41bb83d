"""Rendering of pixel arrays: image grids, box outlines and text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.images.image_files import Pixels

SHADES = " ░▒▓█"
MIN_DISPLAY_PIXELS = 320  # small images are enlarged to about this size
GRID_GAP_PIXELS = 1


def display_scale(height: int, width: int) -> int:
    """Return the integer factor by which an image is enlarged so that single pixels are visible."""
    return max(1, MIN_DISPLAY_PIXELS // max(height, width))


def make_grid(images: Sequence[Pixels] | Pixels, *, columns: int = 0, gap: int = GRID_GAP_PIXELS) -> Pixels:
    """Images (h w c) of one size -> one image with all of them, row by row; 0 columns: about a square."""
    count, (height, width, channels) = len(images), images[0].shape
    columns = min(count, columns or int(np.ceil(np.sqrt(count))))
    rows = -(-count // columns)
    canvas = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap, channels), 128, dtype=np.uint8)
    for index, image in enumerate(images):
        top, left = index // columns * (height + gap), index % columns * (width + gap)
        canvas[top : top + height, left : left + width] = image
    return canvas


def to_text(pixels: Pixels) -> str:
    """(h w c) -> lines of text, two characters per pixel, with one of five shades for its brightness."""
    grey = pixels.astype(np.float64).mean(axis=2)
    shades = (grey * len(SHADES) / 256).astype(int)
    return "\n".join("".join(SHADES[shade] * 2 for shade in row).rstrip() for row in shades) + "\n"


def draw_box(pixels: Pixels, box: tuple[float, float, float, float], colour: tuple[int, int, int]) -> Pixels:
    """Draw the outline of a box, given in fractions of the sides, on a copy of an image (h w 3), one pixel wide."""
    height, width, _ = pixels.shape
    left, right = (int(np.clip(edge * width, 0, width - 1)) for edge in (box[0], box[2]))
    top, bottom = (int(np.clip(edge * height, 0, height - 1)) for edge in (box[1], box[3]))
    framed = pixels.copy()
    framed[[top, bottom], left : right + 1] = colour
    framed[top : bottom + 1, [left, right]] = colour
    return framed
