"""Tables as people keep them: TSV, CSV as Excel writes it, JSONL; their records, and whether one is a header."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError
from regard.data.examples import strip_compression
from regard.data.files.text_files import detect_format, read_lines
from regard.data.text.languages import script_of

SUFFIXES = (".tsv", ".csv", ".jsonl")
DELIMITERS = ",\t;"  # of CSV: Excel takes a semicolon where a comma parts decimals
MAX_CELL_CHARS = 2**20  # characters; more is a quotation mark that is never closed
COMMON_COLUMN_NAMES = frozenset(  # names that columns often have, and sentences never are
    "id no num number index text texts sentence sentences source target src tgt input output label labels class"
    " category lang language translation document review content comment title date 번호 순번 문장 원문 번역 번역문"
    " 본문 내용 라벨 레이블 분류 제목 날짜".split()
)
MAX_NAME_CHARS, MAX_NAME_WORDS = 30, 3  # characters and words of a column's name, at most


class Record(NamedTuple):
    """One record of a table."""

    line: int  # where it begins, counted from 1
    cells: list[str]


def read_records(path: Path) -> Iterator[Record]:
    """A TSV or CSV file -> its records; blank lines are none. CSV has quotes, TSV only as Excel writes it (UTF-16)."""
    if is_quoted(path):
        yield from read_csv(path, "" if strip_compression(path).suffix == ".csv" else "\t")
        return
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip(" "):
            yield Record(number, line.split("\t"))


def is_quoted(path: Path) -> bool:
    """Whether cells of a table may stand in quotation marks."""
    return strip_compression(path).suffix == ".csv" or detect_format(path).encoding.startswith("utf-16")


def read_csv(path: Path, delimiter: str = "") -> Iterator[Record]:
    """A file whose cells may stand in quotation marks -> its records; what parts them is found out unless given."""
    stream = read_lines(path)
    top = next(stream)
    skipped = top.lower().startswith("sep=") and len(top) == 5  # a line by which Excel is told the delimiter
    delimiter = top[4] if skipped else delimiter or detect_delimiter(top)
    reader = csv.reader(_ended([] if skipped else [top], stream), delimiter=delimiter, strict=True)
    csv.field_size_limit(MAX_CELL_CHARS)
    begin = int(skipped)
    while True:
        first = begin + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            raise DataError(f"{path}:{first}: not CSV: {csv_error_message(str(wrong))}") from None
        begin = reader.line_num + int(skipped)
        if any(cell.strip() for cell in cells) or len(cells) > 1:
            yield Record(first, cells)


def _ended(top: Sequence[str], rest: Iterator[str]) -> Iterator[str]:
    yield from (f"{line}\n" for line in top)
    yield from (f"{line}\n" for line in rest)


def csv_error_message(message: str) -> str:
    """What the csv module says, in words that help."""
    if "field limit" in message or "unexpected end of data" in message:
        return "a quotation mark in the record that begins here is never closed"
    if "expected after" in message:
        return 'a quotation mark inside a quoted cell must be doubled ("")'
    return message


def detect_delimiter(top: str) -> str:
    """What parts the cells of the first line, quoted cells left out of account."""
    outside = "".join(top.split('"')[::2])
    counts = Counter({mark: outside.count(mark) for mark in DELIMITERS})
    return counts.most_common(1)[0][0]  # the first of those that are equally frequent


def read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """A JSONL file -> the place and the value of each line that is not blank."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", json.loads(line)
        except json.JSONDecodeError as wrong:
            raise DataError(f"{path}:{number}: not JSON: {wrong.msg}") from None


def is_likely_header(top: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether the first record looks like names of columns and not like the records below it."""
    names = [cell.strip() for cell in top]
    if len(set(names)) < len(names) or not all(map(_could_name, names)):
        return False
    if any(name.casefold() in COMMON_COLUMN_NAMES for name in names):
        return True
    columns = [[record[i].strip() for record in others if len(record) > i] for i in range(len(names))]
    return any(_differs(name, column) for name, column in zip(names, columns, strict=True))


def _could_name(cell: str) -> bool:
    return (
        bool(cell)
        and len(cell) <= MAX_NAME_CHARS
        and len(cell.split()) <= MAX_NAME_WORDS
        and cell[-1] not in ".!?…。！？"
    )


def _differs(name: str, column: Sequence[str]) -> bool:
    """Whether a name is of another kind than what stands below it: no number above numbers, or another script."""
    filled = [cell for cell in column if cell]
    if len(filled) < 2:
        return False
    if all(cell.replace(".", "", 1).isdigit() for cell in filled):
        return not name.replace(".", "", 1).isdigit()
    scripts = Counter(script_of(cell) for cell in filled)
    script, count = scripts.most_common(1)[0]
    own = script_of(name)
    return script is not None and own is not None and own != script and count >= 0.8 * len(filled)
