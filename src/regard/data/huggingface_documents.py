"""Hugging Face datasets, from disk or by name, as documents with labels (extra `datasets`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from regard.core import trust
from regard.core.errors import DataError
from regard.core.extras import require
from regard.data.examples import SPLIT_ALIASES, Examples
from regard.data.huggingface import PREFIX
from regard.data.text.document_files import Document, Layout, from_record


def open_splits(source: Path | str) -> dict[str, Any]:
    """A folder written by `save_to_disk`, or `hf:owner/dataset[:configuration]` -> its parts, by split."""
    library = require("datasets", extra="datasets")
    try:
        if isinstance(source, Path):
            opened = library.load_from_disk(str(source))
        else:
            dataset, _, configuration = source.removeprefix(PREFIX).partition(":")
            trust.check_network(source)
            opened = library.load_dataset(dataset, configuration or None)
    except (OSError, ValueError) as wrong:
        reason = (str(wrong).splitlines() or [type(wrong).__name__])[0]
        raise DataError(f"{source}: cannot be loaded: {reason}") from None
    parts = opened if isinstance(opened, dict) else {"train": opened}
    named = {SPLIT_ALIASES[name]: part for name, part in parts.items() if name in SPLIT_ALIASES}
    if not named:
        raise DataError(f"{source}: no split named train, valid or test; it has {', '.join(map(str, parts))}")
    return named


def read_documents(source: Path | str, layout: Layout) -> dict[str, Examples[Document]]:
    """A dataset with a column of texts and one of labels (names, or numbers of named classes) -> documents by split."""
    return {
        split: Examples(
            f"{source} {split}",
            partial(_documents, part, layout, where=f"{source} {split}"),
            key=f"{getattr(part, '_fingerprint', '')} {layout}",
            bytes=int(getattr(part, "size_in_bytes", 0) or 0),
        )
        for split, part in open_splits(source).items()
    }


def _documents(part: Any, layout: Layout, *, where: str) -> Iterator[Document]:
    feature = part.features.get(layout.label)
    names = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
    for number, record in enumerate(part, start=1):
        yield from_record(_named(record, layout.label, names), layout, f"{where}:{number}")


def _named(record: dict[str, Any], column: str, names: Sequence[str] | None) -> dict[str, Any]:
    """A record with the names of its classes in place of their numbers."""
    label = record.get(column)
    if names is None or not isinstance(label, int | list):
        return record
    named = [names[number] for number in label] if isinstance(label, list) else names[label]
    return {**record, column: named}
