"""Images one by one, wherever they come from, brought to one shape; what had to be done to them is counted.

A record is what every source gives: pixels of the wanted shape, the name of the class, the split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.core.errors import DataError
from regard.data import huggingface
from regard.data.images import arrays, listing
from regard.data.images.arrays import Block
from regard.data.images.image_files import Pixels, open_image, to_image
from regard.data.images.resize import Fit, ImageShape

RESIZED_REMARK = "another size: brought to {}x{}"


class Record(NamedTuple):
    """One image."""

    split: str | None
    label: str | None
    pixels: Pixels  # (h w c)


@dataclass(frozen=True)
class TargetShape:
    """The shape that is asked for; 0 is that of the first image."""

    height: int = 0
    width: int = 0
    channels: int = 0
    fit: Fit = "stretch"
    fill: int = 0

    def resolve(self, image: Any) -> ImageShape:
        """What is asked for, and the rest from an image of Pillow."""
        channels = self.channels or (1 if image.mode == "L" else 3)
        return ImageShape(self.height or image.height, self.width or image.width, channels, self.fit, self.fill)


class Remarks:
    """What there is to say of many images: each thing once, with how often and the first of them."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str]] = {}

    def add(self, remark: str, where: str) -> None:
        """One more image of which this is to be said."""
        count, first = self._seen.get(remark, (0, where))
        self._seen[remark] = count + 1, first

    def lines(self) -> list[str]:
        """One line each."""
        return [
            f"{first}: {remark}" if count == 1 else f"{count} images ({first} …): {remark}"
            for remark, (count, first) in self._seen.items()
        ]


class ImageReader:
    """Records of one shape from images of any; the first image decides what was not asked for."""

    def __init__(self, target_shape: TargetShape) -> None:
        self.target_shape = target_shape
        self.shape: ImageShape | None = None
        self.remarks = Remarks()

    def to_pixels(self, image: Any, where: str) -> Pixels:
        """An image of Pillow -> pixels of the wanted shape."""
        if self.shape is None:
            self.shape = self.target_shape.resolve(image)
        size = image.height, image.width
        if size != (self.shape.height, self.shape.width):
            if not (self.target_shape.height and self.target_shape.width):
                first = f"{self.shape.height}x{self.shape.width}"
                raise DataError(
                    f"{where}: {size[0]}x{size[1]} pixels, but images before it {first}; "
                    "say to which size all are brought, for example data.height=32 data.width=32"
                )
            self.remarks.add(RESIZED_REMARK.format(self.shape.height, self.shape.width), where)
        return self.shape.apply(image)

    def read(self, path: Path) -> Iterator[Record]:
        """A file, folder or archive -> its images; what cannot be read is left out and said."""
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; give images, a folder or an archive of them")
        if huggingface.is_saved(path):
            yield from self.records(huggingface.read_images(path))
        elif files := array_files(path):
            for file in files:
                for block in read_blocks(file):
                    yield from self._block(block)
        else:
            yield from self._entries(path)

    def records(self, rows: Iterator[huggingface.ImageRow]) -> Iterator[Record]:
        """Rows of a Hugging Face dataset -> records."""
        for row in rows:
            opened = open_image(row.data, name=row.where)
            for remark in opened.remarks:
                self.remarks.add(remark, row.where)
            yield Record(row.split, row.label, self.to_pixels(opened.image, row.where))

    def _block(self, block: Block) -> Iterator[Record]:
        self.to_pixels(to_image(block.pixels[0]), block.where)  # settles the shape
        assert self.shape is not None
        labels = [None] * len(block.pixels) if block.labels is None else [str(label) for label in block.labels]
        for low in range(0, len(block.pixels), 1024):
            part = self.shape.apply_array(block.pixels[low : low + 1024])
            for label, pixels in zip(labels[low : low + 1024], part, strict=True):
                yield Record(block.split, label, pixels)

    def _entries(self, path: Path) -> Iterator[Record]:
        unread: list[str] = []
        count = 0
        for entry in listing.list_images(path):
            try:
                opened = open_image(entry.source, name=entry.where)
            except DataError as wrong:
                unread.append(str(wrong))
                continue
            count += 1
            for remark in opened.remarks:
                self.remarks.add(remark, entry.where)
            yield Record(entry.split, entry.label, self.to_pixels(opened.image, entry.where))
        if unread and not count:
            raise DataError(unread[0])
        if unread:
            self.remarks.add(f"left out, as are {len(unread) - 1} more that cannot be read", unread[0])
        if not count:
            raise DataError(f"{path}: no images in it; give PNG, JPEG, PGM …, idx or .npz files, or archives of images")


def array_files(path: Path) -> list[Path]:
    """The idx and .npz files that a path is, or has in it."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if arrays.is_idx(file) or file.suffix == ".npz"]


def holds_images(path: Path) -> bool:
    """Whether a file or folder holds images, by the names of its files."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    if array_files(path) or any(listing.is_image(file.name) for file in files):
        return True
    return any(listing.has_images(file) for file in files if file.is_file() and listing.is_archive(file))


def read_blocks(path: Path) -> Iterator[Block]:
    """The images of an idx or .npz file; a file without any is an error."""
    for block in [arrays.read_idx(path)] if arrays.is_idx(path) else arrays.read_npz(path):
        if not np.prod(block.pixels.shape):
            raise DataError(f"{block.where}: there are no images in it")
        yield block


def as_target_shape(shape: ImageShape) -> TargetShape:
    """A shape that is known as what is wanted of further images."""
    return TargetShape(*astuple(shape))
