"""Tables of users, items and ratings as columns of text: CSV as Excel writes it, TSV, MovieLens' own, Parquet.

Which columns of tables of ratings are which: by the names that are given, by what people call them, by number.

What cannot be known is asked: where no column has a name that is looked for, the error says which settings to give.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from regard.core.errors import DataError, did_you_mean
from regard.core.extras import require
from regard.data.examples import strip_compression
from regard.data.files import encodings
from regard.data.files import tables as records_of
from regard.data.files.tables import MAX_CELL_CHARS, Record, is_likely_header
from regard.data.files.text_files import READ_ERRORS, open_compressed
from regard.data.ratings.profiles import parse_number

SEPARATORS = {".csv": ",", ".tsv": "\t", ".dat": "::", ".data": "\t", ".txt": "\t", ".item": "|", ".user": "|"}
FALLBACK_SEPARATORS = ("\t", "::", ";", ",", "|")  # where a file has another than its name says
SUFFIXES = (*SEPARATORS, ".parquet")
SNIFF_BYTES = 2**20  # bytes of a file that are looked at to know what it holds
SNIFF_RECORDS = 100  # records by which columns are judged
UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
ColumnNamer = Callable[[Path, Sequence[Sequence[str]]], Sequence[str]]  # path, first records -> names, or none


@dataclass(frozen=True)
class Table:
    """Columns by name, all of the same length; a cell is a text."""

    path: Path
    columns: dict[str, list[str]]
    first_line: int = 1  # the line of the first record
    encoding: str = ""  # what it was read as where it is no UTF-8: Latin-1, CP949 or UTF-16
    line_numbers: Sequence[int] = ()  # that the records begin at; none: one a record

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> list[str]:
        """The cells of a column; a name that is not there is an error that suggests one."""
        if name not in self.columns:
            raise DataError(f"{self.path}: no column {name!r}; {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def location(self, row: int) -> str:
        """Where a record stands, for messages."""
        return f"{self.path}:{self.line_numbers[row] if self.line_numbers else self.first_line + row}"


def read(path: Path, names: Sequence[str] | ColumnNamer = ()) -> Table:
    """A file -> its columns. `names` are those of a file without a header line, or are found by its first records;
    where there are none the first line has them."""
    kind = strip_compression(path).suffix.lower()
    if kind == ".parquet":
        return _parquet(path)
    if kind not in SEPARATORS:
        raise DataError(f"{path}: unknown kind of table; expected {', '.join(SUFFIXES)} (also .gz, .xz)")
    text, form = _decoded(path)
    records = list(_records(path, text, kind))
    given = names(path, [record.cells for record in records[:SNIFF_RECORDS]]) if callable(names) else names
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
    return Table(path, columns, line_numbers=[record.line for record in found], encoding=form)


def read_head(path: Path, count: int) -> list[list[str]]:
    """The cells of the first records of a table of text."""
    text, _ = _decoded(path, SNIFF_BYTES)
    return [record.cells for record in islice(_records(path, text, strip_compression(path).suffix.lower()), count)]


def read_lines(path: Path) -> list[str]:
    """The lines of a file, whatever its encoding."""
    return _lines(_decoded(path)[0])


def _decoded(path: Path, most: int = -1) -> tuple[str, str]:
    """The text of a file (of its whole lines in the first `most` bytes), and what it is where it is no UTF-8."""
    try:
        with open_compressed(path) as file:
            raw = file.read(most)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except READ_ERRORS as wrong:
        raise DataError(f"{path}: cannot be read: {wrong}") from None
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    if len(raw) == most and b"\n" in raw:
        raw = raw[: raw.rindex(b"\n") + 1]
    if raw.startswith(UTF16_BOMS):  # Excel's "Unicode text"
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
        return top.strip()[4] if _is_told(top) else records_of.detect_delimiter(top)
    return next((mark for mark in (usual, *FALLBACK_SEPARATORS) if mark in top), usual)


def _is_told(line: str) -> bool:
    """Whether a line is the one by which Excel is told what parts the cells: sep=;"""
    return line.strip().lower().startswith("sep=") and len(line.strip()) == 5


def _quoted(path: Path, text: str, separator: str) -> Iterator[Record]:
    csv.field_size_limit(MAX_CELL_CHARS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    begin = 0
    try:
        for cells in reader:
            if begin or not _is_told(separator.join(cells)):
                yield Record(begin + 1, cells)
            begin = reader.line_num
    except csv.Error as wrong:
        raise DataError(f"{path}:{begin + 1}: not CSV: {records_of.csv_error_message(str(wrong))}") from None


def _with_points(column: list[str]) -> list[str]:
    """A column of numbers whose decimals a comma parts, with points; any other as it is."""
    if not any(map(DECIMAL_COMMA.fullmatch, column)):
        return column
    pointed = [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell for cell in column]
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


COLUMN_ROLES = ("user", "item", "rating", "time")
COLUMN_ALIASES = {  # in small letters, without blanks and marks between words: user_id, userId, User ID
    "user": ("user", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid", "사용자", "사용자id", "고객"),
    "item": ("item", "itemid", "movie", "movieid", "film", "product", "productid", "book", "bookid", "상품", "영화"),
    "rating": ("rating", "ratings", "score", "stars", "평점", "별점", "점수"),
    "time": ("time", "timestamp", "date", "datetime", "시간", "날짜", "일시"),
}
EMPTY_VALUES = {"rating": "''", "time": "''"}  # what may be missing, as it is said on a command line
OMIT_HINTS = {"rating": ", or data.rating='' (every row is a choice)", "time": ", or data.time='' (rows are in order)"}
YEAR_FIRST = re.compile(  # 2021/5/31, 2021. 5. 31., 2021년 5월 31일, 2021-05-31 9:30
    r"(\d{4})[-/.년] ?(\d{1,2})[-/.월] ?(\d{1,2})[.일]?(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?"
)
INTEGER_PATTERN = re.compile(r"-?\d+(\.0)?")
MAX_EPOCH_SECONDS = 1e11  # so many seconds are three thousand years
MAX_RATING, MIN_EPOCH_SECONDS = 100, 1e8  # ratings are rarely larger, and seconds since 1970 rarely smaller


@dataclass(frozen=True)
class Columns:
    """Which columns of a table of ratings, and of the tables of users and items beside it, mean what."""

    user: str = "user"  # in the ratings and in the table of users: a name, or in the ratings a number counted from 1
    item: str = "item"  # in the ratings and in the table of items
    rating: str = "rating"  # "": there is none, every row is a choice
    time: str = "time"  # "": there is none, rows are in order
    title: str = "title"  # in the table of items; "": items are called by their ids
    header: bool | None = None  # whether the ratings begin with a line of names; none: it is found out, or asked

    @property
    def requested(self) -> dict[str, str]:
        """The columns of a rating that are asked for, by what they mean."""
        return {side: getattr(self, side) for side in COLUMN_ROLES if getattr(self, side)}


def positional_names(columns: Columns, path: Path, records: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The first records of a table of ratings -> numbers to call its columns by; none where the first has names."""
    top = [cell.strip() for cell in records[0]]
    numbers = tuple(str(place + 1) for place in range(len(top)))
    if columns.header is not None:
        return () if columns.header else numbers
    if any(_by_name(top, side, name) for side, name in columns.requested.items()):
        return ()
    shown = ", ".join(repr(cell[:30]) for cell in top[:6])
    data = any(parse_number(cell) is not None for cell in top)
    if any(map(str.isdigit, columns.requested.values())):
        if not data and is_likely_header(top, records[1:]):
            raise DataError(
                f"{path}: is its first line, {shown}, a header? If it is: data.header=true; if it is a rating: "
                "data.header=false"
            )
        return numbers
    if data:
        raise DataError(
            f"{path}: its first line, {shown}, is a rating and names no columns; give their numbers: "
            f"{_suggested(_by_column(numbers, records), COLUMN_ROLES)}; or if it is a header: data.header=true"
        )
    return ()


def rename_rating_columns(table: Table, columns: Columns) -> Table:
    """A table of ratings with its columns called as they are asked for."""
    top = list(table.columns)
    found: dict[str, str] = {}  # the column's own name -> how it is asked for
    taken = {
        side: _by_name(top, side, name) or _by_number(table, side, name) for side, name in columns.requested.items()
    }
    for side, wanted in columns.requested.items():
        own = taken[side]
        if own is None:
            raise DataError(f"{table.path}: no column {wanted!r}; {_remedy(table, taken, side, wanted)}")
        if own in found:
            raise DataError(f"{table.path}: data.{side}={wanted} is column {own!r}, which is {found[own]!r} already")
        found[own] = wanted
    return rename_columns(table, found, ids=(columns.user, columns.item))


def _remedy(table: Table, taken: Mapping[str, str | None], side: str, wanted: str) -> str:
    """What to say where a column is not there: which it may be, of those that are nothing else."""
    free = {name: cells[:SNIFF_RECORDS] for name, cells in table.columns.items() if name not in taken.values()}
    hint = did_you_mean(wanted, free)
    begin = f"{hint} Say" if hint.endswith("?") else f"{hint}; say"
    if any(taken.values()):
        likely = _suggested(free, [side])
        if side in OMIT_HINTS and likely.endswith("''"):
            return f"{hint}; say {OMIT_HINTS[side].removeprefix(', or ')}, or which column it is: data.{side}=…"
        return f"{begin} which it is: {likely}{OMIT_HINTS.get(side, '')}"
    numbers = {str(place): cells for place, cells in enumerate(free.values(), start=1)}
    return (
        f"{begin} which they are: {_suggested(free, list(taken))}; or if its first line is no header: "
        f"{_suggested(numbers, list(taken))}"
    )


def rename_id_column(table: Table, side: str, id_column: str) -> Table:
    """A table of users or items with the column of its ids called as in the ratings."""
    usual = side if id_column.isdigit() else id_column  # a number is that of a column of the ratings
    own = _by_name(list(table.columns), side, usual, "id")
    if own is None:
        known = did_you_mean(usual, table.columns)
        raise DataError(f"{table.path}: no column {usual!r}; {known}; it has the ids that are in the ratings")
    return rename_columns(table, {own: id_column}, ids=(id_column,))


def rename_columns(table: Table, names: Mapping[str, str], *, ids: Sequence[str] = ()) -> Table:
    """The same table with other names for some of its columns, those of ids written as ids are."""
    columns = {names.get(name, name): cells for name, cells in table.columns.items()}
    return replace(
        table, columns={name: normalize_ids(cells) if name in ids else cells for name, cells in columns.items()}
    )


def normalize_ids(cells: list[str]) -> list[str]:
    """Ids that are all numbers, some of them written 42.0 as a table with gaps is, as 42; others as they are."""
    if not any(cell.endswith(".0") for cell in cells) or not all(
        INTEGER_PATTERN.fullmatch(cell) or not cell for cell in cells
    ):
        return cells
    return [cell.removesuffix(".0") for cell in cells]


def _by_name(top: Sequence[str], side: str, wanted: str, *more: str) -> str | None:
    """The column that is called so; one that goes by its usual name may be called otherwise too."""
    if wanted.isdigit():
        return None
    if wanted in top:
        return wanted
    plain = {re.sub(r"[\W_]+", "", name).casefold(): name for name in reversed(top)}
    return (
        next((plain[name] for name in (*COLUMN_ALIASES[side], *more) if name in plain), None)
        if wanted == side
        else None
    )


def has_column_for(top: Sequence[str], side: str) -> bool:
    """Whether one of these names is what people call that side of a rating."""
    return _by_name(top, side, side) is not None


def _by_number(table: Table, side: str, wanted: str) -> str | None:
    if not wanted.isdigit():
        return None
    top = list(table.columns)
    if not 1 <= int(wanted) <= len(top):
        raise DataError(f"{table.path}: data.{side}={wanted}: there are {len(top)} columns, counted from 1")
    return top[int(wanted) - 1]


def _by_column(names: Sequence[str], records: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    whole = [record for record in records if len(record) == len(names)]
    return {name: [record[place] for record in whole] for place, name in enumerate(names)}


def _suggested(columns: Mapping[str, Sequence[str]], sides: Sequence[str]) -> str:
    """The settings that are likely meant, for the user to judge."""
    free, found = list(columns), dict.fromkeys(sides, "")
    kinds: list[tuple[str, Callable[[Sequence[str]], bool]]] = [
        *(("time", are_timestamps), ("user", bool), ("item", bool)),
        *(("rating", _are_ratings), ("time", _are_numbers)),
    ]
    for side, fits in kinds:
        likely = next((name for name in free if fits(columns[name])), None)
        if likely is not None and found.get(side) == "":
            found[side] = likely
            free.remove(likely)
    return " ".join(
        f"data.{side}={quote(name) if name else EMPTY_VALUES.get(side, '…')}" for side, name in found.items()
    )


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(parse_number(cell) is not None for cell in cells)


def _are_ratings(cells: Sequence[str]) -> bool:
    return all((parse_number(cell) or 0) <= MAX_RATING for cell in cells) and _are_numbers(cells)


def are_timestamps(cells: Sequence[str]) -> bool:
    """Whether all cells are moments of the last decades: dates, or seconds since 1970."""
    return all((parse_timestamp(cell) or 0) >= MIN_EPOCH_SECONDS for cell in cells)


def parse_timestamp(cell: str) -> float | None:
    """A time, 1619872200 (or in thousandths, millionths …) or 2021-05-01 12:30, in seconds; None where it is none."""
    number = parse_number(cell)
    if number is not None:
        while abs(number) >= MAX_EPOCH_SECONDS:
            number /= 1000
        return number
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError:
        match = YEAR_FIRST.fullmatch(cell.strip())
        if match is None:
            return None
        try:
            moment = datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]  # six
        except ValueError:
            return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()  # the same on every machine
