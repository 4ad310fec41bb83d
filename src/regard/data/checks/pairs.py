"""Check of sentence pairs: findings by file and line. Unreadable lines are findings; the other lines are checked."""

from __future__ import annotations

import json
import math
import re
import statistics
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError, RegardError, pluralize
from regard.data.checks.findings import DistinctTexts, Finding, read_error_finding, unread_remarks
from regard.data.examples import strip_compression
from regard.data.files import table_folders, tables, text_files
from regard.data.files.encodings import UTF8, TextFormat, UnknownEncoding
from regard.data.files.text_files import read_lines
from regard.data.text import pair_files, pair_groups
from regard.data.text.languages import LANGUAGE_NAMES
from regard.data.text.pair_files import DEFAULT_LANGUAGES, Languages, from_record
from regard.data.text.pair_groups import Group

MAX_RATIO_DEVIATIONS = 6.0  # deviation from the median length ratio, in robust standard deviations, of an outlier
MIN_RATIO_CHARS = 20  # characters: the length ratio of shorter pairs varies too much
LONG_LINE_RATIO, LONG_LINE_CHARS = 10, 300  # a long line has over 10 times the median, and over 300 characters
QUOTED_CELL = re.compile(r'"(?:[^"]|"")*""(?:[^"]|"")*"')  # "He said ""hello""." as CSV quotes a cell
END_OF_FILE = "\n"  # fill value after the end of the shorter file; no line contains it
ONE_SIDE_TEXT = "empty, but the other language has text"
FirstOccurrences = dict[tuple[int, str], tuple[str, Path, int]]  # column and text -> split, file, line


class Cell(NamedTuple):
    """A text and its file."""

    file: Path
    text: str


class Row(NamedTuple):
    """The aligned texts of one line."""

    line: int
    cells: list[Cell]


def check(path: Path, languages: Languages | None = None) -> list[Finding]:
    """File or folder of parallel text -> findings by file and line; languages are detected if not given."""
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    languages = languages or detect_languages(path)
    findings: list[Finding] = []
    held_out: FirstOccurrences = {}
    try:
        pair_files.read(path, languages)
        groups, remarks = pair_groups.find_groups(path, languages[:2])
    except DataError as error:
        return [read_error_finding(error, path)]
    findings += [Finding("warning", "unread", path, 0, text) for text in unread_remarks(remarks, path)]
    splits = {group.split for group in groups}
    distinct_texts = DistinctTexts(splits)
    for group in sorted(groups, key=lambda group: group.split == "train"):  # train last: it is compared with the others
        sizes: list[tuple[Row, list[int]]] = []
        for row in read_rows(group, languages, findings):
            findings += _line_findings(row, is_table=len(group.files) == 1)
            distinct_texts.add(row.cells[0].text, group.split)
            findings += _repeats(row, group.split, held_out)
            lengths = [len(cell.text.strip()) for cell in row.cells]
            sizes.append((Row(row.line, [Cell(cell.file, "") for cell in row.cells]), lengths))
        findings += _outliers(sizes)
        findings += _literal_quotes(group)
    if all(finding.level == "warning" for finding in findings):  # else training reports the errors first
        findings += distinct_texts.findings(path)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def first_pair(path: Path, languages: Languages | None = None) -> list[str]:
    """Return the texts of the first readable training pair, or [] if there is none."""
    languages = languages or detect_languages(path)
    try:
        groups = pair_groups.find_groups(path, languages[:2]).groups
        group = min(groups, key=lambda group: group.split != "train")
    except DataError:  # the check reports it
        return []
    rows = ([cell.text for cell in row.cells] for row in read_rows(group, languages, []))
    return next((texts for texts in rows if all(text.strip() for text in texts)), [])


def describe(path: Path, languages: Languages | None = None) -> list[str]:
    """Return lines with the number of pairs and files, the columns that are read, and the first pair."""
    languages = languages or detect_languages(path)
    groups, remarks = pair_groups.find_groups(path, languages[:2])
    first = first_pair(path, languages)
    lines = [f"first pair: {' / '.join(' '.join(text.split()) for text in first)}"] if first else []
    if len(groups[0].files) > 1:
        source, target = (file.name for file in groups[0].files)
        lines.insert(0, f"aligned lines: {source} ({languages.source}), {target} ({languages.target})")
    else:
        lines[:0] = _column_lines(groups[0].files[0], languages)
    if any("joined" in remark for remark in remarks):
        num_files = sum(group.split == "train" for group in groups)
        num_pairs = sum(1 for _ in pair_files.read(path, languages)["train"])
        lines.insert(0, f"{num_files} files, {pluralize(num_pairs, 'pair')}")
    return lines


def _column_lines(file: Path, languages: Languages) -> list[str]:
    """Return a line with the columns of source and target, if a header names them."""
    if strip_compression(file).suffix == ".jsonl":
        texts = _texts_of_first_record(file)
        names = pair_files.record_keys(texts, languages)
        if not set(names) <= set(texts):
            return []
    else:
        head = tables.take_head(tables.read_records(file), pair_files.SNIFF_RECORDS + 1, file)
        top = head[0].cells
        columns = pair_files.find_columns(top, [record.cells for record in head[1:]], languages, file)
        if not columns.header:
            return []
        names = top[columns.source].strip(), top[columns.target].strip()
    return [f"columns: {names[0]} -> {names[1]}"]


def detect_languages(path: Path) -> Languages:
    """Return the languages to train a path with: the default ones, unless file names or a header name others."""
    if not path.exists():
        return DEFAULT_LANGUAGES
    name = strip_compression(path)
    if path.is_file() and name.suffix.removeprefix(".") in LANGUAGE_NAMES:
        return _languages_of_codes(
            strip_compression(file).suffix.removeprefix(".") for file in sorted(path.parent.glob(f"{name.stem}.*"))
        )
    try:
        files = [path] if path.is_file() else table_folders.tables_by_split(path).files.get("train", [])
        if files and files[0].suffix != pair_groups.TEXT_SUFFIX:
            return pair_files.detect_languages(_column_names(files[0]))
    except DataError:  # the check reports it
        return DEFAULT_LANGUAGES
    folder = path if path.is_dir() else path.parent
    return _languages_of_codes(
        code for file in sorted(folder.iterdir()) if file.is_file() and (code := _language_of_file(file))
    )


def _language_of_file(file: Path) -> str | None:
    """train.de, german.txt -> de; None if neither the suffix nor the name of a text file is a language."""
    suffix = strip_compression(file).suffix
    if suffix == pair_groups.TEXT_SUFFIX:
        return pair_groups.named_language(file)
    return suffix.removeprefix(".") if suffix.removeprefix(".") in LANGUAGE_NAMES else None


def read_rows(group: Group, languages: Languages, findings: list[Finding]) -> Iterator[Row]:
    """Yield the readable pairs of a group; unreadable lines are findings."""
    if len(group.files) == 1:
        return _read_table(group.files[0], languages, findings)
    return _read_aligned(group, findings)


def _languages_of_codes(suffixes: Iterable[str]) -> Languages:
    """Return the languages of files; en comes first and ko last, as in the default languages."""
    codes = dict.fromkeys(code for code in suffixes if code in LANGUAGE_NAMES)
    if set(DEFAULT_LANGUAGES[:2]) <= set(codes) or len(codes) < 2:
        return DEFAULT_LANGUAGES
    source, target, *_ = sorted(
        codes, key=lambda code: (code == DEFAULT_LANGUAGES.target) - (code == DEFAULT_LANGUAGES.source)
    )
    return Languages(source, target)


def _column_names(file: Path) -> list[str]:
    """Return the first record of a table, which may contain column names; for JSONL the keys of the texts."""
    if strip_compression(file).suffix != ".jsonl":
        return next((record.cells for record in tables.read_records(file)), [])
    return [name for name, value in _texts_of_first_record(file).items() if isinstance(value, str)]


def _texts_of_first_record(file: Path) -> dict[str, Any]:
    """Return the first object of a JSONL file, or the one under its key "translation"; {} if it is not an object."""
    record: Any = next((record for _, record in tables.read_jsonl(file)), {})
    inner = record.get("translation", record) if isinstance(record, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _read_aligned(group: Group, findings: list[Finding]) -> Iterator[Row]:
    """Yield the aligned lines of files up to the end of the shortest."""
    readers = [_read_decoded(file, findings) for file in group.files]
    ends: dict[Path, int] = {}
    for line, texts in enumerate(zip_longest(*readers, fillvalue=END_OF_FILE), start=1):
        for file, text in zip(group.files, texts, strict=True):
            if text == END_OF_FILE:
                ends.setdefault(file, line - 1)
        if not ends and all(text is not None for text in texts):
            yield Row(line, [Cell(file, str(text)) for file, text in zip(group.files, texts, strict=True)])
    longest = max((file for file in group.files if file not in ends), default=None)
    for file, end in ends.items():
        if longest is not None:
            text = f"ends here, but {longest.name} continues; lines must be aligned"
            findings.append(Finding("error", "misaligned", file, end, text))


def _read_table(file: Path, languages: Languages, findings: list[Finding]) -> Iterator[Row]:
    """Yield the pairs of a table, from the columns that training reads."""
    if strip_compression(file).suffix == ".jsonl":
        yield from _read_jsonl(file, languages, findings)
        return
    stream = _records(file, findings)
    head = list(islice(stream, pair_files.SNIFF_RECORDS + 1))
    if not head and all(finding.file != file for finding in findings):
        findings.append(Finding("error", "empty", file, 0, "contains only blank lines"))
    if not head:
        return
    try:
        records = [record.cells for record in head]
        columns = pair_files.find_columns(records[0], records[1:], languages, file)
    except RegardError as error:
        findings.append(Finding("error", "columns", file, 1, str(error).removeprefix(f"{file}: ")))
        return
    last = max(columns.source, columns.target)
    for line, cells in chain(head[1:] if columns.header else head, stream):
        if len(cells) <= last:
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            findings.append(Finding("error", "columns", file, line, f"{count}, but column {last + 1} is required"))
        else:
            yield Row(line, [Cell(file, cells[index]) for index in columns[:2]])


def _records(file: Path, findings: list[Finding]) -> Iterator[tables.Record]:
    """Yield the records of a table; a quoted table is read up to the first unreadable line."""
    try:
        quoted = tables.is_spreadsheet(file) or tables.is_quoted(file)
    except DataError:
        quoted = False  # the reader reports the error
    if not quoted:
        for line, text in enumerate(_read_decoded(file, findings), start=1):
            if text is not None and text.strip(" "):
                yield tables.Record(line, text.split("\t"))
        return
    try:
        yield from tables.read_records(file)
    except DataError as error:
        findings.append(read_error_finding(error, file))


def _read_jsonl(file: Path, languages: Languages, findings: list[Finding]) -> Iterator[Row]:
    for line, text in enumerate(_read_decoded(file, findings), start=1):
        if text is None or not text.strip():
            continue
        try:
            record = json.loads(text)
            yield Row(line, [Cell(file, text) for text in from_record(record, languages, f"{file}:{line}")])
        except ValueError:
            findings.append(Finding("error", "columns", file, line, "not a JSON object"))
        except DataError as error:
            findings.append(Finding("error", "columns", file, line, str(error).partition(": ")[2]))


def _read_decoded(file: Path, findings: list[Finding]) -> Iterator[str | None]:
    """Yield the lines of a file, None for an unreadable line."""
    try:
        text_format = _detect_format(file, findings)
        for line, raw in enumerate(text_files.read_raw_lines(file, text_format), start=1):
            try:
                yield text_files.decode_line(raw, text_format, f"{file}:{line}")
            except DataError as error:
                text = str(error).removeprefix(f"{file}:{line}: ")
                findings.append(Finding("error", "encoding", file, line, text))
                yield None
    except DataError as error:
        findings.append(read_error_finding(error, file))


def _detect_format(file: Path, findings: list[Finding]) -> TextFormat:
    """Return the format of a file; UTF-8 if the encoding is unknown, so that every invalid line is reported."""
    try:
        return text_files.detect_format(file)
    except UnknownEncoding as error:
        findings.append(read_error_finding(error, file))
        return UTF8


def _literal_quotes(group: Group) -> Iterator[Finding]:
    """Report cells of a TSV file that look quoted, although the file as a whole is read without quotes."""
    for file in group.files:
        if strip_compression(file).suffix not in (".tsv", ".txt") or len(group.files) > 1:
            continue
        with suppress(DataError):  # the reader reports the error
            if tables.is_quoted(file):
                continue
            for line, text in enumerate(read_lines(file), start=1):
                if any(QUOTED_CELL.fullmatch(cell) for cell in text.split("\t")):
                    problem = "a cell looks quoted, but quotation marks are read as text; other cells are not quoted"
                    yield Finding("warning", "quotes", file, line, problem)


def _line_findings(row: Row, *, is_table: bool) -> Iterator[Finding]:
    """Report empty cells and decomposed characters of a line. Aligned files with one empty line may be misaligned."""
    blank = [cell for cell in row.cells if not cell.text.strip()]
    for cell in blank[:1] if is_table else blank:
        if len(blank) == len(row.cells):
            yield Finding("warning", "empty", cell.file, row.line, "empty line")
        elif is_table:
            yield Finding("warning", "empty", cell.file, row.line, f"{ONE_SIDE_TEXT}; the pair is left out")
        else:
            yield Finding("error", "empty", cell.file, row.line, ONE_SIDE_TEXT)
    for cell in row.cells:
        if not unicodedata.is_normalized("NFC", cell.text):
            hangul = any("\u1100" <= character <= "\u11ff" for character in cell.text)
            problem = "decomposed Hangul (NFD)" if hangul else "decomposed characters (not NFC)"
            yield Finding("warning", "decomposed", cell.file, row.line, f"{problem}; composed when read")


def _repeats(row: Row, split: str, held_out: FirstOccurrences) -> Iterator[Finding]:
    """Report sentences that are also in another split."""
    for column, cell in enumerate(row.cells):
        text = unicodedata.normalize("NFC", cell.text).strip()
        if not text:
            continue
        if split != "train":
            first = held_out.setdefault((column, text), (split, cell.file, row.line))
        else:
            first = held_out.get((column, text), (split, cell.file, row.line))
        if first[0] != split:
            location = f"{first[1].name}:{first[2]}"
            yield Finding("warning", "repeated", cell.file, row.line, f"the same sentence is in {location}")


def _outliers(sizes: list[tuple[Row, list[int]]]) -> Iterator[Finding]:
    """Report lines far longer than the median, and pairs whose length ratio is far from the median ratio."""
    medians = [statistics.median(column) for column in zip_longest(*(lengths for _, lengths in sizes), fillvalue=0)]
    for row, lengths in sizes:
        for cell, length, median in zip(row.cells, lengths, medians, strict=False):
            if length > max(LONG_LINE_RATIO * median, LONG_LINE_CHARS):
                text = f"very long: {length} characters (median {median:.0f})"
                yield Finding("warning", "long", cell.file, row.line, text)
    pairs = [(row, a, b) for row, (a, b, *_) in ((r, [*n, 0, 0]) for r, n in sizes) if a and b]
    ratios = [math.log(a / b) for _, a, b in pairs]
    if len(ratios) < 10:
        return
    median_ratio = statistics.median(ratios)
    spread = statistics.median(abs(ratio - median_ratio) for ratio in ratios) * 1.4826 or 0.1
    for (row, a, b), ratio in zip(pairs, ratios, strict=True):
        if abs(ratio - median_ratio) > MAX_RATIO_DEVIATIONS * spread and max(a, b) > MIN_RATIO_CHARS:
            median = math.exp(median_ratio)
            text = f"{a} and {b} characters: far from the usual ratio {median:.2f}; is it a translation?"
            yield Finding("warning", "ratio", row.cells[0].file, row.line, text)
