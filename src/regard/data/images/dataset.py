"""Image datasets in three splits, from a path, from scikit-learn's digits or from a Hugging Face dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b, sha256
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.files import cache_folder, file_state
from regard.core.protocols import Indices
from regard.data import huggingface
from regard.data.builtin import digits
from regard.data.examples import hold_out
from regard.data.images import label_tables
from regard.data.images.cache import SPLITS, VERSION, CachedImages, RecordSource, load_or_build
from regard.data.images.image_files import Pixels, enable_heif
from regard.data.images.loader import ImageReader, Record, TargetShape
from regard.data.images.resize import ImageShape

BUILT_IN = "digits"
HELD_OUT_DIVISOR = 10  # 1 / 10 of the images is held out for a split that the data does not have
MAX_HELD_OUT = 5000  # images held out per split; also the images per chunk of `ImageCollection.arrays`
HoldOut = Literal["image", "class"]


@dataclass(frozen=True)
class ImageSource:
    """Source of images: a path, or a dataset name if there is no path."""

    path: Path | None = None
    name: str = BUILT_IN  # digits, or hf:owner/dataset
    target_shape: TargetShape = field(default_factory=TargetShape)
    held_out: HoldOut = "image"  # hold out single images for missing splits, or entire classes
    seed: int = 1


class Images(NamedTuple):
    """The images of one split."""

    pixels: Pixels  # (n h w c) of all splits
    labels: NDArray[np.int64]  # (n)
    indices: Indices  # rows of this split

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, examples: Indices) -> tuple[Pixels, NDArray[np.int64]]:
        """Example indices -> pixels (b h w c) and labels (b), -1 for images without a class."""
        rows = self.indices[examples]
        return self.pixels[rows], self.labels[rows]

    def all(self) -> tuple[Pixels, NDArray[np.int64]]:
        """Return all images of the split."""
        return self.take(np.arange(len(self)))


class ImageCollection(NamedTuple):
    """Image dataset: splits, classes, image shape, and remarks for the user."""

    splits: dict[str, Images]
    classes: tuple[str, ...]
    shape: ImageShape
    remarks: tuple[str, ...]

    def split(self, name: str) -> Images:
        """Return the images of a split; an unknown split is an error that lists the splits."""
        if name not in self.splits:
            raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self.splits)}")
        return self.splits[name]

    @property
    def first_label(self) -> str:
        """Describe the class of the first training image."""
        label = int(self.split("train").take(np.arange(1))[1][0])
        return f"class {self.classes[label]}" if label >= 0 else "of no class"

    def arrays(self) -> dict[str, Iterator[tuple[Pixels, NDArray[np.int64]]]]:
        """Return an iterator over (pixels, labels) chunks for each split."""
        return {name: _chunks(images) for name, images in self.splits.items()}


def _chunks(images: Images) -> Iterator[tuple[Pixels, NDArray[np.int64]]]:
    for low in range(0, len(images), MAX_HELD_OUT):
        yield images.take(np.arange(low, min(low + MAX_HELD_OUT, len(images))))


def load_collection(source: ImageSource) -> ImageCollection:
    """Load a source as splits; files are decoded once and memory-mapped from the cache afterwards."""
    images = _read(source)
    source_rows = {name: np.flatnonzero(images.splits == index) for index, name in enumerate(SPLITS)}
    unassigned = source_rows.pop("")
    if len(unassigned):
        source_rows["train"] = np.concatenate([source_rows["train"], unassigned])
    present = {name: indices for name, indices in source_rows.items() if len(indices)}
    rows = add_missing_splits(present, _split_keys(images, source))
    splits = {name: Images(images.pixels, images.labels, rows[name]) for name in SPLITS[1:] if name in rows}
    return ImageCollection(splits, images.classes, images.shape, images.remarks)


def _read(source: ImageSource) -> CachedImages:
    reader = ImageReader(source.target_shape)
    if source.path is None and source.name == BUILT_IN:
        pixels, labels = digits.load()
        shape = _built_in_shape(source.target_shape)
        classes = tuple(map(str, range(10)))
        return CachedImages(shape.apply_array(pixels), labels, np.zeros(len(labels), np.uint8), classes, shape, ())
    if source.path is not None:
        read: RecordSource = partial(reader.read, source.path)
        key = files_fingerprint(source.path)
    elif source.name.startswith(huggingface.PREFIX):
        read, key = partial(_read_from_hub, reader, source.name), source.name
    else:
        names = (BUILT_IN, f"{huggingface.PREFIX}owner/dataset")
        raise ConfigError(
            f"no data {source.name!r}; files are given as data.path=…; {did_you_mean(source.name, names)}"
        )
    cache_key = sha256(f"{VERSION} {source.target_shape} {key}".encode()).hexdigest()[:24]
    return load_or_build(reader, read, key=cache_key, folder=cache_folder() / "images")


def _built_in_shape(target: TargetShape) -> ImageShape:
    side = digits.SIDE
    return ImageShape(
        target.height or side, target.width or side, target.channels or 1, target.fit, target.fill, target.resample
    )


def _read_from_hub(reader: ImageReader, name: str) -> Iterator[Record]:
    return reader.records(huggingface.read_images(name))


def files_fingerprint(path: Path) -> str:
    """Return a string of the files' paths, sizes, inodes and times, and of the image decoder: its version and HEIC."""
    folder = path.parent if path.is_file() and label_tables.is_table_name(path) else path  # a table next to its images
    files = sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else [path]
    states = ((file, state) for file in files if (state := file_state(file)) is not None)
    decoder = f"{metadata.version('pillow')};heif={enable_heif()};"
    table = path.name if folder != path else ""
    return f"{decoder}{table};" + "".join(f"{file.resolve()}:{state};" for file, state in states)


def _split_keys(images: CachedImages, source: ImageSource) -> NDArray[np.uint64]:
    """Hash each image (or its class) with the seed: equal images get equal keys."""
    salt = source.seed.to_bytes(16, "little", signed=True)
    if source.held_out == "class":
        if len(images.classes) < 3:
            raise ConfigError(f"held_out='class': {len(images.classes)} classes cannot be divided among three splits")
        digests = [blake2b(name.encode(), digest_size=8, salt=salt).digest() for name in images.classes]
        return np.frombuffer(b"".join(digests), np.uint64)[images.labels]
    rows = (blake2b(image.tobytes(), digest_size=8, salt=salt).digest() for image in images.pixels)
    return np.frombuffer(b"".join(rows), np.uint64)


def add_missing_splits(splits: dict[str, Indices], keys: NDArray[np.uint64]) -> dict[str, Indices]:
    """Cut missing splits off train: valid, and also test if the data has neither. Rows of equal key stay in the same
    split."""
    if "train" not in splits:
        raise DataError(f"there are no training images; the splits are: {', '.join(splits) or 'none'}")
    missing = [] if "valid" in splits else ["valid"] if "test" in splits else ["valid", "test"]
    size = min(MAX_HELD_OUT, max(1, len(splits["train"]) // HELD_OUT_DIVISOR))
    return splits | hold_out(splits["train"], keys, missing, size=size, noun="images")
