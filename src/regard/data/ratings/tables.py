"""Tables of users, items and ratings as columns of text, and the detection of their columns.

Supported formats are CSV (also as Excel writes it), TSV, the formats of MovieLens, and Parquet. The columns of ratings
are found by their configured names, by common aliases, or by index. If a column cannot be found, the error message
names the settings to give.
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
from regard.data.files import encodings, spreadsheets
from regard.data.files.tables import MAX_CELL_CHARS, Record, csv_error_message, detect_delimiter, is_likely_header
from regard.data.files.text_files import READ_ERRORS, open_compressed
from regard.data.ratings.profiles import parse_number

SEPARATORS = {".csv": ",", ".tsv": "\t", ".dat": "::", ".data": "\t", ".txt": "\t", ".item": "|", ".user": "|"}
FALLBACK_SEPARATORS = ("\t", "::", ";", ",", "|")  # for files whose separator differs from that of their suffix
SUFFIXES = (*SEPARATORS, spreadsheets.SUFFIX, ".parquet")
SNIFF_BYTES = 2**20  # bytes of a file that are read to detect its format
SNIFF_RECORDS = 100  # records by which columns are classified
UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
COLUMN_ROLES = ("user", "item", "rating", "time")
COLUMN_ALIASES = {  # in lower case, without blanks and punctuation: user_id, userId, User ID
    "user": ("user", "userid", "uid", "customer", "customerid", "reviewer", "reviewerid", "사용자", "사용자id", "고객"),
    "item": ("item", "itemid", "movie", "movieid", "film", "product", "productid", "book", "bookid", "상품", "영화"),
    "rating": ("rating", "ratings", "score", "stars", "평점", "별점", "점수"),
    "time": ("time", "timestamp", "date", "datetime", "시간", "날짜", "일시"),
}
EMPTY_VALUES = {"rating": "''", "time": "''"}  # optional columns, as given on the command line
OMIT_MEANINGS = {"rating": "every row is a choice", "time": "rows are in order"}
OMIT_HINTS = {name: f", or data.{name}='' ({meaning})" for name, meaning in OMIT_MEANINGS.items()}
YEAR_FIRST = re.compile(  # 2021/5/31, 2021. 5. 31., 2021년 5월 31일, 2021-05-31 9:30
    r"(\d{4})[-/.년] ?(\d{1,2})[-/.월] ?(\d{1,2})[.일]?(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?"
)
INTEGER_PATTERN = re.compile(r"-?\d+(\.0)?")
MAX_EPOCH_SECONDS = 1e11  # three thousand years; larger values are milliseconds or smaller units
MAX_RATING, MIN_EPOCH_SECONDS = 100, 1e8  # ratings are rarely larger, and seconds since 1970 rarely smaller
ColumnNamer = Callable[[Path, Sequence[Sequence[str]]], Sequence[str]]  # path, first records -> names, or ()


@dataclass(frozen=True)
class Table:
    """Columns of text by name, all of the same length."""

    path: Path
    columns: dict[str, list[str]]
    first_line: int = 1  # line of the first record
    encoding: str = ""  # if not UTF-8: Latin-1, CP949 or UTF-16
    line_numbers: Sequence[int] = ()  # first lines of the records; empty if every record is one line

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> list[str]:
        """Return the cells of a column; an unknown name is an error with a suggestion."""
        if name not in self.columns:
            raise DataError(f"{self.path}: no column {name!r}; {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def location(self, row: int) -> str:
        """Return path and line of a record for messages."""
        return f"{self.path}:{self.line_numbers[row] if self.line_numbers else self.first_line + row}"


@dataclass(frozen=True)
class Columns:
    """Names of the columns in a table of ratings, and in the tables of users and items."""

    user: str = "user"  # in the ratings and in the table of users: a name, or an index in the ratings, from 1
    item: str = "item"  # in the ratings and in the table of items
    rating: str = "rating"  # "": no such column, every row is a choice
    time: str = "time"  # "": no such column, rows are in order
    title: str = "title"  # in the table of items; "": items are named by their ids
    header: bool | None = None  # whether the ratings start with a header line; None: detect it

    @property
    def requested(self) -> dict[str, str]:
        """The configured columns of a rating by role."""
        return {role: getattr(self, role) for role in COLUMN_ROLES if getattr(self, role)}


def read(path: Path, names: Sequence[str] | ColumnNamer = ()) -> Table:
    """Read a file as columns.

    `names` are the column names of a file without a header line, or a function that returns them for the first
    records. If there are none, the first line is the header.
    """
    suffix = strip_compression(path).suffix.lower()
    if suffix == ".parquet":
        return _read_parquet(path)
    if suffix not in (*SEPARATORS, spreadsheets.SUFFIX):
        raise DataError(f"{path}: unknown kind of table; expected {', '.join(SUFFIXES)} (also .gz, .xz)")
    records, encoding = _read_records(path, suffix)
    if not records:
        raise DataError(f"{path}: contains only blank lines")
    fixed_names = names(path, [record.cells for record in records[:SNIFF_RECORDS]]) if callable(names) else names
    header = list(fixed_names) or records[0].cells
    if len(set(header)) < len(header):
        raise DataError(f"{path}: two columns of the same name in its first line: {', '.join(header)}")
    rows = records if fixed_names else records[1:]
    for line, cells in rows:
        if len(cells) != len(header):
            raise DataError(
                f"{path}:{line}: {len(cells)} cells, but there are {len(header)} columns; correct the line, or quote "
                "cells that contain the separator"
            )
    columns = {name: _with_decimal_points([cells[i] for _, cells in rows]) for i, name in enumerate(header)}
    return Table(path, columns, line_numbers=[record.line for record in rows], encoding=encoding)


def _read_records(path: Path, suffix: str) -> tuple[list[Record], str]:
    """Return the records of a text table or a workbook, and the encoding if it is not UTF-8."""
    if suffix == spreadsheets.SUFFIX:
        rows = spreadsheets.read_sheet(path)
        return [Record(line, [cell.strip() for cell in cells]) for line, cells in rows], ""
    text, encoding = _decode(path)
    return list(_parse_records(path, text, suffix)), encoding


def read_head(path: Path, count: int) -> list[list[str]]:
    """Return the cells of the first records of a text table or a workbook."""
    if path.suffix.lower() == spreadsheets.SUFFIX:
        return [[cell.strip() for cell in cells] for _, cells in islice(spreadsheets.read_sheet(path), count)]
    text, _ = _decode(path, SNIFF_BYTES)
    records = _parse_records(path, text, strip_compression(path).suffix.lower())
    return [record.cells for record in islice(records, count)]


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file of any supported encoding."""
    return _split_lines(_decode(path)[0])


def positional_names(columns: Columns, path: Path, records: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return column indices as names for ratings without a header line; () if the first record is a header."""
    first = [cell.strip() for cell in records[0]]
    indices = tuple(str(index + 1) for index in range(len(first)))
    if columns.header is not None:
        return () if columns.header else indices
    if any(_find_by_name(first, role, name) for role, name in columns.requested.items()):
        return ()
    preview = ", ".join(repr(cell[:30]) for cell in first[:6])
    has_numbers = any(parse_number(cell) is not None for cell in first)
    if any(map(str.isdecimal, columns.requested.values())):
        if not has_numbers and is_likely_header(first, records[1:]):
            raise DataError(
                f"{path}: is its first line, {preview}, a header? If it is: data.header=true; if it is a rating: "
                "data.header=false"
            )
        return indices
    if has_numbers:
        raise DataError(
            f"{path}: its first line, {preview}, is a rating and does not name the columns; give their indices: "
            f"{_suggest_settings(_transpose(indices, records), COLUMN_ROLES)}; or if it is a header: data.header=true"
        )
    return ()


def rename_rating_columns(table: Table, columns: Columns) -> Table:
    """Rename the columns of a table of ratings to their configured names."""
    names = list(table.columns)
    new_names: dict[str, str] = {}  # name in the table -> configured name
    matches = {
        role: _find_by_name(names, role, name) or _find_by_index(table, role, name)
        for role, name in columns.requested.items()
    }
    for role, requested in columns.requested.items():
        name = matches[role]
        if name is None:
            hint = _missing_column_hint(table, matches, role, requested)
            raise DataError(f"{table.path}: no column {requested!r}; {hint}")
        if name in new_names:
            raise DataError(
                f"{table.path}: data.{role}={requested} is column {name!r}, which is already {new_names[name]!r}"
            )
        new_names[name] = requested
    return rename_columns(table, new_names, ids=(columns.user, columns.item))


def rename_id_column(table: Table, role: str, id_column: str) -> Table:
    """Rename the id column of a table of users or items to its name in the ratings."""
    expected = role if id_column.isdecimal() else id_column  # an index refers to the ratings
    name = _find_by_name(list(table.columns), role, expected, "id")
    if name is None:
        hint = did_you_mean(expected, table.columns)
        raise DataError(f"{table.path}: no column {expected!r}; {hint}; it has the ids that are in the ratings")
    return rename_columns(table, {name: id_column}, ids=(id_column,))


def rename_columns(table: Table, names: Mapping[str, str], *, ids: Sequence[str] = ()) -> Table:
    """Rename columns of a table, and normalize the columns of ids."""
    columns = {names.get(name, name): cells for name, cells in table.columns.items()}
    return replace(
        table, columns={name: normalize_ids(cells) if name in ids else cells for name, cells in columns.items()}
    )


def normalize_ids(cells: list[str]) -> list[str]:
    """Convert ids such as 42.0 (from tables with gaps) to 42 if all ids are integers; others are unchanged."""
    if not any(cell.endswith(".0") for cell in cells) or not all(
        INTEGER_PATTERN.fullmatch(cell) or not cell for cell in cells
    ):
        return cells
    return [cell.removesuffix(".0") for cell in cells]


def has_column_for(names: Sequence[str], role: str) -> bool:
    """Return True if one of the names is a common name for the role."""
    return _find_by_name(names, role, role) is not None


def has_columns_for(path: Path, roles: Mapping[str, str]) -> bool:
    """Return True if the first line of a table names a column for every role, by its configured name or an alias."""
    names = list(read(path).columns) if path.suffix.lower() == ".parquet" else next(iter(read_head(path, 1)), [])
    return all(_find_by_name(names, role, name) is not None for role, name in roles.items())


def are_timestamps(cells: Sequence[str]) -> bool:
    """Return True if all cells are times of the last decades: dates, or seconds since 1970."""
    return all((parse_timestamp(cell) or 0) >= MIN_EPOCH_SECONDS for cell in cells)


def parse_timestamp(cell: str) -> float | None:
    """Parse a time in seconds: 1619872200 (or milliseconds, microseconds …) or 2021-05-01 12:30; None if invalid."""
    seconds = parse_number(cell)
    if seconds is not None:
        while abs(seconds) >= MAX_EPOCH_SECONDS:
            seconds /= 1000
        return seconds
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


def _decode(path: Path, max_bytes: int = -1) -> tuple[str, str]:
    """Return the text of a file (complete lines in the first `max_bytes`), and its encoding if it is not UTF-8."""
    try:
        with open_compressed(path) as file:
            raw = file.read(max_bytes)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except READ_ERRORS as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    if len(raw) == max_bytes and b"\n" in raw:
        raw = raw[: raw.rindex(b"\n") + 1]
    text, encoding = _decode_bytes(raw)
    if not text.strip():  # a byte order mark alone
        raise DataError(f"{path}: the file is empty")
    return text, encoding


def _decode_bytes(raw: bytes) -> tuple[str, str]:
    if raw.startswith(UTF16_BOMS):  # "Unicode text" of Excel
        return raw.decode("utf-16", errors="replace"), "UTF-16"
    try:
        return raw.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        encoding = "CP949" if encodings.is_korean(raw) else "Latin-1"
        return raw.decode(encoding, errors="replace"), encoding


def _split_lines(text: str) -> list[str]:
    """Split at \\n, or at \\r if there is no \\n; other line separators of Unicode do not end a line."""
    return [line.rstrip("\r") for line in text.split("\n" if "\n" in text else "\r")]


def _parse_records(path: Path, text: str, suffix: str) -> Iterator[Record]:
    """Yield the records of a table with stripped cells; empty lines are skipped."""
    lines = _split_lines(text)
    first_line = next(line for line in lines if line.strip())
    separator = _detect_separator(suffix, first_line)
    if separator in (",", ";") or suffix == ".csv":
        records = _parse_csv(path, text, separator)
    else:
        records = (Record(n, line.split(separator)) for n, line in enumerate(lines, start=1))
    for line_number, cells in records:
        if any(cell.strip() for cell in cells):
            yield Record(line_number, [cell.strip() for cell in cells])


def _detect_separator(suffix: str, first_line: str) -> str:
    """Return the separator: for CSV the most frequent of the first line, else that of the suffix or one that occurs."""
    default = SEPARATORS[suffix]
    if suffix == ".csv":
        return first_line.strip()[4] if _is_separator_line(first_line) else detect_delimiter(first_line)
    return next((separator for separator in (default, *FALLBACK_SEPARATORS) if separator in first_line), default)


def _is_separator_line(line: str) -> bool:
    """Return True for the line `sep=;` by which Excel specifies the separator."""
    return line.strip().lower().startswith("sep=") and len(line.strip()) == 5


def _parse_csv(path: Path, text: str, separator: str) -> Iterator[Record]:
    csv.field_size_limit(MAX_CELL_CHARS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    last_line = 0
    try:
        for cells in reader:
            if last_line or not _is_separator_line(separator.join(cells)):
                yield Record(last_line + 1, cells)
            last_line = reader.line_num
    except csv.Error as error:
        raise DataError(f"{path}:{last_line + 1}: not CSV: {csv_error_message(str(error))}") from None


def _with_decimal_points(column: list[str]) -> list[str]:
    """Replace decimal commas by points if the column consists of numbers; other columns are unchanged."""
    if not any(map(DECIMAL_COMMA.fullmatch, column)):
        return column
    converted = [cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell for cell in column]
    is_numeric = all(cell.replace(".", "", 1).lstrip("-").isdecimal() or not cell for cell in converted)
    return converted if is_numeric else column


def _read_parquet(path: Path) -> Table:
    pyarrow: Any = require("pyarrow.parquet", extra="recommendation")
    try:
        table = pyarrow.read_table(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not Parquet: {error}") from None
    return Table(path, {name: [_cell_text(cell) for cell in table[name].to_pylist()] for name in table.column_names})


def _cell_text(cell: Any) -> str:
    """Convert a typed cell to text; the values of a list are joined by bars."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, float) and cell.is_integer():  # ids are floats if the column has gaps
        return str(int(cell))
    return "|".join(map(str, cell)) if isinstance(cell, list) else str(cell)


def _find_by_name(names: Sequence[str], role: str, requested: str, *aliases: str) -> str | None:
    """Return the column of the requested name; if that is the default name, the common aliases count too."""
    if requested.isdecimal():
        return None
    if requested in names:
        return requested
    if requested != role:
        return None
    normalized = {re.sub(r"[\W_]+", "", name).casefold(): name for name in reversed(names)}
    return next((normalized[alias] for alias in (*COLUMN_ALIASES[role], *aliases) if alias in normalized), None)


def _find_by_index(table: Table, role: str, requested: str) -> str | None:
    if not requested.isdecimal():
        return None
    names = list(table.columns)
    if not 1 <= int(requested) <= len(names):
        raise DataError(f"{table.path}: data.{role}={requested}: there are {len(names)} columns, counted from 1")
    return names[int(requested) - 1]


def _missing_column_hint(table: Table, matches: Mapping[str, str | None], role: str, requested: str) -> str:
    """Return the remedy for a missing column: the settings that name the most likely of the unused columns."""
    unused = {name: cells[:SNIFF_RECORDS] for name, cells in table.columns.items() if name not in matches.values()}
    hint = did_you_mean(requested, unused).replace("known:", "columns not used yet:") if unused else "all are in use"
    prefix = f"{hint} Set" if hint.endswith("?") else f"{hint}; set"
    if any(matches.values()):
        missing = [name for name, match in matches.items() if match is None]
        suggestion = _suggest_settings(unused, missing)
        omitted = [name for name in missing if f"data.{name}={EMPTY_VALUES.get(name)}" in suggestion.split()]
        if role not in omitted:
            return f"{prefix} {suggestion}{OMIT_HINTS.get(role, '')}"
        meaning = ", ".join(OMIT_MEANINGS[name] for name in omitted)
        columns = " ".join(f"data.{name}=…" for name in omitted)
        return f"{prefix} {suggestion} ({meaning}), or name {'its column' if len(omitted) == 1 else 'them'}: {columns}"
    by_index = {str(index): cells for index, cells in enumerate(unused.values(), start=1)}
    return (
        f"{prefix} {_suggest_settings(unused, list(matches))}; or if its first line is not a header: "
        f"{_suggest_settings(by_index, list(matches))}"
    )


def _transpose(names: Sequence[str], records: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    complete = [record for record in records if len(record) == len(names)]
    return {name: [record[index] for record in complete] for index, name in enumerate(names)}


def _suggest_settings(columns: Mapping[str, Sequence[str]], roles: Sequence[str]) -> str:
    """Return the settings for the most likely assignment of columns to roles."""
    unused, assigned = list(columns), dict.fromkeys(roles, "")
    rules: list[tuple[str, Callable[[Sequence[str]], bool]]] = [
        *(("time", are_timestamps), ("user", bool), ("item", bool)),
        *(("rating", _are_ratings), ("time", _are_numbers)),
    ]
    for role, fits in rules:
        name = next((name for name in unused if fits(columns[name])), None)
        if name is not None and assigned.get(role) == "":
            assigned[role] = name
            unused.remove(name)
    return " ".join(
        f"data.{role}={quote(name) if name else EMPTY_VALUES.get(role, '…')}" for role, name in assigned.items()
    )


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(parse_number(cell) is not None for cell in cells)


def _are_ratings(cells: Sequence[str]) -> bool:
    return all((parse_number(cell) or 0) <= MAX_RATING for cell in cells) and _are_numbers(cells)
