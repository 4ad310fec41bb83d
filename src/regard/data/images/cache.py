"""Images in memory-mapped files: read and brought to one shape once, opened in an instant afterwards.

A folder named after a hash of the files and the shape holds the pixels, a class and a split for each image, and
`images.json`. It is made beside and moved into place, so it is whole or not there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from regard.core.errors import DataError
from regard.data.images.image_files import Pixels
from regard.data.images.loader import ImageReader, Record
from regard.data.images.resize import ImageShape

VERSION = 1
HEADER = "images.json"
SPLITS = ("", "train", "valid", "test")  # "": none was said
ARRAY_DTYPES = {"pixels": np.uint8, "labels": np.int32, "splits": np.uint8}


class CachedImages(NamedTuple):
    """All images of a source."""

    pixels: Pixels  # (n h w c)
    labels: NDArray[np.int64]  # (n), -1 where there is none
    splits: NDArray[np.uint8]  # (n) places in SPLITS
    classes: tuple[str, ...]
    shape: ImageShape
    remarks: tuple[str, ...]


RecordSource = Callable[[], Iterator[Record]]


def load_or_build(reader: ImageReader, read: RecordSource, *, key: str, folder: Path) -> CachedImages:
    """The images that `read` gives, mapped from files in `folder`, which are made if they are not there."""
    place = folder / key
    if not place.exists():
        _make(place, reader, read)
    return load(place)


def load(folder: Path) -> CachedImages:
    """A folder made by `stored` -> the images."""
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        shape, count = ImageShape(**header["shape"]), int(header["count"])
        arrays = {name: np.memmap(folder / name, dtype=kind, mode="r") for name, kind in ARRAY_DTYPES.items()}
        pixels = arrays["pixels"].reshape(count, shape.height, shape.width, shape.channels)
        whole = header["version"] == VERSION and len(arrays["labels"]) == len(arrays["splits"]) == count
        classes, remarks = tuple(header["classes"]), tuple(header["remarks"])
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise DataError(f"{folder}: damaged or of another version; delete this folder, and it is made anew")
    return CachedImages(pixels, arrays["labels"].astype(np.int64), arrays["splits"], classes, shape, remarks)


def _make(place: Path, reader: ImageReader, read: RecordSource) -> None:
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        _write(part, reader, read())
        if not place.exists():  # unless another process was quicker
            os.replace(part, place)
    except OSError as wrong:
        raise DataError(f"{place}: cannot be written: {wrong.strerror}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(part: Path, reader: ImageReader, records: Iterable[Record]) -> None:
    labels: list[str | None] = []
    splits: list[int] = []
    with (part / "pixels").open("wb") as file:
        for record in _watched(records):
            file.write(record.pixels.tobytes())
            labels.append(record.label)
            splits.append(SPLITS.index(record.split or ""))
        file.flush()
        os.fsync(file.fileno())
    assert reader.shape is not None
    classes = sorted({label for label in labels if label is not None}, key=_natural)
    numbers = {label: number for number, label in enumerate(classes)}
    np.array([-1 if label is None else numbers[label] for label in labels], dtype=ARRAY_DTYPES["labels"]).tofile(
        part / "labels"
    )
    np.array(splits, dtype=ARRAY_DTYPES["splits"]).tofile(part / "splits")
    header = {"version": VERSION, "count": len(labels), "classes": classes, "shape": asdict(reader.shape)}
    header["remarks"] = reader.remarks.lines()
    (part / HEADER).write_text(json.dumps(header, ensure_ascii=False), encoding="utf-8")


def _watched(records: Iterable[Record]) -> Iterator[Record]:
    """The records, with a bar that shows how many have gone by; nothing where there is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("reading images"), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=None)
        for record in records:
            progress.advance(bar)
            yield record


def _natural(name: str) -> list[tuple[int, str]]:
    """A key by which s2 comes before s10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
