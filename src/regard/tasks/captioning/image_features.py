"""What a model takes of images: their pixels, or the features that a pretrained net makes of them.

Features are computed once for all images of a data set and stored in the cache folder. The net is one of `timm`, which
has to be installed by itself (pip install timm); its weights are a file of yours, and it is not trained further.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from regard.core import checksums
from regard.core.errors import ConfigError, DataError, MissingExtra
from regard.core.extras import require
from regard.core.files import atomic_write, cache_folder
from regard.core.progress import track
from regard.core.protocols import Indices
from regard.data.images.image_files import Pixels
from regard.data.images.resize import ImageShape
from regard.tasks._shared.image_inputs import to_tensor

BATCH_IMAGES = 32  # images that a net sees at once
FEATURE_DTYPE = np.float16  # of stored features


class ImageEncoder(Protocol):
    """Images to what a model takes."""

    def __call__(self, pixels: Pixels) -> Tensor:
        """Images (b h w c) of 0 … 255 -> (b d h w)."""

    def encode_rows(self, pixels: Pixels, indices: Indices) -> Tensor:
        """Some of many images (n h w c) -> (b d h w)."""

    def output_shape(self, shape: ImageShape) -> tuple[int, int, int]:
        """Height, width and channels of what is made of images of a shape."""


class RawPixels:
    """The pixels themselves, -1 … 1."""

    def __call__(self, pixels: Pixels) -> Tensor:
        return to_tensor(pixels)

    def encode_rows(self, pixels: Pixels, indices: Indices) -> Tensor:
        return to_tensor(pixels[indices])

    def output_shape(self, shape: ImageShape) -> tuple[int, int, int]:
        return shape.height, shape.width, shape.channels


class PretrainedFeatures:
    """The last grid of features of a net of `timm`, by its name, with weights from a .safetensors file."""

    def __init__(self, name: str, weights: Path) -> None:
        self.name, self.weights = name, weights
        self._stored: NDArray[np.float16] | None = None

    @cached_property
    def net(self) -> Any:
        """The net with its weights, made when it is first needed."""
        try:
            timm = require("timm", extra="timm")
        except MissingExtra:
            raise MissingExtra("timm is not installed; run: pip install timm") from None
        if self.weights.suffix != ".safetensors" or not self.weights.is_file():
            raise DataError(f"{self.weights}: give the net's weights as a .safetensors file that is there")
        try:
            net = timm.create_model(self.name, pretrained=False)
            net.load_state_dict(load_file(self.weights))
        except RuntimeError as wrong:
            reason = str(wrong).partition("\n")[0]
            raise ConfigError(f"backbone={self.name!r} with {self.weights}: they do not fit: {reason}") from None
        return net.eval().requires_grad_(False)

    def __call__(self, pixels: Pixels) -> Tensor:
        if pixels.shape[-1] != 3:
            raise ConfigError(f"backbone={self.name!r}: pretrained nets take colour images; set data.channels=3")
        cfg: dict[str, Any] = getattr(self.net, "pretrained_cfg", None) or {}
        mean, std = (torch.tensor(cfg.get(key, (0.5,) * 3))[:, None, None] for key in ("mean", "std"))
        with torch.no_grad():
            made: Tensor = self.net.forward_features(((to_tensor(pixels) + 1) / 2 - mean) / std)
        if made.dim() != 4:
            raise ConfigError(
                f"backbone={self.name!r} gives no grid but {tuple(made.shape)}; choose a convolutional net"
            )
        return made

    def encode_rows(self, pixels: Pixels, indices: Indices) -> Tensor:
        if self._stored is None or len(self._stored) != len(pixels):
            self._stored = self._store(pixels)
        return torch.from_numpy(self._stored[indices].astype(np.float32))

    def output_shape(self, shape: ImageShape) -> tuple[int, int, int]:
        made = self(np.zeros((1, shape.height, shape.width, shape.channels), np.uint8))
        return made.shape[2], made.shape[3], made.shape[1]

    def _store(self, pixels: Pixels) -> NDArray[np.float16]:
        """The features of all images, mapped from a file that is made if it is not there."""
        digest = blake2b(f"{self.name} {checksums.hash_files([self.weights])}".encode(), digest_size=16)
        for image in pixels:
            digest.update(image.tobytes())
        path = cache_folder() / "features" / f"{digest.hexdigest()}.f16"
        shape = len(pixels), *self(pixels[:1]).shape[1:]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as part, part.open("wb") as file:
                for low in track(range(0, len(pixels), BATCH_IMAGES), total=-(-len(pixels) // BATCH_IMAGES)):
                    file.write(self(pixels[low : low + BATCH_IMAGES]).numpy().astype(FEATURE_DTYPE).tobytes())
        return np.memmap(path, dtype=FEATURE_DTYPE, mode="r", shape=shape)


def build_image_encoder(features: str, weights: Path | None) -> ImageEncoder:
    """The name of a net and its weights, or neither -> how images are seen."""
    if not features:
        return RawPixels()
    if weights is None:
        raise ConfigError(f"backbone={features!r} needs the net's weights: data.backbone_weights=FILE.safetensors")
    return PretrainedFeatures(features, weights)
