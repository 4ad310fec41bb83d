"""Readers of tables (TSV, CSV including the Excel variants, JSONL, Excel workbooks), and detection of header lines."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from regard.core.errors import DataError
from regard.data.examples import strip_compression
from regard.data.files import spreadsheets
from regard.data.files.text_files import detect_format, read_lines
from regard.data.text.languages import script_of

SUFFIXES = (".tsv", ".csv", ".jsonl", spreadsheets.SUFFIX)
DELIMITERS = ",\t;|"  # of CSV: Excel uses a semicolon in locales with a decimal comma
QUOTED_CHARACTERS = {"pandas": '"\t\n\r', "excel": '",\t\n\r', "all": ""}  # writer -> what it quotes; "": every cell
MAX_CELL_CHARS = 2**20  # a longer cell has an unclosed quotation mark
COMMON_COLUMN_NAMES = frozenset(  # common column names that are not sentences
    "id no num number index text texts sentence sentences source target src tgt input output label labels class"
    " category lang language translation document review content comment title date 번호 순번 문장 원문 번역 번역문"
    " 본문 내용 라벨 레이블 분류 제목 날짜".split()
)
SNIFF_RECORDS = 100  # records that the first one is compared with
MAX_NAME_CHARS, MAX_NAME_WORDS = 30, 3  # limits for a column name


class Record(NamedTuple):
    """One record of a table."""

    line: int  # number of its first line, counted from 1
    cells: list[str]


def read_records(path: Path) -> Iterator[Record]:
    """TSV, CSV or Excel file -> its records, without blank lines. TSV has quotes only if all of it follows them."""
    if is_spreadsheet(path):
        yield from (Record(line, cells) for line, cells in spreadsheets.read_sheet(path))
        return
    if is_quoted(path):
        yield from read_csv(path, "" if strip_compression(path).suffix == ".csv" else "\t")
        return
    for line_number, line in enumerate(read_lines(path), start=1):
        if line.strip(" "):
            yield Record(line_number, line.split("\t"))


def take_head(records: Iterator[Record], count: int, path: Path) -> list[Record]:
    """Take the first records of a table, at least one; a table without a record is an error."""
    head = list(islice(records, count))
    if not head:
        raise DataError(f"{path}: contains only blank lines")
    return head


def check_unique(top: Sequence[str], indices: Iterable[int], path: Path) -> None:
    """Refuse a header in which a column that is read has the name of another column."""
    names = [cell.strip().casefold() for cell in top]
    for index in indices:
        if index < len(names) and names[index] and names.count(names[index]) > 1:
            raise DataError(
                f"{path}: {names.count(names[index])} columns are named {top[index].strip()!r}; rename all but one, or "
                "delete them"
            )


def is_spreadsheet(path: Path) -> bool:
    """Return True if a file is an Excel workbook by its name."""
    return path.suffix.lower() == spreadsheets.SUFFIX


def unknown_type_error(path: Path) -> DataError:
    """Return the error for a file that is no table by its name; a JSON file can be converted."""
    if strip_compression(path).suffix == ".json":
        command = f"jq -c '.[]' {quote(str(path))} > {quote(str(path.with_suffix('.jsonl')))}"
        return DataError(f"{path}: a JSON file; write one object per line (.jsonl), for a list: {command}")
    return DataError(f"{path}: unknown file type; expected .tsv, .csv, .xlsx or .jsonl (also .gz, .xz), or a folder")


def one_column_error(path: Path, records: Sequence[Sequence[str]]) -> DataError | None:
    """Return the error for a table whose first record has one cell: a title above the header, or another separator."""
    if not records or len(records[0]) > 1:
        return None
    start = next((index for index, record in enumerate(records, start=1) if len(record) > 1), None)
    if start is not None:
        title = records[0][0].strip()[:MAX_NAME_CHARS]
        return DataError(
            f"{path}: its first line is {title!r}, and record {start} is the first with several cells; delete the "
            "lines above the column names"
        )
    return DataError(f"{path}: one column; separate the columns by tabs, commas, semicolons or |")


def is_quoted(path: Path) -> bool:
    """Return True if the cells of a text table may be quoted: CSV, UTF-16 of Excel, or TSV with consistent quotes."""
    if strip_compression(path).suffix == ".csv" or detect_format(path).encoding.startswith("utf-16"):
        return True
    facts = path.stat()
    return _has_tsv_quotes(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=64)  # a file is read several times; size and time identify its content
def _has_tsv_quotes(path: Path, size: int, changed: int) -> bool:
    """Return True if a TSV file is written as by pandas or Excel: a cell with a quotation mark is quoted.

    The file has quotes if a writer with the same rule gives the same lines, and if a quoted cell has a doubled
    quotation mark or all cells are quoted. Otherwise a quotation mark is a character of the text.
    """
    writers, num_quoted, has_doubled = set(QUOTED_CHARACTERS), 0, False
    csv.field_size_limit(MAX_CELL_CHARS)
    stream = read_lines(path)
    for line in stream:
        if '"' not in line:
            writers -= {"all"} | ({"excel"} if "," in line else set())
        else:
            consumed: list[str] = []
            try:
                cells = next(csv.reader(_recorded(chain([line], stream), consumed), delimiter="\t", strict=True))
            except csv.Error:
                return False
            raw = "\n".join(consumed)
            writers = {writer for writer in writers if _write_row(cells, writer) == raw}
            num_quoted, has_doubled = num_quoted + 1, has_doubled or any('"' in cell for cell in cells)
        if not writers:
            return False
    return has_doubled or (num_quoted > 1 and "all" in writers)


def _recorded(lines: Iterator[str], consumed: list[str]) -> Iterator[str]:
    """Yield lines with their newline, and append each to `consumed`."""
    for line in lines:
        consumed.append(line)
        yield f"{line}\n"


def _write_row(cells: Sequence[str], writer: str) -> str:
    """Return a record as a program writes it."""
    quoted = QUOTED_CHARACTERS[writer]
    doubled = (cell.replace('"', '""') for cell in cells)
    return "\t".join(
        f'"{text}"' if not quoted or any(character in cell for character in quoted) else text
        for cell, text in zip(cells, doubled, strict=True)
    )


def read_csv(path: Path, delimiter: str = "") -> Iterator[Record]:
    """File with quoted cells -> its records; the delimiter is detected if it is not given."""
    stream = read_lines(path)
    top = next(stream)
    has_sep_line = top.lower().startswith("sep=") and len(top) == 5  # names the delimiter for Excel
    delimiter = top[4] if has_sep_line else delimiter or detect_delimiter(top)
    reader = csv.reader(_with_newlines([] if has_sep_line else [top], stream), delimiter=delimiter, strict=True)
    csv.field_size_limit(MAX_CELL_CHARS)
    lines_read = int(has_sep_line)
    while True:
        line = lines_read + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{path}:{line}: not CSV: {csv_error_message(str(error))}") from None
        lines_read = reader.line_num + int(has_sep_line)
        if any(cell.strip() for cell in cells) or len(cells) > 1:
            yield Record(line, cells)


def _with_newlines(top: Sequence[str], rest: Iterator[str]) -> Iterator[str]:
    yield from (f"{line}\n" for line in top)
    yield from (f"{line}\n" for line in rest)


def csv_error_message(message: str) -> str:
    """Return a message of the csv module in clearer words."""
    if "field limit" in message or "unexpected end of data" in message:
        return "a quotation mark in the record that starts here is never closed"
    if "expected after" in message:
        return 'a quotation mark inside a quoted cell must be doubled ("")'
    return message


def detect_delimiter(top: str) -> str:
    """Return the delimiter of the first line, ignoring quoted cells."""
    unquoted = "".join(top.split('"')[::2])
    counts = Counter({delimiter: unquoted.count(delimiter) for delimiter in DELIMITERS})
    return counts.most_common(1)[0][0]  # the first of equally frequent ones


def read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """JSONL file -> the location and the value of each line that is not blank."""
    for line_number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{line_number}", json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{line_number}: not JSON: {error.msg}") from None


def is_likely_header(top: Sequence[str], records: Sequence[Sequence[str]]) -> bool:
    """Return True if the first record looks like column names and unlike the other records."""
    names = [cell.strip() for cell in top]
    is_pair_of_equal_words = len(names) == 2 and names[0] == names[1]
    if is_pair_of_equal_words or not all(map(_is_possible_name, names)):
        return False
    if any(name.casefold() in COMMON_COLUMN_NAMES for name in names):
        return True
    columns = [[record[i].strip() for record in records if len(record) > i] for i in range(len(names))]
    return any(_differs(name, column) for name, column in zip(names, columns, strict=True))


def _is_possible_name(cell: str) -> bool:
    return (
        bool(cell)
        and len(cell) <= MAX_NAME_CHARS
        and len(cell.split()) <= MAX_NAME_WORDS
        and cell[-1] not in ".!?…。！？"
    )


def _differs(name: str, column: Sequence[str]) -> bool:
    """Return True if a name differs in kind from its column: not a number above numbers, or another script."""
    filled = [cell for cell in column if cell]
    if len(filled) < 2:
        return False
    if all(cell.replace(".", "", 1).isdecimal() for cell in filled):
        return not name.replace(".", "", 1).isdecimal()
    scripts = Counter(script_of(cell) for cell in filled)
    script, count = scripts.most_common(1)[0]
    name_script = script_of(name)
    return None not in (script, name_script) and name_script != script and count >= 0.8 * len(filled)


def first_names(path: Path) -> tuple[list[str], bool]:
    """Table -> the cells of its first record or the keys of its first object, and True if they are column names."""
    if strip_compression(path).suffix == ".jsonl":
        _, value = next(read_jsonl(path), ("", {}))
        return (list(value) if isinstance(value, dict) else []), True
    head = [record.cells for record in islice(read_records(path), SNIFF_RECORDS)]
    top = [cell.strip() for cell in head[0]] if head else []
    return top, bool(top) and is_likely_header(top, head[1:])
