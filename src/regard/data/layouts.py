"""Which layout a path holds - pairs, labelled documents, tagged sentences, images - and the check that knows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.core.errors import ConfigError, DataError, nearest
from regard.data import archives, check_documents, check_tagged, rows, schemes
from regard.data import check as check_pairs
from regard.data.check import Finding
from regard.data.images import check as check_images
from regard.data.images.records import holds_images
from regard.data.text import lines

Layout = Literal["pairs", "documents", "tagged", "images"]
CHECKS: dict[str, Callable[[Path], list[Finding]]] = {
    "pairs": check_pairs.check,
    "documents": check_documents.check,
    "tagged": check_tagged.check,
    "images": check_images.check,
}
TAGGED = (".conll", ".iob", ".bio", ".ner")
LOOKED_AT = 400  # lines
LONG = 15  # characters on average that make a column one of texts; a table with two of them holds pairs
REPEATED = 10  # a column is one of labels if each of its values stands in so many lines on average


def check(path: Path, layout: str = "auto") -> list[Finding]:
    """A file or folder -> what is wrong with it, by file and line; the layout is found out unless it is given."""
    if layout != "auto" and layout not in CHECKS:
        raise ConfigError(f"no layout {layout!r}; {nearest(layout, ['auto', *CHECKS])}")
    return CHECKS[detect(path) if layout == "auto" else layout](path)


def detect(path: Path) -> Layout:
    """What a file or folder holds; sentence pairs where nothing else is seen."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if holds_images(path):
        return "images"
    if archives.is_archive(path):
        return "documents"
    if path.is_file():
        return _of_file(path)
    splits = rows.files_by_split(path, (*TAGGED, ".tsv", ".csv", ".jsonl", ".txt"))
    tables = sorted(file for file in path.iterdir() if rows.plain(file).suffix in (".tsv", ".csv", ".jsonl", *TAGGED))
    for file in [*splits.values(), *tables][:1]:
        return _of_file(file)
    nested = any("/" in name for name in archives.listing(path))
    return "documents" if nested or any(archives.is_archive(file) for file in path.iterdir()) else "pairs"


def _of_file(path: Path) -> Layout:
    kind = rows.plain(path).suffix
    if kind in TAGGED:
        return "tagged"
    top = list(islice(lines(path), LOOKED_AT))
    if kind == ".jsonl":
        return _of_record(top[0])
    if top[0].startswith(("## ", "; ", ";")) or _are_tags(top):
        return "tagged"
    if kind == ".csv":
        return "documents"
    return "documents" if kind in (".tsv", ".txt") and _has_labels([line.split("\t") for line in top]) else "pairs"


def _of_record(line: str) -> Layout:
    try:
        record = json.loads(line)
    except ValueError:
        return "pairs"  # whose check says what is wrong
    return "documents" if isinstance(record, dict) and "label" in record else "pairs"


def _are_tags(top: Sequence[str]) -> bool:
    """Whether the last column of every line that is not blank is a tag."""
    cells = [line.split("\t") if "\t" in line else line.split() for line in top if line.strip()]
    if not any(not line.strip() for line in top) or any(len(each) < 2 for each in cells):
        return False
    try:
        return bool([schemes.parse(each[-1].strip()) for each in cells])
    except DataError:
        return False


def _has_labels(table: Sequence[list[str]]) -> bool:
    """Whether a table has a column of labels: by its name, or because few values stand in many lines."""
    named = {cell.strip().lower() for cell in table[0]}
    if named & set(check_documents.LABELS[:-1]) and len(table[0]) > 1:
        return True
    columns = list(zip(*(record for record in table if len(record) == len(table[0])), strict=True))
    texts = [column for column in columns if sum(map(len, column)) >= LONG * len(column) and _are_different(column)]
    few = [column for column in columns if 1 < len(set(column)) <= len(column) // REPEATED]
    return bool(few) and len(texts) < 2


def _are_different(column: Sequence[str]) -> bool:
    return len(set(column)) > len(column) // 2
