"""Cache of decoded and resized images in memory-mapped files.

A folder named by a hash of the source files and the target shape holds the pixels, the class and the split of every
image, and `images.json`. The folder is written atomically.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from regard.core.errors import DataError
from regard.core.files import atomic_folder
from regard.data.images.image_files import Pixels
from regard.data.images.loader import ImageReader, Record
from regard.data.images.resize import ImageShape

VERSION = 1
HEADER = "images.json"
SPLITS = ("", "train", "valid", "test")  # "": the source names no split
ARRAY_DTYPES = {"pixels": np.uint8, "labels": np.int32, "splits": np.uint8}


class CachedImages(NamedTuple):
    """All images of a source, in all splits."""

    pixels: Pixels  # (n h w c)
    labels: NDArray[np.int64]  # (n), -1 for images without a class
    splits: NDArray[np.uint8]  # (n) indices into SPLITS
    classes: tuple[str, ...]
    shape: ImageShape
    remarks: tuple[str, ...]


RecordSource = Callable[[], Iterator[Record]]


def load_or_build(reader: ImageReader, read: RecordSource, *, key: str, folder: Path) -> CachedImages:
    """Return the images from the cache in `folder`; if they are not cached, read them with `read` and store them."""
    path = folder / key
    if not path.exists():
        with atomic_folder(path) as draft:
            _write(draft, reader, read())
    return load(path)


def load(folder: Path) -> CachedImages:
    """Load the images of a folder written by `load_or_build`."""
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        shape, count = ImageShape(**header["shape"]), int(header["count"])
        arrays = {name: np.memmap(folder / name, dtype=dtype, mode="r") for name, dtype in ARRAY_DTYPES.items()}
        pixels = arrays["pixels"].reshape(count, shape.height, shape.width, shape.channels)
        intact = header["version"] == VERSION and len(arrays["labels"]) == len(arrays["splits"]) == count
        classes, remarks = tuple(header["classes"]), tuple(header["remarks"])
    except (OSError, ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise DataError(f"{folder}: damaged or of another version; delete this folder, and it is created again")
    return CachedImages(pixels, arrays["labels"].astype(np.int64), arrays["splits"], classes, shape, remarks)


def _write(folder: Path, reader: ImageReader, records: Iterable[Record]) -> None:
    labels: list[str | None] = []
    splits: list[int] = []
    with (folder / "pixels").open("wb") as file:
        for record in _show_progress(records):
            file.write(record.pixels.tobytes())
            labels.append(record.label)
            splits.append(SPLITS.index(record.split or ""))
        file.flush()
        os.fsync(file.fileno())
    assert reader.shape is not None
    classes = sorted({label for label in labels if label is not None}, key=_natural_key)
    ids = {label: index for index, label in enumerate(classes)}
    label_ids = [-1 if label is None else ids[label] for label in labels]
    np.array(label_ids, dtype=ARRAY_DTYPES["labels"]).tofile(folder / "labels")
    np.array(splits, dtype=ARRAY_DTYPES["splits"]).tofile(folder / "splits")
    header = {"version": VERSION, "count": len(labels), "classes": classes, "shape": asdict(reader.shape)}
    header["remarks"] = reader.remarks.lines()
    (folder / HEADER).write_text(json.dumps(header, ensure_ascii=False), encoding="utf-8")


def _show_progress(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records while a progress bar counts them; without a terminal there is no bar."""
    console = Console(stderr=True)
    columns = (TextColumn("reading images"), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=None)
        for record in records:
            progress.advance(bar)
            yield record


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Sort key that orders s2 before s10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
