"""Tables as they come: CSV, TSV, `::` and `|` between the cells, packed or not, Latin-1 or UTF-8, and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import DataError, nearest
from regard.core.extras import require
from regard.data import encodings
from regard.data.reading import BROKEN, open_packed
from regard.data.rows import plain

SEPARATORS = {".csv": ",", ".tsv": "\t", ".dat": "::", ".data": "\t", ".txt": "\t", ".item": "|", ".user": "|"}
KINDS = (*SEPARATORS, ".parquet")


@dataclass(frozen=True)
class Table:
    """Columns by name, all of the same length; a cell is a text."""

    path: Path
    columns: dict[str, list[str]]
    first: int = 1  # the line of the first record
    form: str = ""  # what it was read as where it is no UTF-8: Latin-1 or CP949

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> list[str]:
        """The cells of a column; a name that is not there is an error that suggests one."""
        if name not in self.columns:
            raise DataError(f"{self.path}: no column {name!r}; {nearest(name, self.columns)}")
        return self.columns[name]

    def place(self, row: int) -> str:
        """Where a record stands, for messages."""
        return f"{self.path}:{self.first + row}"


def read(path: Path, names: Sequence[str] = ()) -> Table:
    """A file -> its columns. `names` are those of a file without a header line; else its first line has them."""
    kind = plain(path).suffix.lower()
    if kind == ".parquet":
        return _parquet(path)
    if kind not in SEPARATORS:
        raise DataError(f"{path}: unknown kind of table; expected {', '.join(KINDS)} (also .gz, .xz)")
    lines, form = _decoded(path)
    records = list(_cells(path, lines, SEPARATORS[kind]))
    header = list(names) or [name.strip() for name in records[0][1]]
    if len(set(header)) < len(header):
        raise DataError(f"{path}: two columns of the same name in its first line: {', '.join(header)}")
    body = records if names else records[1:]
    for number, cells in body:
        if len(cells) != len(header):
            raise DataError(f"{path}:{number}: {len(cells)} cells, but there are {len(header)} columns")
    columns = {name: [cells[i] for _, cells in body] for i, name in enumerate(header)}
    return Table(path, columns, first=1 if names else 2, form=form)


def lines_of(path: Path) -> list[str]:
    """The lines of a file, whatever its encoding."""
    return _decoded(path)[0]


def _decoded(path: Path) -> tuple[list[str], str]:
    """The lines of a file, and what it had to be read as where it is no UTF-8."""
    try:
        with open_packed(path) as file:
            raw = file.read()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except BROKEN as wrong:
        raise DataError(f"{path}: cannot be read: {wrong}") from None
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    try:
        return raw.decode("utf-8-sig").splitlines(), ""
    except UnicodeDecodeError:
        form = "CP949" if encodings.is_korean(raw) else "Latin-1"
        return raw.decode(form, errors="replace").split("\n"), form


def _cells(path: Path, lines: list[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    if separator != ",":
        yield from ((n, line.rstrip("\r").split(separator)) for n, line in enumerate(lines, start=1) if line.strip())
        return
    reader = csv.reader(lines, strict=True)
    try:
        yield from ((reader.line_num, record) for record in reader if record)
    except csv.Error as wrong:
        raise DataError(f"{path}:{reader.line_num}: not CSV: {wrong}") from None


def _parquet(path: Path) -> Table:
    pyarrow: Any = require("pyarrow.parquet", extra="recommendation")
    try:
        found = pyarrow.read_table(path)
    except (OSError, ValueError) as wrong:
        raise DataError(f"{path}: not Parquet: {wrong}") from None
    return Table(path, {name: [_text(cell) for cell in found[name].to_pylist()] for name in found.column_names})


def _text(cell: Any) -> str:
    """A cell of a typed table as text; a list becomes several values between bars."""
    if cell is None:
        return ""
    return "|".join(map(str, cell)) if isinstance(cell, list) else str(cell)
