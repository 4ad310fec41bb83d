"""Images as something to look at: many side by side, a frame around a part, characters for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.images.image_files import Pixels

SHADES = " ░▒▓█"
MIN_DISPLAY_PIXELS = 320  # pixels that an image of a few pixels should have on a screen, at least
GRID_GAP_PIXELS = 1


def display_scale(height: int, width: int) -> int:
    """How many times an image is enlarged so that single pixels can be seen."""
    return max(1, MIN_DISPLAY_PIXELS // max(height, width))


def make_grid(images: Sequence[Pixels] | Pixels, *, columns: int = 0, gap: int = GRID_GAP_PIXELS) -> Pixels:
    """Images (h w c) of one size -> one image of them all, row by row; 0 columns: about a square."""
    count, (height, width, channels) = len(images), images[0].shape
    columns = min(count, columns or int(np.ceil(np.sqrt(count))))
    rows = -(-count // columns)
    paper = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap, channels), 128, dtype=np.uint8)
    for number, image in enumerate(images):
        top, left = number // columns * (height + gap), number % columns * (width + gap)
        paper[top : top + height, left : left + width] = image
    return paper


def to_text(pixels: Pixels) -> str:
    """(h w c) -> lines of characters, two for a pixel, darker where the image is darker."""
    grey = pixels.astype(np.float64).mean(axis=2)
    shades = (grey * len(SHADES) / 256).astype(int)
    return "\n".join("".join(SHADES[shade] * 2 for shade in row).rstrip() for row in shades) + "\n"


def draw_box(pixels: Pixels, box: tuple[float, float, float, float], colour: tuple[int, int, int]) -> Pixels:
    """(h w 3) and a box as shares of its sides -> the same with the box's outline, a pixel wide."""
    height, width, _ = pixels.shape
    left, right = (int(np.clip(edge * width, 0, width - 1)) for edge in (box[0], box[2]))
    top, bottom = (int(np.clip(edge * height, 0, height - 1)) for edge in (box[1], box[3]))
    framed = pixels.copy()
    framed[[top, bottom], left : right + 1] = colour
    framed[top : bottom + 1, [left, right]] = colour
    return framed
