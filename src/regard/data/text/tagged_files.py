"""Sentences whose units are tagged, as they come: CoNLL columns, KLUE characters, KLP lines. Read lazily.

CoNLL: a word and its tag a line (any columns between are passed over), a blank line behind each sentence. KLUE: the
same with a character a line, spaces too, below a line `## id<tab>text`. KLP: `; text`, `$text with <entity:TYPE>`, then
a line a morpheme; morphemes cannot be found again in the text (구하 + ㄹ = 구할), so its characters are tagged by `$`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from regard.core.errors import DataError
from regard.data import examples
from regard.data.examples import Examples
from regard.data.files.text_files import read_lines
from regard.data.text import tag_schemes
from regard.data.text.tag_schemes import Entity, Scheme

Span = tuple[int, int]
Format = Literal["auto", "conll", "klue", "klp"]
MARKUP = re.compile(r"<([^<>]+):([A-Za-z_]+)>")
DOCUMENT = "-DOCSTART-"
SUFFIXES = (".conll", ".iob", ".bio", ".tsv", ".txt", ".ner")


class Line(NamedTuple):
    """One unit as the file has it."""

    number: int  # of the line, counted from 1
    unit: str
    tag: str


class Block(NamedTuple):
    """The lines of one sentence."""

    first_line: int  # number of its first line
    text: str  # as a line above it says; "" where none does
    lines: tuple[Line, ...]


class Sentence(NamedTuple):
    """A raw text, where its units stand in it, and their tags in BIO."""

    text: str
    units: tuple[Span, ...]
    tags: tuple[str, ...]
    place: str  # where it comes from: a file and its first line


def read(path: Path, *, file_format: Format = "auto", scheme: Scheme | None = None) -> dict[str, Examples[Sentence]]:
    """A file, or a folder with files named after splits -> sentences by split. None: the scheme is found out."""
    if path.is_file():
        return {"train": read_sentences(path, file_format=file_format, scheme=scheme)}
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    files = examples.files_by_split(path, SUFFIXES)
    if not files:
        names = ", ".join(sorted(file.name for file in path.iterdir())[:5])
        raise DataError(f"{path}: no file named train, valid or test; it has {names or 'nothing'}")
    return {split: read_sentences(file, file_format=file_format, scheme=scheme) for split, file in files.items()}


def read_sentences(path: Path, *, file_format: Format = "auto", scheme: Scheme | None = None) -> Examples[Sentence]:
    """A file of tagged sentences -> its sentences, their tags as BIO."""
    chosen = detect_format(path) if file_format == "auto" else file_format

    def read() -> Iterator[Sentence]:
        if chosen == "klp":
            yield from _from_markup(path)
            return
        given = scheme or detect_file_scheme(path, chosen)
        for block in read_blocks(path, chosen):
            yield _sentence(block, path, given)

    return examples.from_files(f"{path}", read, path, key=f"{chosen} {scheme}")


def detect_format(path: Path) -> Literal["conll", "klue", "klp"]:
    """A file -> how it is written, by its first line."""
    top = next(iter(read_lines(path)))
    if top.startswith("## "):
        return "klue"
    return "klp" if top.startswith(";") else "conll"


def detect_file_scheme(path: Path, file_format: Format) -> Scheme:
    """The scheme of a file's tags; an error where they keep to none."""
    try:
        return tag_schemes.detect_scheme([line.tag for line in block.lines] for block in read_blocks(path, file_format))
    except DataError as wrong:
        raise wrong if str(wrong).startswith(str(path)) else DataError(f"{path}: {wrong}") from None


def read_blocks(path: Path, file_format: Format) -> Iterator[Block]:
    """A file -> the lines of each sentence; a malformed line is an error that names it."""
    text, held = "", list[Line]()
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith(DOCUMENT):
            if held:
                yield Block(held[0].number, text, tuple(held))
            text, held = "", []
        elif file_format == "klue" and line.startswith("##"):
            text = line.partition("\t")[2]
        else:
            held.append(parse_line(line, number, path, file_format))
    if held:
        yield Block(held[0].number, text, tuple(held))


def parse_line(line: str, line_number: int, path: Path, file_format: Format) -> Line:
    """One line of a file -> its unit and tag; an error names file, line and what is wrong."""
    cells = line.split("\t") if "\t" in line else line.split()
    if len(cells) < 2 or not cells[0] or not cells[-1].strip():
        raise DataError(f"{path}:{line_number}: expected a word and its tag in two columns, got {line!r:.60}")
    unit, tag = cells[0], cells[-1].strip()
    if file_format == "klue" and len(unit) != 1:
        raise DataError(f"{path}:{line_number}: {unit!r:.40} stands where one character is expected")
    try:
        tag_schemes.parse(tag)
    except DataError as wrong:
        raise DataError(f"{path}:{line_number}: {wrong}") from None
    return Line(line_number, unit, tag)


def _sentence(block: Block, path: Path, scheme: Scheme) -> Sentence:
    tags = [line.tag for line in block.lines]
    wrong = tag_schemes.find_tag_error(tags, scheme)
    if wrong is not None:
        remedy = "; data.scheme='iob1' reads it as a beginning" if "has not begun" in wrong.problem else ""
        raise DataError(f"{path}:{block.lines[wrong.unit].number}: {wrong.problem}{remedy}")
    units = [line.unit for line in block.lines]
    between = "" if all(len(unit) == 1 for unit in units) and " " in units else " "
    text, spans = join_units(units, between)
    return Sentence(text, spans, tuple(tag_schemes.convert(tags, scheme, "bio")), f"{path}:{block.first_line}")


def join_units(units: list[str], separator: str = " ") -> tuple[str, tuple[Span, ...]]:
    """Units -> the text they make, and where each stands in it."""
    spans: list[Span] = []
    place = 0
    for unit in units:
        spans.append((place, place + len(unit)))
        place += len(unit) + len(separator)
    return separator.join(units), tuple(spans)


def _from_markup(path: Path) -> Iterator[Sentence]:
    """KLP: the line `; text` and the line `$text with <entity:TYPE>` below it -> tagged characters."""
    raw, place = "", 0
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(";"):
            raw, place = line.removeprefix(";").strip(), number
        elif line.startswith("$"):
            text, found = parse_markup(line.removeprefix("$").strip())
            if text != raw:
                raise DataError(f"{path}:{number}: without its <name:TYPE> this is not the text of line {place}, '; …'")
            units = tuple((i, i + 1) for i in range(len(text)))
            yield Sentence(text, units, tuple(tag_schemes.entities_to_tags(found, len(text), "bio")), f"{path}:{place}")


def parse_markup(text: str) -> tuple[str, list[Entity]]:
    """`<파리:LC>에 갔다` -> 파리에 갔다, and that 파리 is a LC."""
    plain, found, end = "", list[Entity](), 0
    for match in MARKUP.finditer(text):
        plain += text[end : match.start()]
        found.append(Entity(len(plain), len(plain) + len(match[1]), match[2]))
        plain += match[1]
        end = match.end()
    return plain + text[end:], found


def entity_spans(sentence: Sentence) -> list[tuple[int, int, str]]:
    """A sentence -> its entities as (start, stop, type) in the raw text."""
    found = tag_schemes.tags_to_entities(sentence.tags, "bio")
    return [(sentence.units[e.start][0], sentence.units[e.stop - 1][1], e.type) for e in found]
