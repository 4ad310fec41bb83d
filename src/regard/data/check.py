"""Looks parallel text over before it is trained on: what is wrong, in which file, on which line."""

from __future__ import annotations

import json
import math
import statistics
import unicodedata
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from regard.core.errors import DataError
from regard.data.rows import plain, split_of
from regard.data.text import raw_lines

DEVIATIONS = 6.0  # how far from the usual ratio of lengths a pair must be to be an outlier
SHORT = 20  # characters: below, lengths say little
TIMES, MANY = 10, 300  # a line is long if it has ten times the usual and at least 300 characters
TABLES = (".tsv", ".jsonl")


class Finding(NamedTuple):
    """Something wrong or odd; line 0 is the file as a whole."""

    level: Literal["error", "warning"]
    kind: str  # encoding, unreadable, columns, misaligned, empty, decomposed, repeated, long or ratio
    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else f"{self.file}"
        return f"{place}: {self.level}: {self.text}"


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


Held = dict[tuple[int, str], tuple[str, Path, int]]  # column and text -> split, file, line


def check(path: Path) -> list[Finding]:
    """A file or folder of parallel text -> what is wrong with it, by file and line."""
    findings: list[Finding] = []
    held: Held = {}
    for group in sorted(_groups(path), key=lambda group: group.split == "train"):  # train is looked up in the others
        sizes: list[tuple[Row, list[int]]] = []
        for row in _rows(group, findings):
            findings += _line(row)
            findings += _repeats(row, group.split, held=held)
            sizes.append((Row(row.line, [Cell(c.file, "") for c in row.cells]), [len(c.text) for c in row.cells]))
        findings += _outliers(sizes)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line, finding.text))


def _groups(path: Path) -> list[Group]:
    if path.is_file():
        return [Group("train", (path,))]
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    stems: dict[tuple[str, str], list[Path]] = {}
    for file in sorted(path.iterdir()):
        name = plain(file)
        split = split_of(name.stem)
        if file.is_file() and split and name.suffix:
            own = name.name if name.suffix in TABLES else name.stem
            stems.setdefault((own, split), []).append(file)
    if not stems:
        raise DataError(f"{path}: no files named after a split (train, valid, test) to check")
    return [Group(split, tuple(files)) for (_, split), files in stems.items()]


def _rows(group: Group, findings: list[Finding]) -> Iterator[Row]:
    """The lines of a group as far as all its files go; what cannot be read is a finding."""
    readers = [_decoded(file, findings) for file in group.files]
    ends: dict[Path, int] = {}
    for line, texts in enumerate(zip_longest(*readers, fillvalue=""), start=1):
        for file, text in zip(group.files, texts, strict=True):
            if text == "":  # a line as read keeps its \n: nothing at all is the end of the file
                ends.setdefault(file, line - 1)
        if not ends and all(text is not None for text in texts):
            cells = [Cell(f, str(t).rstrip("\r\n")) for f, t in zip(group.files, texts, strict=True)]
            yield Row(line, cells if len(cells) > 1 else _columns(cells[0], line, findings))
    longest = max((file for file in group.files if file not in ends), default=None)
    for file, end in ends.items():
        if longest is not None:
            findings.append(
                Finding(
                    "error", "misaligned", file, end, f"ends here, but {longest.name} goes on; lines must be aligned"
                )
            )


def _decoded(file: Path, findings: list[Finding]) -> Iterator[str | None]:
    """The lines of a file with their \\n, None for one that is not UTF-8."""
    try:
        for line, raw in enumerate(raw_lines(file), start=1):
            try:
                yield raw.decode("utf-8") + ("" if raw.endswith(b"\n") else "\n")
            except UnicodeDecodeError as wrong:
                byte = f"byte {wrong.start + 1} of the line is 0x{raw[wrong.start]:02x}"
                findings.append(Finding("error", "encoding", file, line, f"not UTF-8: {byte}"))
                yield None
    except DataError as wrong:
        findings.append(Finding("error", "unreadable", file, 0, str(wrong).removeprefix(f"{file}: ")))


def _columns(cell: Cell, line: int, findings: list[Finding]) -> list[Cell]:
    """The first two columns of a TSV line, or the texts of a JSON record."""
    texts = cell.text.split("\t")[:2]
    if plain(cell.file).suffix == ".jsonl":
        try:
            record = json.loads(cell.text)
            table = record.get("translation", record)
            texts = [value for _, value in sorted(table.items()) if isinstance(value, str)]
        except (ValueError, AttributeError):
            findings.append(Finding("error", "columns", cell.file, line, "not a JSON object"))
            return []
    if len(texts) < 2:
        findings.append(Finding("error", "columns", cell.file, line, "has one text where a pair is expected"))
    return [Cell(cell.file, text) for text in texts]


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


def _repeats(row: Row, split: str, *, held: Held) -> Iterator[Finding]:
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
            if length > max(TIMES * middle, MANY):
                text = f"{length} characters, where {middle:.0f} are usual"
                yield Finding("warning", "long", cell.file, row.line, text)
    pairs = [(row, a, b) for row, (a, b, *_) in ((r, [*n, 0, 0]) for r, n in sizes) if a and b]
    ratios = [math.log(a / b) for _, a, b in pairs]
    if len(ratios) < 10:
        return
    middle = statistics.median(ratios)
    spread = statistics.median(abs(ratio - middle) for ratio in ratios) * 1.4826 or 0.1
    for (row, a, b), ratio in zip(pairs, ratios, strict=True):
        if abs(ratio - middle) > DEVIATIONS * spread and max(a, b) > SHORT:
            text = f"{a} characters beside {b}: far from the usual ratio {math.exp(middle):.2f}; is it a translation?"
            yield Finding("warning", "ratio", row.cells[0].file, row.line, text)
