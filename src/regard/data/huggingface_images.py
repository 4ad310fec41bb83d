"""Hugging Face datasets of images, from disk or by name (extra `datasets`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError, did_you_mean
from regard.core.extras import require
from regard.data.examples import SPLIT_ALIASES
from regard.data.huggingface import PREFIX, is_saved

__all__ = ["PREFIX", "Row", "is_saved", "read_from_hub", "read_saved"]
LABEL_COLUMNS = ("label", "labels", "fine_label", "class")


class Row(NamedTuple):
    """An image file of a dataset."""

    where: str
    split: str
    label: str | None
    data: bytes


def read_saved(path: Path) -> Iterator[Row]:
    """A folder written by `save_to_disk` -> its images."""
    library = require("datasets", extra="datasets")
    try:
        found = library.load_from_disk(str(path))
    except (OSError, ValueError) as wrong:
        raise DataError(f"{path}: not a saved dataset that can be read: {_first_line(wrong)}") from None
    yield from _rows(found, str(path))


def read_from_hub(name: str) -> Iterator[Row]:
    """`hf:owner/dataset` -> its images; downloaded by the library, or taken from its cache."""
    library = require("datasets", extra="datasets")
    dataset, _, configuration = name.removeprefix(PREFIX).partition(":")
    try:
        found = library.load_dataset(dataset, configuration or None)
    except (OSError, ValueError) as wrong:
        raise DataError(f"{name}: cannot be loaded: {_first_line(wrong)}") from None
    yield from _rows(found, name)


def _first_line(wrong: Exception) -> str:
    return (str(wrong).splitlines() or [type(wrong).__name__])[0]


def _rows(found: Any, where: str) -> Iterator[Row]:
    library = require("datasets", extra="datasets")
    parts = found if isinstance(found, dict) else {"train": found}
    named = {SPLIT_ALIASES[name]: part for name, part in parts.items() if name in SPLIT_ALIASES}
    if not named:
        raise DataError(f"{where}: no split named train, valid or test; found {', '.join(map(str, parts))}")
    for split, part in named.items():
        images = [name for name, kind in part.features.items() if isinstance(kind, library.Image)]
        if not images:
            raise DataError(f"{where} {split}: no column holds images; {did_you_mean('image', part.features)}")
        label = next((name for name in LABEL_COLUMNS if name in part.features), None)
        kind = part.features[label] if label else None
        raw = part.cast_column(images[0], library.Image(decode=False))
        for number, row in enumerate(raw, start=1):
            place = f"{where} {split}:{number}"
            yield Row(place, split, _name_of(kind, row[label]) if label else None, _bytes_of(row[images[0]], place))


def _name_of(kind: Any, value: Any) -> str:
    return str(kind.int2str(value)) if hasattr(kind, "int2str") else str(value)


def _bytes_of(cell: dict[str, Any], where: str) -> bytes:
    """A cell of an undecoded image column: bytes, or the path of a file."""
    if cell["bytes"] is not None:
        return bytes(cell["bytes"])
    try:
        return Path(cell["path"]).read_bytes()
    except OSError as wrong:
        raise DataError(f"{where}: {cell['path']}: {wrong.strerror}") from None
