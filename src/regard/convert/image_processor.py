"""Image processors of Hugging Face: preprocessor_config.json read and written, with the same pixels as in regard.

regard feeds pixels of -1 … 1 to its models. Mean and deviation of an imported processor become part of the first layer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.convert.weight_map import Tensors
from regard.core.errors import ConfigError, DataError
from regard.core.files import write_text
from regard.data.images.resize import MAX_BRIGHTNESS, RESAMPLERS, ImageShape

FILE = "preprocessor_config.json"
BILINEAR = 2  # the default of transformers, by Pillow's number


@dataclass(frozen=True)
class ImageProcessor:
    """The processing of an image before a model: (factor · brightness - mean) / std, per channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    factor: float  # of brightness 0 … 255
    resample: str

    def normalize(self, images: Tensor) -> Tensor:
        """Images (b c h w) of -1 … 1 -> the pixel values of the processor."""
        brightness = (images + 1) * (MAX_BRIGHTNESS / 2)
        return (brightness * self.factor - _column(self.mean)) / _column(self.std)

    def fold(self, tensors: Tensors, name: str) -> Tensors:
        """Return the weights with the normalization inside the layer `name`, whose inputs are patches (c h w)."""
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        by_channel = weight.unflatten(1, (len(self.mean), -1))  # (d c p)
        slope = self.factor * MAX_BRIGHTNESS / 2 / torch.tensor(self.std)
        shift = (self.factor * MAX_BRIGHTNESS / 2 - torch.tensor(self.mean)) / torch.tensor(self.std)
        return tensors | {
            f"{name}.weight": (by_channel * slope[:, None]).flatten(1),
            f"{name}.bias": bias + (by_channel.sum(dim=-1) * shift).sum(dim=-1),
        }


def _column(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values)[:, None, None]


def read(path: Path, *, height: int, width: int, channels: int) -> ImageProcessor:
    """Read preprocessor_config.json; processing that regard does not have is a ConfigError."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        processor = _parse(table, channels)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{path}: not an image processor ({error!r}); save it with save_pretrained") from None
    size = {"height": height, "width": width}
    if table.get("do_resize", True):
        _check_size(path, "size", table.get("size", size), size)
    if table.get("do_center_crop", False):
        _check_size(path, "crop_size", table.get("crop_size", size), size)
    for name in ("do_pad", "do_flip_channel_order", "do_reduce_labels"):
        if table.get(name):
            raise ConfigError(f"{path}: {name}={table[name]!r} is not supported; regard only resizes and normalizes")
    return processor


def _parse(table: Mapping[str, Any], channels: int) -> ImageProcessor:
    resamplers = {number: name for name, number in RESAMPLERS.items()}
    is_normalized = table.get("do_normalize", True)
    mean, std = (_per_channel(table[name], channels) if is_normalized else (default,) * channels
                 for name, default in (("image_mean", 0.0), ("image_std", 1.0)))  # fmt: skip
    factor = float(table.get("rescale_factor", 1 / MAX_BRIGHTNESS)) if table.get("do_rescale", True) else 1.0
    return ImageProcessor(mean, std, factor, resamplers[table.get("resample", BILINEAR)])


def _per_channel(value: Any, channels: int) -> tuple[float, ...]:
    values = tuple(map(float, value)) if isinstance(value, list) else (float(value),) * channels
    if len(values) != channels:
        raise ValueError(f"{len(values)} values for {channels} channels")
    return values


def _check_size(path: Path, name: str, value: Any, size: Mapping[str, int]) -> None:
    """Raise a ConfigError unless images are resized to the size of the model in one step."""
    value = {"height": value, "width": value} if isinstance(value, int) else value
    if value != size:
        raise ConfigError(
            f"{path}: {name}={value!r} is not supported; regard resizes images to the {size['height']}x"
            f"{size['width']} pixels of the model"
        )


def write(shape: ImageShape, folder: Path) -> None:
    """Write preprocessor_config.json. Images that are cropped or padded to the size are not resized by transformers."""
    table = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": shape.fit == "stretch",
        "size": {"height": shape.height, "width": shape.width},
        "resample": RESAMPLERS[shape.resample],
        "do_rescale": True,
        "rescale_factor": 1 / MAX_BRIGHTNESS,
        "do_normalize": True,
        "image_mean": [0.5] * 3,  # of colour images, which exported models take
        "image_std": [0.5] * 3,
        "do_convert_rgb": True,
    }
    write_text(folder / FILE, json.dumps(table, indent=1) + "\n")
