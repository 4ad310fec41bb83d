"""Rendering of pixel arrays: image grids, text for a terminal, and the font of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.core.extras import require
from regard.data.images.image_files import Pixels

SHADES = " ░▒▓█"
MIN_DISPLAY_PIXELS = 320  # small images are enlarged to about this size
GRID_GAP_PIXELS = 1
# Font files with Hangul in order of preference; fonts that are not installed are skipped.
FONTS = ("NanumGothic.ttf", "NanumSquareRoundR.ttf", "NotoSansCJK-Regular.ttc", "NotoSansKR-Regular.ttf", "malgun.ttf")


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


def load_font(text: str, size: int) -> Any:
    """Return Pillow's font, or for text that is not ASCII an installed font with Hangul."""
    fonts = require("PIL.ImageFont", extra="vision")
    for name in () if text.isascii() else FONTS:
        try:
            return fonts.truetype(name, size)
        except OSError:
            continue
    return fonts.load_default(size)
