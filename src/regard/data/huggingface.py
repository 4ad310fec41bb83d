"""Hugging Face datasets, from disk or by name, as sentence pairs, labelled documents or images (extra `datasets`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from regard.core import trust
from regard.core.errors import DataError, did_you_mean
from regard.core.extras import require
from regard.data.examples import SPLIT_ALIASES, Examples
from regard.data.text import document_files, pair_files
from regard.data.text.document_files import Document, Layout
from regard.data.text.pair_files import Languages, Pair, Pairs

PREFIX = "hf:"  # data.dataset="hf:owner/dataset" or "hf:owner/dataset:configuration"
SAVED_DATASET_FILES = ("dataset_dict.json", "state.json")  # files in the folder of a saved dataset
LABEL_COLUMNS = ("label", "labels", "fine_label", "class")
T = TypeVar("T")


class ImageRow(NamedTuple):
    """An encoded image of a dataset."""

    where: str
    split: str
    label: str | None
    data: bytes


def is_saved(path: Path) -> bool:
    """Return True if a folder is a dataset written by `save_to_disk`."""
    return any((path / name).is_file() for name in SAVED_DATASET_FILES)


def open_splits(source: Path | str) -> dict[str, Any]:
    """Folder written by `save_to_disk`, or `hf:owner/dataset[:configuration]` -> the dataset of each split.

    A dataset given by name is downloaded by the library, or read from the library's cache.
    """
    if isinstance(source, str):
        trust.check_network(source)
    library = require("datasets", extra="datasets")
    try:
        if isinstance(source, Path):
            opened = library.load_from_disk(str(source))
        else:
            dataset, _, configuration = source.removeprefix(PREFIX).partition(":")
            opened = library.load_dataset(dataset, configuration or None)
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{source}: cannot be loaded: {reason}") from None
    parts = opened if isinstance(opened, dict) else {"train": opened}
    splits = {SPLIT_ALIASES[name]: part for name, part in parts.items() if name in SPLIT_ALIASES}
    if not splits:
        raise DataError(f"{source}: no split named train, valid or test; it has {', '.join(map(str, parts))}")
    return splits


def read_pairs(source: Path | str, languages: Languages) -> dict[str, Pairs]:
    """Dataset with one text per language (also under "translation") -> sentence pairs by split."""
    return _examples(source, languages, _pairs)


def read_documents(source: Path | str, layout: Layout) -> dict[str, Examples[Document]]:
    """Dataset with a text column and a label column (names, or class ids) -> documents by split."""
    return _examples(source, layout, _documents)


def read_images(source: Path | str) -> Iterator[ImageRow]:
    """Dataset with an image column -> its encoded images, split by split."""
    library = require("datasets", extra="datasets")
    for split, part in open_splits(source).items():
        columns = [name for name, feature in part.features.items() if isinstance(feature, library.Image)]
        if not columns:
            raise DataError(f"{source} {split}: no column holds images; {did_you_mean('image', part.features)}")
        label = next((name for name in LABEL_COLUMNS if name in part.features), None)
        feature = part.features[label] if label else None
        encoded = part.cast_column(columns[0], library.Image(decode=False))
        for index, row in enumerate(encoded, start=1):
            where = f"{source} {split}:{index}"
            label_name = _class_name(feature, row[label]) if label else None
            yield ImageRow(where, split, label_name, _image_bytes(row[columns[0]], where))


def _examples(
    source: Path | str, options: Languages | Layout, read: Callable[..., Iterator[T]]
) -> dict[str, Examples[T]]:
    return {
        split: Examples(
            f"{source} {split}",
            partial(read, part, options, where=f"{source} {split}"),
            key=f"{getattr(part, '_fingerprint', '')} {options}",
            bytes=int(getattr(part, "size_in_bytes", 0) or 0),
        )
        for split, part in open_splits(source).items()
    }


def _pairs(part: Any, languages: Languages, *, where: str) -> Iterator[Pair]:
    for index, record in enumerate(part, start=1):
        yield pair_files.from_record(record, languages, f"{where}:{index}")


def _documents(part: Any, layout: Layout, *, where: str) -> Iterator[Document]:
    feature = part.features.get(layout.label)
    names = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
    for index, record in enumerate(part, start=1):
        yield document_files.from_record(_with_class_names(record, layout.label, names), layout, f"{where}:{index}")


def _with_class_names(record: dict[str, Any], column: str, names: Sequence[str] | None) -> dict[str, Any]:
    """Return a record whose class ids are replaced by class names."""
    label = record.get(column)
    if names is None or not isinstance(label, int | list):
        return record
    named = [names[class_id] for class_id in label] if isinstance(label, list) else names[label]
    return {**record, column: named}


def _class_name(feature: Any, value: Any) -> str:
    return str(feature.int2str(value)) if hasattr(feature, "int2str") else str(value)


def _image_bytes(cell: dict[str, Any], where: str) -> bytes:
    """Return the bytes of an undecoded image cell, which has them inline or as the path of a file."""
    if cell["bytes"] is not None:
        return bytes(cell["bytes"])
    try:
        return Path(cell["path"]).read_bytes()
    except OSError as error:
        raise DataError(f"{where}: {cell['path']}: {error.strerror}") from None
