"""Tables of users, items and ratings as columns of text: CSV as Excel writes it, TSV, MovieLens' own, Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.core.errors import DataError, nearest
from regard.core.extras import require
from regard.data import encodings
from regard.data import tables as records_of
from regard.data.reading import BROKEN, open_packed
from regard.data.rows import plain
from regard.data.tables import LONGEST_CELL, Record

SEPARATORS = {".csv": ",", ".tsv": "\t", ".dat": "::", ".data": "\t", ".txt": "\t", ".item": "|", ".user": "|"}
OTHERS = ("\t", "::", ";", ",", "|")  # where a file has another than its name says
KINDS = (*SEPARATORS, ".parquet")
GLANCE = 2**20  # bytes of a file that are looked at to know what it holds
LOOKED_AT = 100  # records by which columns are judged
MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
DECIMAL = re.compile(r"-?\d+,\d+")
Naming = Callable[[Path, Sequence[Sequence[str]]], Sequence[str]]  # path, first records -> names, or none


@dataclass(frozen=True)
class Table:
    """Columns by name, all of the same length; a cell is a text."""

    path: Path
    columns: dict[str, list[str]]
    first: int = 1  # the line of the first record
    form: str = ""  # what it was read as where it is no UTF-8: Latin-1, CP949 or UTF-16
    lines: Sequence[int] = ()  # that the records begin at; none: one a record

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> list[str]:
        """The cells of a column; a name that is not there is an error that suggests one."""
        if name not in self.columns:
            raise DataError(f"{self.path}: no column {name!r}; {nearest(name, self.columns)}")
        return self.columns[name]

    def place(self, row: int) -> str:
        """Where a record stands, for messages."""
        return f"{self.path}:{self.lines[row] if self.lines else self.first + row}"


def read(path: Path, names: Sequence[str] | Naming = ()) -> Table:
    """A file -> its columns. `names` are those of a file without a header line, or are found by its first records;
    where there are none the first line has them."""
    kind = plain(path).suffix.lower()
    if kind == ".parquet":
        return _parquet(path)
    if kind not in SEPARATORS:
        raise DataError(f"{path}: unknown kind of table; expected {', '.join(KINDS)} (also .gz, .xz)")
    text, form = _decoded(path)
    records = list(_records(path, text, kind))
    given = names(path, [record.cells for record in records[:LOOKED_AT]]) if callable(names) else names
    header = list(given) or records[0].cells
    if len(set(header)) < len(header):
        raise DataError(f"{path}: two columns of the same name in its first line: {', '.join(header)}")
    found = records if given else records[1:]
    for number, cells in found:
        if len(cells) != len(header):
            raise DataError(
                f"{path}:{number}: {len(cells)} cells, but there are {len(header)} columns; mend the line, or put "
                "what has the separator in it into quotation marks"
            )
    columns = {name: _with_points([cells[i] for _, cells in found]) for i, name in enumerate(header)}
    return Table(path, columns, lines=[record.line for record in found], form=form)


def top(path: Path, count: int) -> list[list[str]]:
    """The cells of the first records of a table of text."""
    text, _ = _decoded(path, GLANCE)
    return [record.cells for record in islice(_records(path, text, plain(path).suffix.lower()), count)]


def lines_of(path: Path) -> list[str]:
    """The lines of a file, whatever its encoding."""
    return _lines(_decoded(path)[0])


def _decoded(path: Path, most: int = -1) -> tuple[str, str]:
    """The text of a file (of its whole lines in the first `most` bytes), and what it is where it is no UTF-8."""
    try:
        with open_packed(path) as file:
            raw = file.read(most)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except BROKEN as wrong:
        raise DataError(f"{path}: cannot be read: {wrong}") from None
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    if len(raw) == most and b"\n" in raw:
        raw = raw[: raw.rindex(b"\n") + 1]
    if raw.startswith(MARKS):  # Excel's "Unicode text"
        return raw.decode("utf-16", errors="replace"), "UTF-16"
    try:
        return raw.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        form = "CP949" if encodings.is_korean(raw) else "Latin-1"
        return raw.decode(form, errors="replace"), form


def _lines(text: str) -> list[str]:
    """\\n ends a line, or \\r where there is no \\n; nothing else does."""
    return [line.rstrip("\r") for line in text.split("\n" if "\n" in text else "\r")]


def _records(path: Path, text: str, kind: str) -> Iterator[Record]:
    """The records of a table, blanks around cells taken away; empty lines are none."""
    lines = _lines(text)
    top = next(line for line in lines if line.strip())
    separator = _separator(kind, top)
    if separator in (",", ";") or kind == ".csv":
        found = _quoted(path, text, separator)
    else:
        found = (Record(n, line.split(separator)) for n, line in enumerate(lines, start=1))
    for number, cells in found:
        if any(cell.strip() for cell in cells):
            yield Record(number, [cell.strip() for cell in cells])


def _separator(kind: str, top: str) -> str:
    """What parts the cells: of CSV what the first line has most of, else what the name says, or what is there."""
    usual = SEPARATORS[kind]
    if kind == ".csv":
        return top.strip()[4] if _is_told(top) else records_of.parting(top)
    return next((mark for mark in (usual, *OTHERS) if mark in top), usual)


def _is_told(line: str) -> bool:
    """Whether a line is the one by which Excel is told what parts the cells: sep=;"""
    return line.strip().lower().startswith("sep=") and len(line.strip()) == 5


def _quoted(path: Path, text: str, separator: str) -> Iterator[Record]:
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    begin = 0
    try:
        for cells in reader:
            if begin or not _is_told(separator.join(cells)):
                yield Record(begin + 1, cells)
            begin = reader.line_num
    except csv.Error as wrong:
        raise DataError(f"{path}:{begin + 1}: not CSV: {records_of.reason(str(wrong))}") from None


def _with_points(column: list[str]) -> list[str]:
    """A column of numbers whose decimals a comma parts, with points; any other as it is."""
    if not any(map(DECIMAL.fullmatch, column)):
        return column
    pointed = [cell.replace(",", ".") if DECIMAL.fullmatch(cell) else cell for cell in column]
    return pointed if all(cell.replace(".", "", 1).lstrip("-").isdigit() or not cell for cell in pointed) else column


def _parquet(path: Path) -> Table:
    pyarrow: Any = require("pyarrow.parquet", extra="recommendation")
    try:
        found = pyarrow.read_table(path)
    except (OSError, ValueError) as wrong:
        raise DataError(f"{path}: not Parquet: {wrong}") from None
    return Table(path, {name: [_text(cell) for cell in found[name].to_pylist()] for name in found.column_names})


def _text(cell: Any) -> str:
    """A cell of a typed table as text; a list becomes several values between bars."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, float) and cell.is_integer():  # ids are so where a table had gaps
        return str(int(cell))
    return "|".join(map(str, cell)) if isinstance(cell, list) else str(cell)
