"""Looks parallel text over before it is trained on: what is wrong, in which file, on which line."""

from __future__ import annotations

import math
import shlex
import statistics
import unicodedata
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from regard.core.errors import DataError
from regard.data import check_rows, rows, text
from regard.data.check_rows import Cell, Row
from regard.data.columns import Languages
from regard.data.findings import Different, Finding, unreadable
from regard.data.reading import lines

DEVIATIONS = 6.0  # how far from the usual ratio of lengths a pair must be to be an outlier
SHORT = 20  # characters: below, lengths say little
TIMES, MANY = 10, 300  # a line is long if it has ten times the usual and at least 300 characters


Held = dict[tuple[int, str], tuple[str, Path, int]]  # column and text -> split, file, line


def check(path: Path, languages: Languages | None = None) -> list[Finding]:
    """A file or folder of parallel text -> what is wrong with it, by file and line; languages not given are guessed."""
    languages = languages or check_rows.meant(path)
    findings: list[Finding] = []
    held: Held = {}
    try:
        if _is_plain(path):
            return [Finding("error", "columns", path, 0, _PLAIN.format(shlex.quote(f"data.paths={path}")))]
        text.read(path, languages)
        groups = check_rows.groups(path, languages)
    except DataError as wrong:
        return [unreadable(wrong, path)]
    if len(splits := {group.split for group in groups}) == 1:  # which is trained on, whatever its name
        splits, groups = {"train"}, [group._replace(split="train") for group in groups]
    different = Different(splits)
    for group in sorted(groups, key=lambda group: group.split == "train"):  # train is looked up in the others
        sizes: list[tuple[Row, list[int]]] = []
        for row in check_rows.rows(group, languages, findings):
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
    if not path.is_file() or rows.plain(path).suffix != ".txt":
        return False
    return not any("\t" in line for line in lines(path))


def first_pair(path: Path, languages: Languages | None = None) -> list[str]:
    """The texts of the first pair for training that can be read; none where none can."""
    languages = languages or check_rows.meant(path)
    try:
        group = min(check_rows.groups(path, languages), key=lambda group: group.split != "train")
    except DataError:  # which is a finding of the check
        return []
    found = ([cell.text for cell in row.cells] for row in check_rows.rows(group, languages, []))
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
