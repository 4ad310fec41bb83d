"""Sentence pairs as far as they can be read: what cannot is a finding, and the rest goes on to be looked over.

Looks parallel text over before it is trained on: what is wrong, in which file, on which line.
"""

from __future__ import annotations

import json
import math
import shlex
import statistics
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError, RegardError
from regard.data import examples
from regard.data.checks.findings import DistinctTexts, Finding, read_error_finding
from regard.data.examples import split_of, strip_compression
from regard.data.files import tables, text_files
from regard.data.files.encodings import UTF8, TextFormat, UnknownEncoding
from regard.data.files.text_files import read_lines
from regard.data.text import pair_files
from regard.data.text.languages import LANGUAGE_NAMES
from regard.data.text.pair_files import DEFAULT_LANGUAGES, Languages, aligned_files, from_record

END_OF_FILE = "\n"  # no line has it: the end of a file beside a longer one


class Group(NamedTuple):
    """Files whose lines belong together (or one file with columns), and the split they are."""

    split: str
    files: tuple[Path, ...]


class Cell(NamedTuple):
    """A text and the file it stands in."""

    file: Path
    text: str


class Row(NamedTuple):
    """The texts of one line that should translate each other."""

    line: int
    cells: list[Cell]


def file_groups(path: Path, languages: Languages = DEFAULT_LANGUAGES) -> list[Group]:
    """A file or folder -> the files that are read together; of two aligned files one is enough."""
    if path.is_file():
        return [Group("train", aligned_files(path, languages) or (path,))]
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    stems: dict[tuple[str, str], list[Path]] = {}
    for file in sorted(path.iterdir()):
        name = strip_compression(file)
        split = split_of(name.stem)
        if file.is_file() and split and name.suffix:
            own = name.name if name.suffix in tables.SUFFIXES else name.stem
            stems.setdefault((own, split), []).append(file)
    if not stems:  # as training does: the first table is all there is
        loose = sorted(file for file in path.iterdir() if strip_compression(file).suffix in tables.SUFFIXES)
        if not loose:
            raise DataError(f"{path}: no files named after a split (train, valid, test) to check")
        return [Group("train", (loose[0],))]
    return [Group(split, tuple(files)) for (_, split), files in stems.items()]


def detect_languages(path: Path) -> Languages:
    """The languages that training has to be told of a path: the usual ones, unless files or a header name others."""
    name = strip_compression(path)
    if path.is_file() and name.suffix.removeprefix(".") in LANGUAGE_NAMES:
        return _named(strip_compression(file).suffix for file in sorted(path.parent.glob(f"{name.stem}.*")))
    files = min(file_groups(path), key=lambda group: group.split != "train").files
    if len(files) > 1:
        return _named(strip_compression(file).suffix for file in files)
    try:
        return pair_files.detect_languages(_top(files[0]))
    except DataError:  # which is a finding of the check
        return DEFAULT_LANGUAGES


def _named(suffixes: Iterable[str]) -> Languages:
    """The languages that files are named after; en comes first and ko last, as where nothing is said."""
    codes = dict.fromkeys(suffix.removeprefix(".") for suffix in suffixes)
    if set(DEFAULT_LANGUAGES[:2]) <= set(codes) or len(codes) < 2:
        return DEFAULT_LANGUAGES
    source, target, *_ = sorted(
        codes, key=lambda code: (code == DEFAULT_LANGUAGES.target) - (code == DEFAULT_LANGUAGES.source)
    )
    return Languages(source, target)


def _top(file: Path) -> list[str]:
    """The names of columns that a table may have in its first record."""
    if strip_compression(file).suffix != ".jsonl":
        return next((record.cells for record in tables.read_records(file)), [])
    record: Any = next((record for _, record in tables.read_jsonl(file)), {})
    inner = record.get("translation", record) if isinstance(record, dict) else {}
    return [name for name, value in inner.items() if isinstance(value, str)] if isinstance(inner, dict) else []


def read_rows(group: Group, languages: Languages, findings: list[Finding]) -> Iterator[Row]:
    """The pairs of a group as far as they can be read; what cannot is a finding."""
    if len(group.files) == 1:
        return _table(group.files[0], languages, findings)
    return _parallel(group, findings)


def _parallel(group: Group, findings: list[Finding]) -> Iterator[Row]:
    """The lines of files side by side, as far as all of them go."""
    readers = [_decoded(file, findings) for file in group.files]
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
            text = f"ends here, but {longest.name} goes on; lines must be aligned"
            findings.append(Finding("error", "misaligned", file, end, text))


def _table(file: Path, languages: Languages, findings: list[Finding]) -> Iterator[Row]:
    """The pairs of a table, by the columns that training reads."""
    if strip_compression(file).suffix == ".jsonl":
        yield from _objects(file, languages, findings)
        return
    stream = _records(file, findings)
    head = list(islice(stream, pair_files.SNIFF_RECORDS + 1))
    if not head and all(finding.file != file for finding in findings):
        findings.append(Finding("error", "empty", file, 0, "there is nothing but blank lines in it"))
    if not head:
        return
    try:
        first, others = head[0].cells, [record.cells for record in head[1:]]
        found = pair_files.find_columns(first, others, languages, file)
    except RegardError as wrong:
        findings.append(Finding("error", "columns", file, 1, str(wrong).removeprefix(f"{file}: ")))
        return
    for line, cells in chain(head[1:] if found.header else head, stream):
        if len(cells) <= max(found.source, found.target):
            asked = f"column {max(found.source, found.target) + 1} is asked for"
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            findings.append(Finding("error", "columns", file, line, f"{count}, but {asked}"))
        else:
            yield Row(line, [Cell(file, cells[place]) for place in found[:2]])


def _records(file: Path, findings: list[Finding]) -> Iterator[tables.Record]:
    """The records of a table; of lines that cannot be read, those of a table with quotes are the last."""
    try:
        quoted = tables.is_quoted(file)
    except DataError:
        quoted = False  # the reader says what is wrong
    if not quoted:
        for line, text in enumerate(_decoded(file, findings), start=1):
            if text is not None and text.strip(" "):
                yield tables.Record(line, text.split("\t"))
        return
    try:
        yield from tables.read_records(file)
    except DataError as wrong:
        findings.append(read_error_finding(wrong, file))


def _objects(file: Path, languages: Languages, findings: list[Finding]) -> Iterator[Row]:
    for line, text in enumerate(_decoded(file, findings), start=1):
        if text is None or not text.strip():
            continue
        try:
            record = json.loads(text)
            yield Row(line, [Cell(file, text) for text in from_record(record, languages, f"{file}:{line}")])
        except ValueError:
            findings.append(Finding("error", "columns", file, line, "not a JSON object"))
        except DataError as wrong:
            findings.append(Finding("error", "columns", file, line, str(wrong).partition(": ")[2]))


def _decoded(file: Path, findings: list[Finding]) -> Iterator[str | None]:
    """The lines of a file, None for one that cannot be read."""
    try:
        form = _form_of(file, findings)
        for line, raw in enumerate(text_files.read_raw_lines(file, form), start=1):
            try:
                yield text_files.decode_line(raw, form, f"{file}:{line}")
            except DataError as wrong:
                text = str(wrong).removeprefix(f"{file}:{line}: ")
                findings.append(Finding("error", "encoding", file, line, text))
                yield None
    except DataError as wrong:
        findings.append(read_error_finding(wrong, file))


def _form_of(file: Path, findings: list[Finding]) -> TextFormat:
    """How a file is written; where that cannot be told it is read as UTF-8, and every line that is not is named."""
    try:
        return text_files.detect_format(file)
    except UnknownEncoding as wrong:
        findings.append(read_error_finding(wrong, file))
        return UTF8


MAX_RATIO_DEVIATIONS = 6.0  # how far from the usual ratio of lengths a pair must be to be an outlier
MIN_RATIO_CHARS = 20  # characters: below, lengths say little
LONG_LINE_RATIO, LONG_LINE_CHARS = 10, 300  # a line is long if it has ten times the usual and at least 300 characters


FirstOccurrences = dict[tuple[int, str], tuple[str, Path, int]]  # column and text -> split, file, line


def check(path: Path, languages: Languages | None = None) -> list[Finding]:
    """A file or folder of parallel text -> what is wrong with it, by file and line; languages not given are guessed."""
    languages = languages or detect_languages(path)
    findings: list[Finding] = []
    held: FirstOccurrences = {}
    try:
        if _is_plain(path):
            return [Finding("error", "columns", path, 0, _PLAIN.format(shlex.quote(f"data.paths={path}")))]
        pair_files.read(path, languages)
        groups = file_groups(path, languages)
    except DataError as wrong:
        return [read_error_finding(wrong, path)]
    if len(splits := {group.split for group in groups}) == 1:  # which is trained on, whatever its name
        splits, groups = {"train"}, [group._replace(split="train") for group in groups]
    different = DistinctTexts(splits)
    for group in sorted(groups, key=lambda group: group.split == "train"):  # train is looked up in the others
        sizes: list[tuple[Row, list[int]]] = []
        for row in read_rows(group, languages, findings):
            findings += _line(row)
            different.add(row.cells[0].text, group.split)
            findings += _repeats(row, group.split, held=held)
            sizes.append((Row(row.line, [Cell(c.file, "") for c in row.cells]), [len(c.text) for c in row.cells]))
        findings += _outliers(sizes)
    if all(finding.level == "warning" for finding in findings):  # else training says the others first
        findings += different.findings(path)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


_PLAIN = "no line has a tab, so there are no pairs in it; plain text is trained on by: regard train language {}"


def _is_plain(path: Path) -> bool:
    """Whether a file is running text, and no table."""
    if not path.is_file() or examples.strip_compression(path).suffix != ".txt":
        return False
    return not any("\t" in line for line in read_lines(path))


def first_pair(path: Path, languages: Languages | None = None) -> list[str]:
    """The texts of the first pair for training that can be read; none where none can."""
    languages = languages or detect_languages(path)
    try:
        group = min(file_groups(path, languages), key=lambda group: group.split != "train")
    except DataError:  # which is a finding of the check
        return []
    found = ([cell.text for cell in row.cells] for row in read_rows(group, languages, []))
    return next((texts for texts in found if all(text.strip() for text in texts)), [])


def _line(row: Row) -> Iterator[Finding]:
    """What a line shows by itself: nothing in it, or decomposed characters."""
    blank = [cell for cell in row.cells if not cell.text.strip()]
    for cell in blank:
        everywhere = len(blank) == len(row.cells)
        yield Finding("warning" if everywhere else "error", "empty", cell.file, row.line, _EMPTY[everywhere])
    for cell in row.cells:
        if not unicodedata.is_normalized("NFC", cell.text):
            hangul = any("\u1100" <= character <= "\u11ff" for character in cell.text)
            what = "decomposed Hangul (NFD)" if hangul else "decomposed characters (not NFC)"
            yield Finding("warning", "decomposed", cell.file, row.line, f"{what}; it is composed when read")


_EMPTY = {True: "empty line", False: "empty, but the other language has text"}


def _repeats(row: Row, split: str, *, held: FirstOccurrences) -> Iterator[Finding]:
    """Sentences that another split has too."""
    for column, cell in enumerate(row.cells):
        text = unicodedata.normalize("NFC", cell.text).strip()
        if not text:
            continue
        if split != "train":
            other = held.setdefault((column, text), (split, cell.file, row.line))
        else:
            other = held.get((column, text), (split, cell.file, row.line))
        if other[0] != split:
            place = f"{other[1].name}:{other[2]}"
            yield Finding("warning", "repeated", cell.file, row.line, f"the same sentence is in {place}")


def _outliers(sizes: list[tuple[Row, list[int]]]) -> Iterator[Finding]:
    """Lines far longer than usual, and pairs whose lengths differ far more than usual."""
    usual = [statistics.median(column) for column in zip_longest(*(lengths for _, lengths in sizes), fillvalue=0)]
    for row, lengths in sizes:
        for cell, length, middle in zip(row.cells, lengths, usual, strict=False):
            if length > max(LONG_LINE_RATIO * middle, LONG_LINE_CHARS):
                text = f"{length} characters, where {middle:.0f} are usual"
                yield Finding("warning", "long", cell.file, row.line, text)
    pairs = [(row, a, b) for row, (a, b, *_) in ((r, [*n, 0, 0]) for r, n in sizes) if a and b]
    ratios = [math.log(a / b) for _, a, b in pairs]
    if len(ratios) < 10:
        return
    middle = statistics.median(ratios)
    spread = statistics.median(abs(ratio - middle) for ratio in ratios) * 1.4826 or 0.1
    for (row, a, b), ratio in zip(pairs, ratios, strict=True):
        if abs(ratio - middle) > MAX_RATIO_DEVIATIONS * spread and max(a, b) > MIN_RATIO_CHARS:
            text = f"{a} characters beside {b}: far from the usual ratio {math.exp(middle):.2f}; is it a translation?"
            yield Finding("warning", "ratio", row.cells[0].file, row.line, text)
