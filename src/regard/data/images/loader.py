"""Read images of any supported source as records of one shape, and collect remarks on conversions.

A record holds the pixels in the target shape, the name of the class, and the split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.core.errors import DataError, pluralize
from regard.data import huggingface
from regard.data.images import arrays, label_tables, listing
from regard.data.images.arrays import Block
from regard.data.images.image_files import Pixels, open_image, to_image
from regard.data.images.resize import Fit, ImageShape, Resample

RESIZED_REMARK = "another size: resized to {}x{}"


class Record(NamedTuple):
    """An image with its split and class, None if the source names none."""

    split: str | None
    label: str | None
    pixels: Pixels  # (h w c)


@dataclass(frozen=True)
class TargetShape:
    """The requested image shape; 0 takes the value of the first image."""

    height: int = 0
    width: int = 0
    channels: int = 0
    fit: Fit = "stretch"
    fill: int = 0
    resample: Resample = "bicubic"  # interpolation of pixels

    def resolve(self, image: Any) -> ImageShape:
        """Return the shape, with missing values taken from a Pillow image."""
        channels = self.channels or (1 if image.mode == "L" else 3)
        return ImageShape(
            self.height or image.height, self.width or image.width, channels, self.fit, self.fill, self.resample
        )


class Remarks:
    """Remarks on many images; each text is reported once, with its count and the first image."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, str]] = {}

    def add(self, remark: str, where: str) -> None:
        """Count a remark on the image `where`."""
        count, first = self._counts.get(remark, (0, where))
        self._counts[remark] = count + 1, first

    def lines(self) -> list[str]:
        """Return one line per remark."""
        return [
            f"{first}: {remark}" if count == 1 else f"{count} images ({first} …): {remark}"
            for remark, (count, first) in self._counts.items()
        ]


class ImageReader:
    """Converts images to records of one shape; the first image sets the sizes that were not requested."""

    def __init__(self, target_shape: TargetShape) -> None:
        self.target_shape = target_shape
        self.shape: ImageShape | None = None
        self.remarks = Remarks()

    def to_pixels(self, image: Any, where: str) -> Pixels:
        """Pillow image -> pixels of the target shape."""
        if self.shape is None:
            self.shape = self.target_shape.resolve(image)
        size = image.height, image.width
        if size != (self.shape.height, self.shape.width):
            if not (self.target_shape.height and self.target_shape.width):
                first = f"{self.shape.height}x{self.shape.width}"
                raise DataError(
                    f"{where}: {size[0]}x{size[1]} pixels, but earlier images have {first}; "
                    "set the size to which all are resized, for example data.height=32 data.width=32"
                )
            self.remarks.add(RESIZED_REMARK.format(self.shape.height, self.shape.width), where)
        return self.shape.apply(image)

    def read(self, path: Path) -> Iterator[Record]:
        """Read the images of a file, folder or archive; unreadable images are skipped with a remark."""
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; give images, a folder or an archive of them")
        if huggingface.is_saved(path):
            yield from self.records(huggingface.read_images(path))
        elif files := array_files(path):
            for file in files:
                for block in read_blocks(file):
                    yield from self._read_block(block)
        else:
            yield from self._read_files(path)

    def records(self, rows: Iterator[huggingface.ImageRow]) -> Iterator[Record]:
        """Rows of a Hugging Face dataset -> records."""
        for row in rows:
            opened = open_image(row.data, name=row.where)
            for remark in opened.remarks:
                self.remarks.add(remark, row.where)
            yield Record(row.split, row.label, self.to_pixels(opened.image, row.where))

    def _read_block(self, block: Block) -> Iterator[Record]:
        self.to_pixels(to_image(block.pixels[0]), block.where)  # sets the shape
        assert self.shape is not None
        labels = [None] * len(block.pixels) if block.labels is None else [str(label) for label in block.labels]
        for low in range(0, len(block.pixels), 1024):
            chunk = self.shape.apply_array(block.pixels[low : low + 1024])
            for label, pixels in zip(labels[low : low + 1024], chunk, strict=True):
                yield Record(block.split, label, pixels)

    def _read_files(self, path: Path) -> Iterator[Record]:
        errors: list[str] = []
        readable: list[str] = []
        count = 0
        entries, table = listing.list_labeled_images(path)
        for entry in entries:
            if table is not None and entry.label is None:
                self.remarks.add(f"not in {table.file.name}; skipped", entry.where)
                continue
            try:
                opened = open_image(entry.source, name=entry.where)
            except DataError as error:
                errors.append(str(error))
                continue
            count += 1
            if table is not None:
                readable.append(entry.where)
            for remark in opened.remarks:
                self.remarks.add(remark, entry.where)
            yield Record(entry.split, entry.label, self.to_pixels(opened.image, entry.where))
        if errors and not count:
            raise DataError(errors[0])
        if errors:
            self.remarks.add(f"skipped ({pluralize(len(errors), 'image')} cannot be read)", errors[0])
        if table is not None and not count:
            first = next(iter(table.labels), "")
            raise DataError(f"{table.file}: none of its images exists ({first!r} …); write the names of the files")
        if table is not None and (missing := table.missing_names(readable)):
            self.remarks.add(label_tables.describe_missing(missing, len(table.labels)), str(table.file))
        if not count:
            raise DataError(
                f"{path}: contains no images; give PNG, JPEG, PGM …, idx or .npz files, or archives of images"
            )


def array_files(path: Path) -> list[Path]:
    """Return the idx and .npz files at a path: the file itself, or those in the folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if arrays.is_idx(file) or file.suffix == ".npz"]


def holds_images(path: Path) -> bool:
    """Return True if a file or folder contains images, judged by file names."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    if array_files(path) or any(listing.is_image(file.name) for file in files):
        return True
    return any(listing.has_images(file) for file in files if file.is_file() and listing.is_archive(file))


def read_blocks(path: Path) -> Iterator[Block]:
    """Yield the image arrays of an idx or .npz file; an empty array is an error."""
    for block in [arrays.read_idx(path)] if arrays.is_idx(path) else arrays.read_npz(path):
        if not np.prod(block.pixels.shape):
            raise DataError(f"{block.where}: contains no images")
        yield block


def as_target_shape(shape: ImageShape) -> TargetShape:
    """Return the shape as the request for further images."""
    return TargetShape(*astuple(shape))
