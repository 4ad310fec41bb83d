"""Documents with labels as they come: TSV, CSV and JSONL tables, folders by class, archives of such folders.

A table's columns are given by name or by number (counted from 1). A folder by class has a text file a document; its
class is the name of the folder it is in, and its split the name of a folder above (train/pos/17.txt).
"""

from __future__ import annotations

import csv
import fnmatch
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import ConfigError, DataError, nearest
from regard.data import archives, rows
from regard.data.rows import SPLITS, Rows
from regard.data.text import lines

TABLES = (".tsv", ".csv", ".jsonl")


class Document(NamedTuple):
    """A text and its labels: one, or where documents may have several any number."""

    text: str
    labels: tuple[str, ...]
    place: str  # where it comes from: a file and the line, or the file's name


@dataclass(frozen=True)
class Layout:
    """Where label and text stand in a table, and which files of a folder by class are held out."""

    label: str = "label"  # the column of the label: its name, or its number counted from 1
    text: str = "text"  # the column of the text
    header: bool | None = None  # whether tables begin with a line of names; none: if a column is given by name
    separator: str = ""  # what stands between the labels of one document; "": each has one label
    valid: str = ""  # folders by class without splits: the files that are for validation, as a pattern (cv8*)
    test: str = ""  # the files that are for testing

    def __post_init__(self) -> None:
        for name in ("label", "text"):
            column = getattr(self, name)
            if column.isdigit() and int(column) < 1:
                raise ConfigError(f"{name}={column!r}: columns are counted from 1")
        if self.label == self.text:
            raise ConfigError(f"label and text are both column {self.label!r}; name two columns")
        if self.header is False and not (self.label.isdigit() and self.text.isdigit()):
            raise ConfigError("without a header line columns are given by number, for example label='1' text='2'")

    def labels(self, cell: str, place: str) -> tuple[str, ...]:
        """The labels in a cell; an empty cell is an error where each document has one."""
        if self.separator:
            return tuple(name for name in (part.strip() for part in cell.split(self.separator)) if name)
        if not cell.strip():
            raise DataError(f"{place}: there is no label in column {self.label!r}")
        return (cell.strip(),)


def read(path: Path, layout: Layout) -> dict[str, Rows[Document]]:
    """A table, a folder of tables named after splits, a folder by class or an archive of one -> documents by split."""
    if archives.is_archive(path):
        return _by_class(path, layout)
    if path.is_file():
        return {"train": table(path, layout)}
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    files = rows.files_by_split(path, TABLES)
    if files:
        return {split: table(file, layout) for split, file in files.items()}
    tables = sorted(file for file in path.iterdir() if rows.plain(file).suffix in TABLES)
    packed = sorted(file for file in path.iterdir() if archives.is_archive(file))
    if tables:
        return {"train": table(tables[0], layout)}
    return _by_class(packed[0] if packed and not archives.listing(path) else path, layout)


def table(path: Path, layout: Layout) -> Rows[Document]:
    """A file with a document a line (CSV: a record) -> its documents."""
    kind = rows.plain(path).suffix
    if kind == ".jsonl":
        return rows.from_files(f"{path}", lambda: _records(path, layout), path, key=str(layout))
    if kind not in (".tsv", ".csv", ".txt"):
        raise DataError(f"{path}: unknown kind of file; expected .tsv, .csv or .jsonl (also .gz, .xz), or a folder")
    return rows.from_files(f"{path}", lambda: _from_cells(path, layout), path, key=str(layout))


def cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """A table -> the number of each record's last line, and its cells. Only CSV has quotes; TSV is read as it is."""
    if rows.plain(path).suffix == ".csv":
        reader = csv.reader((f"{line}\n" for line in lines(path)), strict=True)
        while True:
            try:
                record = next(reader)
            except StopIteration:
                return
            except csv.Error as wrong:
                raise DataError(f"{path}:{reader.line_num}: not CSV: {wrong}") from None
            yield reader.line_num, record
    else:
        yield from ((number, line.split("\t")) for number, line in enumerate(lines(path), start=1))


def columns_of(top: list[str], layout: Layout, path: Path) -> tuple[int, int, bool]:
    """The first record of a table -> the columns of label and text, and whether that record is a header."""
    named = [column for column in (layout.label, layout.text) if not column.isdigit()]
    missing = [column for column in named if column not in top]
    if missing:
        raise ConfigError(
            f"{path}: no column {missing[0]!r} in its first line {', '.join(map(repr, top))[:120]}; "
            f"without a header give numbers (data.label='1'); {nearest(missing[0], top)}"
        )
    label, text = (int(c) - 1 if c.isdigit() else top.index(c) for c in (layout.label, layout.text))
    return label, text, bool(named) if layout.header is None else layout.header


def _from_cells(path: Path, layout: Layout) -> Iterator[Document]:
    stream = cells(path)
    first = next(stream)
    label, text, header = columns_of(first[1], layout, path)
    for number, record in stream if header else chain([first], stream):
        if len(record) <= max(label, text):
            wanted = max(label, text) + 1
            raise DataError(f"{path}:{number}: {len(record)} columns, but column {wanted} is asked for")
        place = f"{path}:{number}"
        yield Document(record[text], layout.labels(record[label], place), place)


def _records(path: Path, layout: Layout) -> Iterator[Document]:
    for number, line in enumerate(lines(path), start=1):
        place = f"{path}:{number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as wrong:
            raise DataError(f"{place}: not JSON: {wrong.msg}") from None
        yield from_record(record, layout, place)


def from_record(record: Any, layout: Layout, place: str) -> Document:
    """A record `{"text": …, "label": …}` -> the document; several labels may be given as a list."""
    if not isinstance(record, dict):
        raise DataError(f"{place}: expected an object with a text and a label, got {record!r:.60}")
    for column in (layout.text, layout.label):
        if column not in record:
            raise DataError(f"{place}: no {column!r}; {nearest(column, record)}")
    text, label = record[layout.text], record[layout.label]
    if not isinstance(text, str):
        raise DataError(f"{place}: {layout.text!r} holds {text!r:.60}, which is no text")
    if isinstance(label, list) and layout.separator:
        return Document(text, tuple(str(name) for name in label), place)
    if not isinstance(label, str | int | bool):
        hint = "; set data.separator, documents have several labels" if isinstance(label, list) else ""
        raise DataError(f"{place}: {layout.label!r} holds {label!r:.60}, which is no label{hint}")
    return Document(text, layout.labels(str(label), place), place)


def _by_class(path: Path, layout: Layout) -> dict[str, Rows[Document]]:
    """A folder by class, or an archive of one -> documents by split."""
    names = [tuple(name.split("/")) for name in archives.listing(path)]
    if not names:
        raise DataError(f"{path}: no table (.tsv, .csv, .jsonl) and no text files in folders named after their class")
    bare = next((parts for parts in names if len(parts) < 2), None)
    if bare is not None:
        raise DataError(f"{path}: {bare[0]} is in no folder of a class; expected class/{bare[0]}")
    splits = {_split_of(parts, layout) for parts in names}
    return {split: _of_split(path, split, layout) for split in sorted(splits)}


def _of_split(path: Path, split: str, layout: Layout) -> Rows[Document]:
    def read() -> Iterator[Document]:
        for file in archives.text_files(path):
            if _split_of(file.parts, layout) == split:
                yield Document(file.text, (file.parts[-2],), file.place)

    return rows.from_files(f"{path}", read, path, key=f"{layout} {split}")


def _split_of(parts: tuple[str, ...], layout: Layout) -> str:
    """The path of a file inside its folder -> the split it belongs to."""
    above = next((SPLITS[part] for part in parts[:-2] if part in SPLITS), None)
    if above is not None:
        return above
    for split in ("valid", "test"):
        pattern = getattr(layout, split)
        if pattern and fnmatch.fnmatchcase(parts[-1], pattern):
            return split
    return "train"
