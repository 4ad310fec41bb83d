"""Code shared by image tasks: the image shape and class names of a run, user images, and batches of images."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.checksums import hash_batches
from regard.core.errors import CheckpointError, ConfigError, DataError, did_you_mean
from regard.core.files import write_bytes, write_text
from regard.core.protocols import Indices
from regard.core.seed import combine_seeds
from regard.data.images import arrays
from regard.data.images.dataset import HoldOut, ImageSource
from regard.data.images.image_files import (
    SUFFIXES,
    LoadedImage,
    Pixels,
    convert_image,
    encode_png,
    open_image,
    to_image,
)
from regard.data.images.loader import TargetShape
from regard.data.images.resize import ImageShape
from regard.tasks._shared import data_summary

FILE, EXAMPLE = "images.json", "example.png"
INPUT_SUFFIXES = SUFFIXES  # of files that are read as input images


Box = tuple[float, float, float, float]  # left, top, right, bottom, as fractions of the image


def parse_box(text: str, *, option: str) -> Box:
    """'left,top,right,bottom' as fractions of an image -> a box."""
    try:
        left, top, right, bottom = (float(edge) for edge in text.split(","))
    except ValueError:
        left, top, right, bottom = 1.0, 1.0, 0.0, 0.0
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise ConfigError(f"{option}={text!r}: give left,top,right,bottom as fractions of the image, e.g. 0,0,0.5,0.5")
    return left, top, right, bottom


def box_slices(box: Box, height: int, width: int) -> tuple[slice, slice]:
    """Return the rows and the columns of a box in an image, at least one of each."""
    left, top, right, bottom = box
    rows = slice(round(top * height), max(round(bottom * height), round(top * height) + 1))
    return rows, slice(round(left * width), max(round(right * width), round(left * width) + 1))


class ImageDataInfo(NamedTuple):
    """Facts about the data that a run stores: the shape of images, and the names of classes."""

    shape: ImageShape
    classes: tuple[str, ...]
    extra: Mapping[str, Any] = {}

    def save(self, folder: Path, example: bytes) -> None:
        """Write images.json, and example.png unless `example` is empty."""
        table = {"shape": asdict(self.shape), "classes": self.classes, **self.extra}
        write_text(folder / FILE, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        if example:
            write_bytes(folder / EXAMPLE, example)


def load_data_info(folder: Path) -> ImageDataInfo:
    """Read images.json of a run folder."""
    path = folder / FILE
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return ImageDataInfo(ImageShape(**table.pop("shape")), tuple(map(str, table.pop("classes"))), table)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: missing or damaged ({error!r}); copy it from the original run") from None


def example_png(folder: Path | None, make_pixels: Callable[[], Pixels]) -> bytes:
    """Return the bytes of the example image of a run folder; without a folder, encode the pixels of `make_pixels`."""
    if folder is None:
        return encode_png(make_pixels())
    return (folder / EXAMPLE).read_bytes() if (folder / EXAMPLE).exists() else b""


def example_paths(folder: Path | None) -> tuple[str, ...]:
    """Return the path of the example image of a run folder, if it has one."""
    return () if folder is None or not (folder / EXAMPLE).exists() else (str(folder / EXAMPLE),)


class InputImage(NamedTuple):
    """An input image with the channels of the model, and remarks on how it was converted."""

    name: str
    pixels: Pixels  # (h w c)
    remarks: tuple[str, ...]
    original: Pixels | None = None  # (h w c) before it was resized; None: it was not

    @property
    def full_size(self) -> Pixels:
        """The image as the user gave it, in the channels of the model."""
        return self.pixels if self.original is None else self.original


def read_image(source: Any, channels: int) -> InputImage:
    """Read an image in grey (1 channel) or colour (3 channels): the path of a file, a Pillow image, or an array."""
    if is_image_object(source):
        name, opened = "image", _open_object(source)
    else:
        text = str(source).strip()
        if not text:
            raise DataError("there is no image; give the path of an image file")
        name, opened = Path(text).name, open_image(Path(text))
    image = opened.image.convert("L" if channels == 1 else "RGB")
    pixels = np.asarray(image, np.uint8).reshape(image.height, image.width, channels)
    return InputImage(name, pixels, opened.remarks)


def is_image_object(value: Any) -> bool:
    """Return True for a Pillow image or a NumPy array."""
    return isinstance(value, np.ndarray) or (hasattr(value, "convert") and hasattr(value, "getexif"))


def _open_object(value: Any) -> LoadedImage:
    """Convert a Pillow image, or an array (h w), (h w 1) or (h w 3), to an 8-bit image."""
    if not isinstance(value, np.ndarray):
        return convert_image(value, "the image")
    if value.ndim not in (2, 3) or not value.size:
        raise DataError(f"an array of shape {value.shape} is not an image; give (height, width) or (height, width, 3)")
    where = f"the array of shape {value.shape}"
    return LoadedImage(to_image(arrays.to_bytes(value if value.ndim == 3 else value[..., None], where)))


def resize_image(image: InputImage, shape: ImageShape) -> InputImage:
    """Resize an image, and add a remark if its size changes."""
    size = image.pixels.shape[:2]
    if size == (shape.height, shape.width):
        return image
    remark = f"{size[0]}x{size[1]} pixels: resized to {shape.height}x{shape.width}"
    pixels = shape.apply_array(image.pixels[None])[0]
    return InputImage(image.name, pixels, (*image.remarks, remark), image.full_size)


def format_remarks(image: InputImage | None) -> tuple[str, ...]:
    """Return the remarks on an input image as one line; empty if there are none."""
    return (f"{image.name}: {'; '.join(image.remarks)}",) if image is not None and image.remarks else ()


def class_index(name: str, classes: Sequence[str]) -> int:
    """Return the index of a class by its name; -1 for an empty name."""
    if name and name not in classes:
        hint = did_you_mean(name, classes) if classes else "it was trained without classes"
        raise DataError(f"the model does not know the class {name!r}; {hint}")
    return classes.index(name) if name else -1


def summarize_images(splits: Mapping[str, Sized], shape: ImageShape, *more: str) -> list[str]:
    """Return the number of images of each split, their size and further facts; then the first example.

    The last of `more` describes the first example.
    """
    size = f"{shape.height}x{shape.width} pixels in {'grey' if shape.channels == 1 else 'colour'}"
    *facts, first = more
    return [
        data_summary.format_counts("images", {name: len(part) for name, part in splits.items()}, size, *facts),
        data_summary.format_first_example("image", first),
    ]


def fingerprint(parts: Mapping[str, Iterable[Any]]) -> dict[str, str]:
    """Return a checksum of the arrays of each split."""
    return {
        name: hash_batches(tuple(map(torch.from_numpy, map(np.ascontiguousarray, example))) for example in examples)
        for name, examples in parts.items()
    }


def shuffled_batches(count: int, batch_size: int, *, epoch: int, seed: int) -> list[Indices]:
    """Return all example indices in random order, in batches; the same for the same seed and epoch."""
    order = np.random.default_rng(combine_seeds(seed, epoch)).permutation(count)
    return [order[low : low + batch_size] for low in range(0, count, batch_size)]


def to_tensor(pixels: Pixels) -> Tensor:
    """(b h w c) of 0 … 255 -> (b c h w) of -1 … 1."""
    return torch.from_numpy(pixels.transpose(0, 3, 1, 2).astype(np.float32)).mul_(2 / 255).sub_(1)


def image_source(config: Any, *, held_out: HoldOut = "image") -> ImageSource:
    """Return the image source of a task's Config: its path or dataset, target shape and seed."""
    shape = TargetShape(config.height, config.width, config.channels, config.fit, config.fill)
    return ImageSource(config.path, config.dataset, shape, held_out, config.seed)
