"""Inputs of a captioning model: the pixels of images, or the features of a pretrained network.

Features are computed once for all images of a data set and stored in the cache folder. The network is
`efficientnet_lite0` (layers/efficientnet.py), or any model of `timm`, which is installed separately (pip install timm).
Its weights are a file of the user; they are not trained.
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
from regard.layers.efficientnet import MAX_STRIDE, MEAN, STD, EfficientNetLite0
from regard.tasks._shared.image_inputs import to_tensor

EFFICIENTNET = "efficientnet_lite0"
BATCH_IMAGES = 32  # images in a batch of the pretrained network
FEATURE_DTYPE = np.float16  # of stored features


class ImageEncoder(Protocol):
    """Encodes images as inputs of a model."""

    def __call__(self, pixels: Pixels) -> Tensor:
        """Images (b h w c) of 0 … 255 -> (b d h w)."""

    def encode_rows(self, pixels: Pixels, indices: Indices) -> Tensor:
        """Images (n h w c) and the indices of b of them -> (b d h w)."""

    def output_shape(self, shape: ImageShape) -> tuple[int, int, int]:
        """Return height, width and channels of encoded images of this shape."""


class RawPixels:
    """Pixels scaled to -1 … 1."""

    def __call__(self, pixels: Pixels) -> Tensor:
        return to_tensor(pixels)

    def encode_rows(self, pixels: Pixels, indices: Indices) -> Tensor:
        return to_tensor(pixels[indices])

    def output_shape(self, shape: ImageShape) -> tuple[int, int, int]:
        return shape.height, shape.width, shape.channels


class PretrainedFeatures:
    """The last feature grid of a network, given by its name, a .safetensors file of weights, and the grid's stride."""

    def __init__(self, name: str, weights: Path, stride: int = MAX_STRIDE) -> None:
        self.name, self.weights, self.stride = name, weights, stride
        self._stored: NDArray[np.float16] | None = None

    @cached_property
    def net(self) -> Any:
        """The network with its weights, loaded on first use."""
        build = self._build_efficientnet if self.name == EFFICIENTNET else self._build_timm
        if self.weights.suffix != ".safetensors" or not self.weights.is_file():
            raise DataError(f"{self.weights}: give the weights of the network as an existing .safetensors file")
        try:
            net = build()
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"backbone={self.name!r} does not fit the weights {self.weights}: {reason}") from None
        return net.eval().requires_grad_(False)

    def _build_efficientnet(self) -> Any:
        net = EfficientNetLite0(stride=self.stride)
        net.load_weights(load_file(self.weights))
        return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stubs of torch 2.13

    def _build_timm(self) -> Any:
        try:
            timm = require("timm", extra="timm")
        except MissingExtra:
            raise MissingExtra("timm is not installed; run: pip install timm") from None
        options = {} if self.stride == MAX_STRIDE else {"output_stride": self.stride}
        net = timm.create_model(self.name, pretrained=False, **options)
        net.load_state_dict(load_file(self.weights))
        return net

    def __call__(self, pixels: Pixels) -> Tensor:
        if pixels.shape[-1] != 3:
            raise ConfigError(f"backbone={self.name!r}: pretrained networks need colour images; set data.channels=3")
        own = {"mean": (MEAN,) * 3, "std": (STD,) * 3} if self.name == EFFICIENTNET else {}
        cfg: dict[str, Any] = getattr(self.net, "pretrained_cfg", None) or own
        mean, std = (torch.tensor(cfg.get(key, (0.5,) * 3))[:, None, None] for key in ("mean", "std"))
        with torch.no_grad():
            features: Tensor = self.net.forward_features(((to_tensor(pixels) + 1) / 2 - mean) / std)
        if features.dim() != 4:
            raise ConfigError(
                f"backbone={self.name!r} gives features {tuple(features.shape)}, not a grid; "
                "choose a convolutional network"
            )
        return features

    def encode_rows(self, pixels: Pixels, indices: Indices) -> Tensor:
        if self._stored is None or len(self._stored) != len(pixels):
            self._stored = self._store(pixels)
        return torch.from_numpy(self._stored[indices].astype(np.float32))

    def output_shape(self, shape: ImageShape) -> tuple[int, int, int]:
        features = self(np.zeros((1, shape.height, shape.width, shape.channels), np.uint8))
        return features.shape[2], features.shape[3], features.shape[1]

    def _store(self, pixels: Pixels) -> NDArray[np.float16]:
        """Return the features of all images, memory-mapped from a cache file that is written if it does not exist."""
        is_own = self.name == EFFICIENTNET
        version = self.stride if is_own else getattr(require("timm", extra="timm"), "__version__", "")
        weights = checksums.hash_files([self.weights])
        digest = blake2b(
            f"{self.name} {weights} {version} {self.stride} {pixels.dtype} {pixels.shape}".encode(), digest_size=16
        )
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


def build_image_encoder(features: str, weights: Path | None, stride: int = MAX_STRIDE) -> ImageEncoder:
    """Return the encoder of a pretrained network by its name, weights and stride; without a name, the raw pixels."""
    if not features:
        return RawPixels()
    if weights is None:
        raise ConfigError(f"backbone={features!r} needs its weights: data.backbone_weights=FILE.safetensors")
    return PretrainedFeatures(features, weights, stride)
