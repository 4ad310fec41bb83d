"""Readers of labelled documents: TSV, CSV and JSONL tables, folders by class, and archives of such folders.

The columns of a table are given by name or by number (counted from 1). A folder by class has one text file per
document. The name of its folder is the class, and the name of a folder above it the split (train/pos/17.txt).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import ConfigError, DataError, did_you_mean, quote_setting
from regard.data import examples
from regard.data.examples import SPLIT_ALIASES, Examples
from regard.data.files import archives, spreadsheets, table_folders, tables
from regard.data.files.table_folders import SplitFiles

SNIFF_RECORDS = 300  # records that are used to detect the columns
LABEL_COLUMNS = ("label", "labels", "sentiment", "class", "category", "target", "라벨", "레이블", "감정", "분류", "y")
TEXT_COLUMNS = (
    *("text", "document", "review", "sentence", "content", "comment"),
    *("텍스트", "문장", "리뷰", "내용", "본문", "댓글", "q"),
)
COLUMN_ALIASES = {"label": LABEL_COLUMNS, "text": TEXT_COLUMNS}  # common column names


class Document(NamedTuple):
    """A text and its labels: exactly one, or any number in multi-label data."""

    text: str
    labels: tuple[str, ...]
    origin: str  # file and line, or the name of the file


@dataclass(frozen=True)
class Layout:
    """Columns of label and text in a table, and held-out files of a folder by class."""

    label: str = "label"  # label column: its name, or its number counted from 1
    text: str = "text"  # text column
    header: bool | None = None  # the first line of a table has column names; none: if a column is given by name
    separator: str = ""  # separator of the labels of a document; "": one label per document
    valid: str = ""  # folders by class without splits: pattern of the validation files (cv8*)
    test: str = ""  # pattern of the test files

    def __post_init__(self) -> None:
        for name in ("label", "text"):
            column = getattr(self, name)
            if column.isdecimal() and int(column) < 1:
                raise ConfigError(f"{name}={column!r}: columns are counted from 1")
        if self.label == self.text:
            raise ConfigError(f"label and text are both column {self.label!r}; name two columns")
        if self.header is False and not (self.label.isdecimal() and self.text.isdecimal()):
            raise ConfigError("header=false: columns must be given by number, for example label='1' text='2'")

    def parse_labels(self, cell: str, location: str) -> tuple[str, ...]:
        """Return the labels in a cell; an empty cell is an error unless the data is multi-label."""
        if self.separator:
            return tuple(name for name in (part.strip() for part in cell.split(self.separator)) if name)
        if not cell.strip():
            raise DataError(f"{location}: there is no label in column {self.label!r}; add it, or remove the document")
        return (cell.strip(),)


def read(path: Path, layout: Layout) -> dict[str, Examples[Document]]:
    """Table, folder of tables named after splits, folder by class, or archive of one -> documents by split."""
    if archives.is_archive(path):
        return _by_class(path, layout)
    if path.is_file():
        documents = read_table(path, layout)
        return {"train": replace(documents, remarks=table_folders.split_column_remarks(path))}
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    files, remarks = document_tables(path)
    if files:
        parts = {split: [read_table(file, layout) for file in files[split]] for split in files}
        return {split: examples.join(parts[split], f"{path}", remarks) for split in parts}
    archive_files = sorted(file for file in path.iterdir() if archives.is_archive(file))
    if len(archive_files) > 1 and not archives.list_text_files(path):
        names = table_folders.list_names(archive_files)
        raise DataError(f"{path}: {len(archive_files)} archives ({names}); give the path of one")
    return _by_class(archive_files[0] if archive_files and not archives.list_text_files(path) else path, layout)


def document_tables(folder: Path) -> SplitFiles:
    """Folder -> its tables by split; a text file is a table only if it is named after a split (ratings_train.txt)."""
    files = table_folders.visible_files(folder)
    candidates = [file for file in files if table_folders.is_table(file)]
    named = [file for file in files if table_folders.file_split(file) and not archives.is_archive(file)]
    return table_folders.join_tables(folder, sorted({*candidates, *named}))


def read_table(path: Path, layout: Layout) -> Examples[Document]:
    """File with one document per line (CSV: per record) -> its documents."""
    suffix = examples.strip_compression(path).suffix
    if suffix == ".jsonl":
        return examples.from_files(f"{path}", lambda: _records(path, layout), path, key=str(layout))
    if suffix not in (".tsv", ".csv", ".txt", spreadsheets.SUFFIX):
        raise tables.unknown_type_error(path)
    return examples.from_files(f"{path}", lambda: _from_cells(path, layout), path, key=str(layout))


def find_columns(
    top: Sequence[str], records: Sequence[Sequence[str]], layout: Layout, path: Path
) -> tuple[int, int, bool]:
    """First and further records of a table -> the columns of label and text, and True if the first is a header."""
    if error := tables.one_column_error(path, [top, *records]):
        raise error
    if layout.label.isdecimal() and layout.text.isdecimal():
        if layout.header is None and tables.is_likely_header(top, records):
            first_line = ", ".join(repr(cell[:40]) for cell in top[:6])
            raise DataError(
                f"{path}: is its first line, {first_line}, a header? Set data.label={layout.label} "
                f"data.text={layout.text} and data.header=true if it is a header, data.header=false if it is a document"
            )
        return int(layout.label) - 1, int(layout.text) - 1, bool(layout.header)
    label, text = (_column(name, top, records, path) for name in (layout.label, layout.text))
    tables.check_unique(
        top, [i for i, name in ((label, layout.label), (text, layout.text)) if not name.isdecimal()], path
    )
    return label, text, True if layout.header is None else layout.header


def _column(name: str, top: Sequence[str], records: Sequence[Sequence[str]], path: Path) -> int:
    """Return the index of a column by name or number; `label` and `text` also match other common names."""
    if name.isdecimal():
        return int(name) - 1
    plain = [cell.strip().casefold() for cell in top]
    for alias in (name.strip().casefold(), *COLUMN_ALIASES.get(name, ())):
        if alias in plain:
            return plain.index(alias)
    by_name, by_number = (guess_columns(part) if part else None for part in (records, [top, *records]))
    remedy = f"data.label={by_number[0] + 1} data.text={by_number[1] + 1}" if by_number else "data.label=1 data.text=2"
    setting = f"data.{name}=…"
    if by_name and tables.is_likely_header(top, records):
        cells = dict(zip(COLUMN_ALIASES, (top[index].strip() for index in by_name), strict=True))
        setting = " ".join(quote_setting(f"data.{side}={cell}") for side, cell in cells.items())
    raise ConfigError(
        f"{path}: no column {name!r} in its first line {', '.join(map(repr, top))[:120]}; give its name "
        f"({setting}), or if there is no header the column numbers: {remedy}; {did_you_mean(name, top)}"
    )


def guess_columns(records: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Guess the columns of label and text: few distinct values, and the longest texts. None if there is one column.

    A column with one value cannot be the label, unless there is no other.
    """
    columns = list(zip(*(record for record in records if len(record) == len(records[0])), strict=True))
    if len(columns) < 2:
        return None
    longest = max(range(len(columns)), key=lambda i: sum(map(len, columns[i])))
    remaining = [i for i in range(len(columns)) if i != longest]
    return min(remaining, key=lambda i: (len(set(columns[i])) < 2, len(set(columns[i])))), longest


def _from_cells(path: Path, layout: Layout) -> Iterator[Document]:
    stream = tables.read_records(path)
    head = tables.take_head(stream, SNIFF_RECORDS, path)
    label, text, header = find_columns(head[0].cells, [record.cells for record in head[1:]], layout, path)
    for line, cells in chain(head[1:] if header else head, stream):
        if len(cells) <= max(label, text):
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise DataError(f"{path}:{line}: {count}, but column {max(label, text) + 1} is required")
        location = f"{path}:{line}"
        yield Document(cells[text], layout.parse_labels(cells[label], location), location)


def _records(path: Path, layout: Layout) -> Iterator[Document]:
    return (from_record(record, layout, location) for location, record in tables.read_jsonl(path))


def from_record(record: Any, layout: Layout, location: str) -> Document:
    """Record `{"text": …, "label": …}` -> the document; several labels may be given as a list."""
    if not isinstance(record, dict):
        raise DataError(f"{location}: expected an object with a text and a label, got {record!r:.60}")
    text, label = (record[_key(column, record, location)] for column in (layout.text, layout.label))
    if not isinstance(text, str):
        raise DataError(f"{location}: {layout.text!r} is {text!r:.60}, which is not a text")
    if isinstance(label, list) and layout.separator:
        return Document(text, tuple(str(name) for name in label), location)
    if not isinstance(label, str | int | bool):
        hint = "; set data.separator if documents have several labels" if isinstance(label, list) else ""
        raise DataError(f"{location}: {layout.label!r} is {label!r:.60}, which is not a label{hint}")
    return Document(text, layout.parse_labels(str(label), location), location)


def _key(column: str, record: dict[str, Any], location: str) -> str:
    for name in (column, *COLUMN_ALIASES.get(column, ())):
        if name in record:
            return name
    raise DataError(f"{location}: no {column!r}; {did_you_mean(column, record)}")


def _by_class(path: Path, layout: Layout) -> dict[str, Examples[Document]]:
    """Folder by class, or archive of one -> documents by split."""
    names = [tuple(name.split("/")) for name in archives.list_text_files(path)]
    if not names:
        if path.is_dir():
            table_folders.check_not_nested(path)
        raise DataError(f"{path}: no table (.tsv, .csv, .jsonl) and no text files in folders named after their class")
    top_level = next((parts for parts in names if len(parts) < 2), None)
    if top_level is not None:
        raise DataError(f"{path}: {top_level[0]} is not in a class folder; expected class/{top_level[0]}")
    splits = {_split_of(parts, layout) for parts in names}
    return {split: _of_split(path, split, layout) for split in sorted(splits)}


def _of_split(path: Path, split: str, layout: Layout) -> Examples[Document]:
    def read() -> Iterator[Document]:
        for file in archives.read_text_files(path):
            if _split_of(file.parts, layout) == split:
                yield Document(file.text, (file.parts[-2],), file.location)

    return examples.from_files(f"{path}", read, path, key=f"{layout} {split}")


def _split_of(parts: tuple[str, ...], layout: Layout) -> str:
    """Path of a file inside its folder -> its split."""
    parent_split = next((SPLIT_ALIASES[part] for part in parts[:-2] if part in SPLIT_ALIASES), None)
    if parent_split is not None:
        return parent_split
    for split in ("valid", "test"):
        pattern = getattr(layout, split)
        if pattern and fnmatch.fnmatchcase(parts[-1], pattern):
            return split
    return "train"
