"""Sentence pairs as far as they can be read: what cannot is a finding, and the rest goes on to be looked over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import DataError, RegardError
from regard.data import columns, reading, tables
from regard.data.columns import USUAL, Languages
from regard.data.encodings import UTF8, Form, UnknownEncoding
from regard.data.findings import Finding, unreadable
from regard.data.languages import NAMES
from regard.data.rows import plain, split_of
from regard.data.text import from_record, sides

END = "\n"  # no line has it: the end of a file beside a longer one


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


def groups(path: Path, languages: Languages = USUAL) -> list[Group]:
    """A file or folder -> the files that are read together; of two aligned files one is enough."""
    if path.is_file():
        return [Group("train", sides(path, languages) or (path,))]
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    stems: dict[tuple[str, str], list[Path]] = {}
    for file in sorted(path.iterdir()):
        name = plain(file)
        split = split_of(name.stem)
        if file.is_file() and split and name.suffix:
            own = name.name if name.suffix in tables.SUFFIXES else name.stem
            stems.setdefault((own, split), []).append(file)
    if not stems:  # as training does: the first table is all there is
        loose = sorted(file for file in path.iterdir() if plain(file).suffix in tables.SUFFIXES)
        if not loose:
            raise DataError(f"{path}: no files named after a split (train, valid, test) to check")
        return [Group("train", (loose[0],))]
    return [Group(split, tuple(files)) for (_, split), files in stems.items()]


def meant(path: Path) -> Languages:
    """The languages that training has to be told of a path: the usual ones, unless files or a header name others."""
    name = plain(path)
    if path.is_file() and name.suffix.removeprefix(".") in NAMES:
        return _named(plain(file).suffix for file in sorted(path.parent.glob(f"{name.stem}.*")))
    files = min(groups(path), key=lambda group: group.split != "train").files
    if len(files) > 1:
        return _named(plain(file).suffix for file in files)
    try:
        return columns.meant(_top(files[0]))
    except DataError:  # which is a finding of the check
        return USUAL


def _named(suffixes: Iterable[str]) -> Languages:
    """The languages that files are named after; en comes first and ko last, as where nothing is said."""
    codes = dict.fromkeys(suffix.removeprefix(".") for suffix in suffixes)
    if set(USUAL[:2]) <= set(codes) or len(codes) < 2:
        return USUAL
    source, target, *_ = sorted(codes, key=lambda code: (code == USUAL.target) - (code == USUAL.source))
    return Languages(source, target)


def _top(file: Path) -> list[str]:
    """The names of columns that a table may have in its first record."""
    if plain(file).suffix != ".jsonl":
        return next((record.cells for record in tables.records(file)), [])
    record: Any = next((record for _, record in tables.objects(file)), {})
    inner = record.get("translation", record) if isinstance(record, dict) else {}
    return [name for name, value in inner.items() if isinstance(value, str)] if isinstance(inner, dict) else []


def rows(group: Group, languages: Languages, findings: list[Finding]) -> Iterator[Row]:
    """The pairs of a group as far as they can be read; what cannot is a finding."""
    if len(group.files) == 1:
        return _table(group.files[0], languages, findings)
    return _parallel(group, findings)


def _parallel(group: Group, findings: list[Finding]) -> Iterator[Row]:
    """The lines of files side by side, as far as all of them go."""
    readers = [_decoded(file, findings) for file in group.files]
    ends: dict[Path, int] = {}
    for line, texts in enumerate(zip_longest(*readers, fillvalue=END), start=1):
        for file, text in zip(group.files, texts, strict=True):
            if text == END:
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
    if plain(file).suffix == ".jsonl":
        yield from _objects(file, languages, findings)
        return
    stream = _records(file, findings)
    head = list(islice(stream, columns.LOOKED_AT + 1))
    if not head and all(finding.file != file for finding in findings):
        findings.append(Finding("error", "empty", file, 0, "there is nothing but blank lines in it"))
    if not head:
        return
    try:
        first, others = head[0].cells, [record.cells for record in head[1:]]
        found = columns.places(first, others, languages, file)
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
        yield from tables.records(file)
    except DataError as wrong:
        findings.append(unreadable(wrong, file))


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
        for line, raw in enumerate(reading.raw_lines(file, form), start=1):
            try:
                yield reading.decode_line(raw, form, f"{file}:{line}")
            except DataError as wrong:
                text = str(wrong).removeprefix(f"{file}:{line}: ")
                findings.append(Finding("error", "encoding", file, line, text))
                yield None
    except DataError as wrong:
        findings.append(unreadable(wrong, file))


def _form_of(file: Path, findings: list[Finding]) -> Form:
    """How a file is written; where that cannot be told it is read as UTF-8, and every line that is not is named."""
    try:
        return reading.form_of(file)
    except UnknownEncoding as wrong:
        findings.append(unreadable(wrong, file))
        return UTF8
