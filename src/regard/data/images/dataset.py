"""Where images come from (a path, scikit-learn's digits, a Hugging Face dataset), as three splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.files import cache_folder
from regard.core.protocols import Indices
from regard.data import huggingface
from regard.data.builtin import digits
from regard.data.examples import hold_out
from regard.data.images.cache import SPLITS, VERSION, CachedImages, RecordSource, load_or_build
from regard.data.images.image_files import Pixels
from regard.data.images.loader import ImageReader, Record, TargetShape
from regard.data.images.resize import ImageShape

BUILT_IN = "digits"
HELD_OUT_DIVISOR = 10  # one image in so many is held out for a split that the data does not have
MAX_HELD_OUT = 5000  # images held out for a split
HoldOut = Literal["image", "class"]


@dataclass(frozen=True)
class ImageSource:
    """Which images: those of a path, which comes first, or of a name."""

    path: Path | None = None
    name: str = BUILT_IN  # digits, or hf:owner/dataset
    target_shape: TargetShape = field(default_factory=TargetShape)
    held_out: HoldOut = "image"  # what is held out for missing splits: single images, or whole classes
    seed: int = 1


class Images(NamedTuple):
    """The images of one split."""

    pixels: Pixels  # (n h w c) of all splits
    labels: NDArray[np.int64]  # (n)
    indices: Indices  # those of this split

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, examples: Indices) -> tuple[Pixels, NDArray[np.int64]]:
        """Example numbers -> pixels (b h w c) and labels (b), -1 where there is none."""
        rows = self.indices[examples]
        return self.pixels[rows], self.labels[rows]

    def all(self) -> tuple[Pixels, NDArray[np.int64]]:
        """Every image of the split."""
        return self.take(np.arange(len(self)))


class ImageCollection(NamedTuple):
    """Splits, classes, shape, and what a user should know."""

    splits: dict[str, Images]
    classes: tuple[str, ...]
    shape: ImageShape
    remarks: tuple[str, ...]

    def split(self, name: str) -> Images:
        """The images of a split, or an error that lists the splits there are."""
        if name not in self.splits:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self.splits)}")
        return self.splits[name]

    @property
    def first_label(self) -> str:
        """The class of the first training image, in words."""
        label = int(self.split("train").take(np.arange(1))[1][0])
        return f"class {self.classes[label]}" if label >= 0 else "of no class"

    def arrays(self) -> dict[str, Iterator[tuple[Pixels, NDArray[np.int64]]]]:
        """Pixels and classes of each split, some thousand images at a time."""
        return {name: _parts(images) for name, images in self.splits.items()}


def _parts(images: Images) -> Iterator[tuple[Pixels, NDArray[np.int64]]]:
    for low in range(0, len(images), MAX_HELD_OUT):
        yield images.take(np.arange(low, min(low + MAX_HELD_OUT, len(images))))


def load_collection(source: ImageSource) -> ImageCollection:
    """An origin -> its images; those of files are read once and mapped from the cache afterwards."""
    images = _read(source)
    given = {name: np.flatnonzero(images.splits == number) for number, name in enumerate(SPLITS)}
    loose = given.pop("")
    if len(loose):
        given["train"] = np.concatenate([given["train"], loose])
    rows = add_missing_splits({name: rows for name, rows in given.items() if len(rows)}, _keys(images, source))
    splits = {name: Images(images.pixels, images.labels, rows[name]) for name in SPLITS[1:] if name in rows}
    return ImageCollection(splits, images.classes, images.shape, images.remarks)


def _read(origin: ImageSource) -> CachedImages:
    reader = ImageReader(origin.target_shape)
    if origin.path is None and origin.name == BUILT_IN:
        pixels, labels = digits.load()
        shape = _of_built_in(origin.target_shape)
        classes = tuple(map(str, range(10)))
        return CachedImages(shape.apply_array(pixels), labels, np.zeros(len(labels), np.uint8), classes, shape, ())
    if origin.path is not None:
        read: RecordSource = partial(reader.read, origin.path)
        key = files_fingerprint(origin.path)
    elif origin.name.startswith(huggingface.PREFIX):
        read, key = partial(_from_name, reader, origin.name), origin.name
    else:
        known = (BUILT_IN, f"{huggingface.PREFIX}owner/dataset")
        raise ConfigError(
            f"no data {origin.name!r}; files are given as data.path=…; {did_you_mean(origin.name, known)}"
        )
    named = sha256(f"{VERSION} {origin.target_shape} {key}".encode()).hexdigest()[:24]
    return load_or_build(reader, read, key=named, folder=cache_folder() / "images")


def _of_built_in(wanted: TargetShape) -> ImageShape:
    side = digits.SIDE
    return ImageShape(wanted.height or side, wanted.width or side, wanted.channels or 1, wanted.fit, wanted.fill)


def _from_name(reader: ImageReader, name: str) -> Iterator[Record]:
    return reader.records(huggingface.read_images(name))


def files_fingerprint(path: Path) -> str:
    """The same for the same files: paths, sizes and times."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    facts = ((file, file.stat()) for file in files if file.exists())
    return "".join(f"{file.resolve()}:{fact.st_size}:{fact.st_mtime_ns};" for file, fact in facts)


def _keys(images: CachedImages, origin: ImageSource) -> NDArray[np.uint64]:
    """A number for each image, the same for equal images (or for all of one class), unlike from seed to seed."""
    salt = origin.seed.to_bytes(16, "little", signed=True)
    if origin.held_out == "class":
        if len(images.classes) < 3:
            raise ConfigError(f"held_out='class': {len(images.classes)} classes cannot be shared among three splits")
        digests = [blake2b(name.encode(), digest_size=8, salt=salt).digest() for name in images.classes]
        return np.frombuffer(b"".join(digests), np.uint64)[images.labels]
    rows = (blake2b(image.tobytes(), digest_size=8, salt=salt).digest() for image in images.pixels)
    return np.frombuffer(b"".join(rows), np.uint64)


def add_missing_splits(splits: dict[str, Indices], keys: NDArray[np.uint64]) -> dict[str, Indices]:
    """Rows of the splits there are -> the same with valid (and test, if neither was there) cut off train, so that no
    two rows of equal key are in two of them."""
    if "train" not in splits:
        raise DataError(f"there are no training images; found {', '.join(splits) or 'nothing'}")
    missing = [] if "valid" in splits else ["valid"] if "test" in splits else ["valid", "test"]
    size = min(MAX_HELD_OUT, max(1, len(splits["train"]) // HELD_OUT_DIVISOR))
    return splits | hold_out(splits["train"], keys, missing, size=size, noun="images")
