"""Readers for image arrays: the idx files of MNIST and the .npz files of NumPy."""

from __future__ import annotations

import gzip
import math
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.examples import SPLIT_ALIASES
from regard.data.images.image_files import Pixels

IDX_UINT8 = 0x08  # type code of unsigned bytes in an idx file
MAX_UNIT_FLOAT = 1.0  # float arrays up to this maximum are scaled by 255
IMAGE_KEYS = ("images", "image", "x", "pixels", "data")
LABEL_KEYS = ("labels", "label", "y", "targets", "classes")
READ_ERRORS = (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile, NotImplementedError)


class Block(NamedTuple):
    """A batch of images from one array; `labels` is None if the source has none."""

    where: str
    split: str | None
    pixels: Pixels  # (n h w c)
    labels: NDArray[np.int64] | None  # (n)


def is_idx(path: Path) -> bool:
    """Return True if the file name is that of an idx file of images: train-images-idx3-ubyte(.gz)."""
    return "images" in path.name and "idx3" in path.name


def read_idx(path: Path) -> Block:
    """Read an idx file of images, with the labels of the idx1 file next to it if there is one."""
    pixels = _read_idx_array(path)
    if pixels.ndim != 3:
        raise DataError(f"{path}: {pixels.ndim} axes, but images have 3; is it the file of labels?")
    label_path = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    labels = _read_idx_array(label_path).astype(np.int64) if label_path.exists() else None
    _check_same_length(path, pixels, labels)
    return Block(str(path), _split_of(path.name), pixels[..., None], labels)


def _read_idx_array(path: Path) -> Pixels:
    """Parse an idx file: two zero bytes, the type code, the number of axes, each size as 4 bytes, then the values."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        zero, type_code, axes = int.from_bytes(raw[:2], "big"), raw[2], raw[3]
        shape = tuple(np.frombuffer(raw, ">u4", axes, 4).tolist())
        if zero or type_code != IDX_UINT8 or len(raw) != 4 + 4 * axes + math.prod(shape):
            raise ValueError("header and size do not agree")
        return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)
    except (*READ_ERRORS, IndexError) as error:
        raise DataError(f"{path}: not an idx file of bytes, or truncated ({error}); download it again") from None


def read_npz(path: Path) -> Iterator[Block]:
    """Read a .npz file with x_train, y_train, x_test …, with train_images, train_labels …, or with images, labels."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            table = {name.lower(): archive[name] for name in archive.files}
    except READ_ERRORS as error:
        raise DataError(f"{path}: not a .npz file of plain arrays ({error}); save it with np.savez") from None
    images = {name: table[name] for name in table if _kind(name) == "images" and table[name].ndim in (3, 4)}
    if not images:
        raise DataError(f"{path}: no array of images (n h w) or (n h w c) such as x_train; found {', '.join(table)}")
    for name, pixels in images.items():
        split = _split_of(name)
        labels = next((table[key] for key in table if _kind(key) == "labels" and _split_of(key) == split), None)
        class_ids = None if labels is None else _to_class_ids(path, labels)
        uint8_pixels = to_bytes(pixels if pixels.ndim == 4 else pixels[..., None], f"{path}: {name}")
        _check_same_length(path, uint8_pixels, class_ids)
        yield Block(f"{path}: {name}", split, uint8_pixels, class_ids)


def _to_class_ids(path: Path, labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels of any numeric dtype and shape -> integers (n)."""
    if labels.dtype.kind not in "biuf" or (labels.dtype.kind == "f" and not (labels == np.round(labels)).all()):
        raise DataError(f"{path}: labels must be integers, not {labels.dtype}; number the classes from 0")
    return labels.reshape(-1).astype(np.int64)


def _kind(name: str) -> str:
    words = set(name.replace("-", "_").split("_"))
    return "images" if words & set(IMAGE_KEYS) else "labels" if words & set(LABEL_KEYS) else ""


def _split_of(name: str) -> str | None:
    words = name.lower().replace("-", "_").replace(".", "_").split("_")
    return "test" if "t10k" in words else next((SPLIT_ALIASES[word] for word in words if word in SPLIT_ALIASES), None)


def to_bytes(pixels: NDArray[Any], where: str) -> Pixels:
    """Convert pixels to uint8: floats of 0 … 1 or 0 … 255, and wider integers up to 255; uint8 is unchanged."""
    if pixels.shape[-1] not in (1, 3):
        raise DataError(f"{where} has {pixels.shape[-1]} channels in its last axis; give 1 (grey) or 3 (colour)")
    if pixels.dtype == np.uint8:
        return pixels
    scale = 255.0 if pixels.dtype.kind == "f" and pixels.size and pixels.max() <= MAX_UNIT_FLOAT else 1.0
    scaled = np.rint(pixels.astype(np.float64) * scale) if pixels.dtype.kind in "fiub" else np.array([-1.0])
    if scaled.size and not (scaled.min() >= 0 and scaled.max() <= 255):
        raise DataError(f"{where} is {pixels.dtype} outside 0 … 255; give brightness as bytes, or as floats of 0 … 1")
    return scaled.astype(np.uint8)


def _check_same_length(path: Path, pixels: Pixels, labels: NDArray[np.int64] | None) -> None:
    if labels is not None and len(labels) != len(pixels):
        raise DataError(f"{path}: {len(pixels)} images but {len(labels)} labels; they must belong together")
