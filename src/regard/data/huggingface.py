"""Hugging Face datasets, from disk or by name, as sentence pairs (extra `datasets`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from regard.core import trust
from regard.core.errors import DataError
from regard.core.extras import require
from regard.data.examples import SPLIT_ALIASES
from regard.data.text.pair_files import Languages, Pair, Pairs, from_record

PREFIX = "hf:"  # data.dataset="hf:owner/dataset" or "hf:owner/dataset:configuration"
SAVED_DATASET_FILES = ("dataset_dict.json", "state.json")  # what a saved dataset has in its folder


def is_saved(path: Path) -> bool:
    """Whether a folder is a dataset written by `save_to_disk`."""
    return any((path / marker).is_file() for marker in SAVED_DATASET_FILES)


def read_saved(path: Path, languages: Languages) -> dict[str, Pairs]:
    """A folder written by `save_to_disk` -> pairs for each split it has."""
    library = require("datasets", extra="datasets")
    try:
        return _pairs(library.load_from_disk(str(path)), languages, str(path))
    except (OSError, ValueError) as wrong:
        raise DataError(f"{path}: not a saved dataset that can be read: {_first_line(wrong)}") from None


def read_from_hub(name: str, languages: Languages) -> dict[str, Pairs]:
    """`hf:owner/dataset` -> pairs for each split it has; downloaded by the library, or taken from its cache."""
    trust.check_network(name)
    library = require("datasets", extra="datasets")
    dataset, _, configuration = name.removeprefix(PREFIX).partition(":")
    try:
        return _pairs(library.load_dataset(dataset, configuration or None), languages, name)
    except (OSError, ValueError) as wrong:
        raise DataError(f"{name}: cannot be loaded: {_first_line(wrong)}") from None


def _first_line(wrong: Exception) -> str:
    return (str(wrong).splitlines() or [type(wrong).__name__])[0]


def _pairs(dataset: Any, languages: Languages, where: str) -> dict[str, Pairs]:
    parts = dataset if isinstance(dataset, dict) else {"train": dataset}
    named = {SPLIT_ALIASES[name]: part for name, part in parts.items() if name in SPLIT_ALIASES}
    if not named:
        raise DataError(f"{where}: no split named train, valid or test; found {', '.join(map(str, parts))}")
    return {
        split: Pairs(
            f"{where} {split}",
            partial(_read, part, languages, where=f"{where} {split}"),
            key=f"{getattr(part, '_fingerprint', '')} {languages}",
            bytes=int(getattr(part, "size_in_bytes", 0) or 0),
        )
        for split, part in named.items()
    }


def _read(part: Any, languages: Languages, *, where: str) -> Iterator[Pair]:
    for number, record in enumerate(part, start=1):
        yield from_record(record, languages, f"{where}:{number}")
