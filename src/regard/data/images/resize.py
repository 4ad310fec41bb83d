"""Resizing to the input shape of a model, and quantization of brightness levels; all are pure functions of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, did_you_mean
from regard.core.extras import require
from regard.data.images.image_files import Pixels, to_image

Fit = Literal["stretch", "crop", "pad"]
Resample = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
RESAMPLERS = dict(zip(get_args(Resample), range(6), strict=True))  # Pillow's numbers
MAX_BRIGHTNESS = 255
MAX_PIXELS = 2**26  # pixels of an image; training images rarely have more than four million


@dataclass(frozen=True)
class ImageShape:
    """Height, width and channels of every image, and the way in which other sizes are resized."""

    height: int
    width: int
    channels: int  # 1: grey, 3: colour
    fit: Fit = "stretch"  # crop: cut out the center; pad: add a border, never enlarge
    fill: int = 0  # brightness of the border
    resample: Resample = "bicubic"  # interpolation of pixels

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1 or self.channels not in (1, 3):
            raise ConfigError(
                f"height={self.height}, width={self.width}, channels={self.channels}: an image has at least one pixel, "
                "and 1 channel (grey) or 3 (colour)"
            )
        if self.height * self.width > MAX_PIXELS:
            raise ConfigError(f"height={self.height}, width={self.width}: an image has at most {MAX_PIXELS:,} pixels")
        if self.resample not in RESAMPLERS:
            raise ConfigError(f"resample={self.resample!r}: {did_you_mean(self.resample, RESAMPLERS)}")
        if not 0 <= self.fill <= MAX_BRIGHTNESS:
            raise ConfigError(f"fill={self.fill}: the brightness of the border must lie in 0 … {MAX_BRIGHTNESS}")

    def apply(self, image: Any) -> Pixels:
        """Pillow image of any size -> (height width channels)."""
        image = image.convert("L" if self.channels == 1 else "RGB")
        if image.size != (self.width, self.height):
            image = {"stretch": self._stretch, "crop": self._crop, "pad": self._pad}[self.fit](image)
        return np.asarray(image, dtype=np.uint8).reshape(self.height, self.width, self.channels)

    def apply_array(self, pixels: Pixels) -> Pixels:
        """(n h w c) -> (n height width channels); an array that already has the shape is returned unchanged."""
        if pixels.shape[1:] == (self.height, self.width, self.channels):
            return pixels
        return np.stack([self.apply(to_image(image)) for image in pixels])

    def _resampler(self) -> Any:
        return require("PIL.Image", extra="vision").Resampling(RESAMPLERS[self.resample])

    def _stretch(self, image: Any) -> Any:
        return image.resize((self.width, self.height), self._resampler())

    def _crop(self, image: Any) -> Any:
        return require("PIL.ImageOps", extra="vision").fit(image, (self.width, self.height), self._resampler())

    def _pad(self, image: Any) -> Any:
        scale = min(1.0, self.width / image.width, self.height / image.height)
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        colour = self.fill if self.channels == 1 else (self.fill,) * 3
        canvas = require("PIL.Image", extra="vision").new(image.mode, (self.width, self.height), colour)
        canvas.paste(image.resize(size, self._resampler()), ((self.width - size[0]) // 2, (self.height - size[1]) // 2))
        return canvas


def check_levels(levels: int) -> None:
    """Raise a ConfigError unless the number of brightness levels is between 2 and 256."""
    if not 2 <= levels <= MAX_BRIGHTNESS + 1:
        raise ConfigError(f"levels={levels}: a pixel has 2 … {MAX_BRIGHTNESS + 1} levels of brightness")


def to_levels(pixels: Pixels, levels: int) -> Pixels:
    """Brightness 0 … 255 -> the nearest of `levels` equally spaced levels, 0 … levels - 1."""
    steps = np.arange(MAX_BRIGHTNESS + 1)
    table = ((steps * (levels - 1) + MAX_BRIGHTNESS // 2) // MAX_BRIGHTNESS).astype(np.uint8)
    return table[pixels]


def to_random_levels(pixels: Pixels, levels: int, draws: NDArray[np.float32]) -> Pixels:
    """Round brightness stochastically to one of the two nearest levels, with `draws` from [0, 1).

    The nearer level is the more likely one. With two levels this is binarisation by sampling: Salakhutdinov and
    Murray 2008, section 4.
    """
    values = pixels.astype(np.float32) * ((levels - 1) / MAX_BRIGHTNESS) + draws
    rounded: Pixels = values.clip(max=levels - 1).astype(np.uint8)  # float rounding may reach `levels`
    return rounded


def to_brightness(values: NDArray[np.integer], levels: int) -> Pixels:
    """Levels -> brightness 0 … 255; `to_levels` is its exact inverse."""
    steps = levels - 1
    return ((values.astype(np.int64) * MAX_BRIGHTNESS + steps // 2) // steps).astype(np.uint8)
