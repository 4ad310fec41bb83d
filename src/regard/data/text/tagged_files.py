"""Lazy readers of tagged sentences: CoNLL columns, KLUE characters, KLP markup.

CoNLL: one word and its tag per line (columns between are ignored), and a blank line after each sentence. KLUE: the
same with one character per line, spaces included, below a line `## id<tab>text`. KLP: `; text`, then `$text with
<entity:TYPE>`, then one morpheme per line. Morphemes cannot be located in the text (구하 + ㄹ = 구할), so the `$` line
is used to tag the characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from regard.core.errors import DataError
from regard.data import examples
from regard.data.examples import Examples
from regard.data.files import table_folders
from regard.data.files.table_folders import SplitFiles
from regard.data.files.text_files import read_lines
from regard.data.text import tag_schemes
from regard.data.text.tag_schemes import Entity, Scheme

Span = tuple[int, int]
Format = Literal["auto", "conll", "klue", "klp"]
MARKUP = re.compile(r"<([^<>]+):([A-Za-z_]+)>")
DOCUMENT = "-DOCSTART-"


class Line(NamedTuple):
    """One line of a file: a unit and its tag."""

    line_number: int  # counted from 1
    unit: str
    tag: str


class Block(NamedTuple):
    """The lines of one sentence."""

    first_line: int  # line number
    text: str  # text in the line above the sentence, or ""
    lines: tuple[Line, ...]


class Sentence(NamedTuple):
    """A raw text, the spans of its units, and their tags in BIO."""

    text: str
    units: tuple[Span, ...]
    tags: tuple[str, ...]
    origin: str  # file and first line


def read(path: Path, *, file_format: Format = "auto", scheme: Scheme | None = None) -> dict[str, Examples[Sentence]]:
    """File, or folder with files named after splits -> sentences by split. The scheme None is detected."""
    if path.is_file():
        return {"train": read_sentences(path, file_format=file_format, scheme=scheme)}
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder")
    files, remarks = split_files(path)
    if not files:
        table_folders.check_not_nested(path)
        names = ", ".join(sorted(file.name for file in path.iterdir())[:5])
        raise DataError(f"{path}: no file named train, valid or test; it has {names or 'nothing'}")
    return {
        split: examples.join(
            [read_sentences(file, file_format=file_format, scheme=scheme) for file in files[split]], f"{path}", remarks
        )
        for split in files
    }


def split_files(folder: Path) -> SplitFiles:
    """Folder -> its files named after splits; without such names, its files with a suffix of tagged words."""
    files = table_folders.visible_files(folder)
    named = [file for file in files if table_folders.file_split(file)]
    tagged = [file for file in files if examples.strip_compression(file).suffix in table_folders.TAGGED_SUFFIXES]
    return table_folders.group_by_split(folder, sorted({*named, *tagged}))


def read_sentences(path: Path, *, file_format: Format = "auto", scheme: Scheme | None = None) -> Examples[Sentence]:
    """File of tagged sentences -> its sentences, with tags in BIO."""
    chosen = detect_format(path) if file_format == "auto" else file_format

    def read() -> Iterator[Sentence]:
        if chosen == "klp":
            yield from _from_markup(path)
            return
        file_scheme = scheme or detect_file_scheme(path, chosen)
        for block in read_blocks(path, chosen):
            yield _sentence(block, path, file_scheme)

    return examples.from_files(f"{path}", read, path, key=f"{chosen} {scheme}")


def detect_format(path: Path) -> Literal["conll", "klue", "klp"]:
    """File -> its format, detected by the first line."""
    top = next(iter(read_lines(path)), "")
    if top.startswith("## "):
        return "klue"
    return "klp" if top.startswith(";") else "conll"


def detect_file_scheme(path: Path, file_format: Format) -> Scheme:
    """Return the scheme of the tags of a file; tags that follow no scheme are an error."""
    try:
        return tag_schemes.detect_scheme([line.tag for line in block.lines] for block in read_blocks(path, file_format))
    except DataError as error:
        raise error if str(error).startswith(str(path)) else DataError(f"{path}: {error}") from None


def read_blocks(path: Path, file_format: Format) -> Iterator[Block]:
    """File -> the lines of each sentence; a malformed line is an error with its line number."""
    text, lines = "", list[Line]()
    for line_number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith(DOCUMENT):
            if lines:
                yield Block(lines[0].line_number, text, tuple(lines))
            text, lines = "", []
        elif file_format == "klue" and line.startswith("##"):
            text = line.partition("\t")[2]
        else:
            lines.append(parse_line(line, line_number, path, file_format))
    if lines:
        yield Block(lines[0].line_number, text, tuple(lines))


def parse_line(line: str, line_number: int, path: Path, file_format: Format) -> Line:
    """One line of a file -> its unit and tag; an error names file, line and problem."""
    cells = line.split("\t") if "\t" in line else line.split()
    if len(cells) < 2 or not cells[0] or not cells[-1].strip():
        raise DataError(f"{path}:{line_number}: expected a word and its tag in two columns, got {line!r:.60}")
    unit, tag = cells[0], cells[-1].strip()
    if file_format == "klue" and len(unit) != 1:
        raise DataError(f"{path}:{line_number}: expected one character, got {unit!r:.40}")
    try:
        tag_schemes.parse(tag)
    except DataError as error:
        raise DataError(f"{path}:{line_number}: {error}") from None
    return Line(line_number, unit, tag)


def _sentence(block: Block, path: Path, scheme: Scheme) -> Sentence:
    tags = [line.tag for line in block.lines]
    error = tag_schemes.find_tag_error(tags, scheme)
    if error is not None:
        remedy = "; data.scheme='iob1' reads it as a start" if tag_schemes.CONTINUES_NOTHING in error.problem else ""
        raise DataError(f"{path}:{block.lines[error.unit].line_number}: {error.problem}{remedy}")
    units = [line.unit for line in block.lines]
    separator = "" if all(len(unit) == 1 for unit in units) and " " in units else " "
    text, spans = join_units(units, separator)
    return Sentence(text, spans, tuple(tag_schemes.convert(tags, scheme, "bio")), f"{path}:{block.first_line}")


def join_units(units: list[str], separator: str = " ") -> tuple[str, tuple[Span, ...]]:
    """Units -> the joined text, and the span of each unit."""
    spans: list[Span] = []
    start = 0
    for unit in units:
        spans.append((start, start + len(unit)))
        start += len(unit) + len(separator)
    return separator.join(units), tuple(spans)


def _from_markup(path: Path) -> Iterator[Sentence]:
    """KLP: the line `; text` and the line `$text with <entity:TYPE>` below it -> tagged characters."""
    raw, raw_line = "", 0
    for line_number, line in enumerate(read_lines(path), start=1):
        if line.startswith(";"):
            raw, raw_line = line.removeprefix(";").strip(), line_number
        elif line.startswith("$"):
            text, entities = parse_markup(line.removeprefix("$").strip())
            if text != raw:
                raise DataError(
                    f"{path}:{line_number}: without its <name:TYPE> this is not the text of line {raw_line}, '; …'"
                )
            units = tuple((i, i + 1) for i in range(len(text)))
            tags = tuple(tag_schemes.entities_to_tags(entities, len(text), "bio"))
            yield Sentence(text, units, tags, f"{path}:{raw_line}")


def parse_markup(text: str) -> tuple[str, list[Entity]]:
    """`<파리:LC>에 갔다` -> 파리에 갔다, and the entity 파리 of type LC."""
    plain, entities, end = "", list[Entity](), 0
    for match in MARKUP.finditer(text):
        plain += text[end : match.start()]
        entities.append(Entity(len(plain), len(plain) + len(match[1]), match[2]))
        plain += match[1]
        end = match.end()
    return plain + text[end:], entities


def entity_spans(sentence: Sentence) -> list[tuple[int, int, str]]:
    """Sentence -> its entities as (start, stop, type) in the raw text."""
    entities = tag_schemes.tags_to_entities(sentence.tags, "bio")
    return [(sentence.units[e.start][0], sentence.units[e.stop - 1][1], e.type) for e in entities]
