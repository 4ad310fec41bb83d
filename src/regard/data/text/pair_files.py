"""Which columns of a table hold the two sides of sentence pairs, and whether its first line is a header.

What cannot be known is asked, not guessed: a first line that looks like a header but names neither language, columns
whose script says that they stand the other way round, and which of many columns are meant where one is no text.

Parallel text as it comes: `train.en` beside `train.de`, TSV, CSV, JSONL, plain or compressed, lazily as pairs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.data.examples import COMPRESSED_SUFFIXES, Examples, from_files, split_of, strip_compression
from regard.data.files import tables
from regard.data.files.tables import is_likely_header
from regard.data.files.text_files import read_lines
from regard.data.text import languages as known
from regard.data.text.languages import (
    LANGUAGE_NAMES,
    SOURCE_COLUMNS,
    TARGET_COLUMNS,
    has_script,
    language_names,
    matches_name,
    script_of,
    script_of_language,
)

SNIFF_RECORDS = 100  # records by which the first is judged
ID_PATTERN = re.compile(r"[\d\W_]+|[^\s\d]{0,12}[-_.:#]?\d\S*")  # 17, 3.5, s-017, eng:17: no text by itself


class Languages(NamedTuple):
    """Which language is translated to which, and how tables say it."""

    source: str  # a language's code, or a column's name or number
    target: str
    columns: tuple[str, ...] = ()  # the columns of tables without a header, in order; none: source, target
    header: bool | None = None  # whether tables begin with a line of names; none: it is found out, or asked

    @property
    def column_order(self) -> tuple[str, ...]:
        """The columns of a table without a header."""
        return self.columns or (self.source, self.target)


DEFAULT_LANGUAGES = Languages("en", "ko")  # where nothing else is said


class PairColumns(NamedTuple):
    """Where the sides of a pair stand in a record, and whether the first record is a header."""

    source: int
    target: int
    header: bool


def find_columns(top: Sequence[str], others: Sequence[Sequence[str]], languages: Languages, path: Path) -> PairColumns:
    """The first record of a table and some others -> the columns, or an error that says what to say."""
    numbered = languages.source.isdigit() and languages.target.isdigit()
    if numbered:
        source, target = (int(code) - 1 for code in languages[:2])
        named = languages.header if languages.header is not None else _names_languages(top)
        if named is None and is_likely_header(top, others):
            raise DataError(f"{_question(top, path)} if it is: data.header=true; if it is a pair: data.header=false")
        return PairColumns(source, target, bool(named))
    found = None if languages.header is False else columns_by_name(top, languages)
    if found is not None:
        if not _has_codes(top, languages):
            _check_scripts([record for record in others if record], found, languages, path)
        return found
    if languages.header is None and is_likely_header(top, others):
        order = _likely(others, languages, width=len(top))
        ours = (order.index(code) if code in order else i for i, code in enumerate(languages[:2]))
        a, b = ([*top, "", ""][place].strip() for place in ours)
        raise DataError(
            f"{_question(top, path)} It does not name {languages.source} and {languages.target}. If it is: "
            f"data.source='{a}' data.target='{b}', or data.header=true data.columns={','.join(order)} "
            "(what its columns are, in order); if it is a pair: data.header=false"
        )
    source, target = (_column(code, languages.column_order, path) for code in languages[:2])
    placed = PairColumns(source, target, bool(languages.header))
    records = [*([] if placed.header else [top]), *others]
    _check_scripts(records, placed, languages, path)
    if not languages.columns:
        _check_texts(records, placed, languages, path)
    return placed


def _question(top: Sequence[str], path: Path) -> str:
    shown = ", ".join(repr(cell[:40]) for cell in top[:6])
    return f"{path}: is its first line, {shown}, a header?"


def columns_by_name(top: Sequence[str], languages: Languages) -> PairColumns | None:
    """The columns that a header names: by the codes, by what the languages are called, or as source and target."""
    plain = [cell.strip() for cell in top]
    for sides in (
        [[code.strip().casefold()] for code in languages[:2]],
        [language_names(code) for code in languages[:2]],
        [SOURCE_COLUMNS, TARGET_COLUMNS],
    ):
        found = [_first(plain, tuple(names)) for names in sides]
        if None not in found and found[0] != found[1]:
            return PairColumns(found[0] or 0, found[1] or 0, header=True)
    return None


def _first(cells: Sequence[str], names: tuple[str, ...]) -> int | None:
    """The column with one of the names: the whole name first, then one that has it among its words."""
    exact = next((i for i, cell in enumerate(cells) if cell.casefold() in names), None)
    return exact if exact is not None else next((i for i, cell in enumerate(cells) if matches_name(cell, names)), None)


def _has_codes(top: Sequence[str], languages: Languages) -> bool:
    return all(_first([cell.strip() for cell in top], language_names(code)) is not None for code in languages[:2])


def _names_languages(top: Sequence[str]) -> bool | None:
    """True where the first record names two languages, or source and target; None where that is not known."""
    return True if guess_languages(top) is not None else None


def guess_languages(top: Sequence[str]) -> Languages | None:
    """The languages that a header names, in its order; None where it names fewer than two."""
    plain = [cell.strip() for cell in top]
    codes = [
        next((code for code in known.LANGUAGE_NAMES if matches_name(cell, language_names(code))), None)
        for cell in plain
    ]
    two = list(dict.fromkeys(code for code in codes if code is not None))
    if len(two) >= 2:
        return Languages(two[0], two[1])
    roles = [_first(plain, names) for names in (SOURCE_COLUMNS, TARGET_COLUMNS)]
    return None if None in roles or roles[0] == roles[1] else Languages(plain[roles[0] or 0], plain[roles[1] or 0])


def detect_languages(top: Sequence[str]) -> Languages:
    """The languages that training has to be told of a table: the usual ones, unless its header names two others."""
    return (
        DEFAULT_LANGUAGES
        if columns_by_name(top, DEFAULT_LANGUAGES) is not None
        else guess_languages(top) or DEFAULT_LANGUAGES
    )


def _column(code: str, names: tuple[str, ...], path: Path) -> int:
    if code.isdigit() and int(code) >= 1:
        return int(code) - 1
    if code in names:
        return names.index(code)
    raise ConfigError(
        f"{path}: no language {code!r} among its columns {', '.join(names)}; "
        "give its number (data.source=1) or name the columns in order (data.columns=en,ko)"
    )


def _check_scripts(records: Sequence[Sequence[str]], found: PairColumns, languages: Languages, path: Path) -> None:
    """Refuse columns of which each is written in the script of the other's language."""
    usual = [script_of_language(code) for code in languages[:2]]
    if None in usual or usual[0] == usual[1]:
        return
    columns = [[r[i] for r in records if len(r) > max(found[:2])] for i in found[:2]]
    scripts = [Counter(script_of(cell) for cell in column).most_common(1)[:1] for column in columns]
    own = [count[0][0] if count else None for count in scripts]
    if own == usual[::-1]:
        turned = f"data.source={languages.target} data.target={languages.source}"
        remedy = turned if found.header else f"data.columns={languages.target},{languages.source}, or {turned}"
        first = " / ".join(repr(column[0][:30]) for column in columns)
        raise DataError(
            f"{path}: its columns seem to stand the other way round: {first} is read as {languages.source} / "
            f"{languages.target}; say {remedy}"
        )


def _check_texts(records: Sequence[Sequence[str]], found: PairColumns, languages: Languages, path: Path) -> None:
    """Refuse the first columns of many where one of them holds no texts of its language: which ones is not known."""
    width = max(map(len, records), default=0)
    if width <= len(languages.column_order):
        return
    for place, code in zip(found[:2], languages[:2], strict=True):
        wrong = _no_texts(_cells(records, place), code)
        if wrong:
            order = _likely(records, languages, width=width)
            source, target = (order.index(code) + 1 for code in languages[:2])
            raise DataError(
                f"{path}: which of its {width} columns are {languages.source} and {languages.target}? No header says "
                f"it, and column {place + 1} {wrong}, so it is not {code}; say what they are, in order: "
                f"data.columns={','.join(order)}, or give numbers: data.source={source} data.target={target}"
            )


def _cells(records: Sequence[Sequence[str]], place: int) -> list[str]:
    return [record[place] for record in records if len(record) > place and record[place].strip()]


def _no_texts(cells: Sequence[str], code: str) -> str:
    """Why cells cannot be the texts of a language: they are numbers, or have no letter of its script; else nothing."""
    if all(ID_PATTERN.fullmatch(cell.strip()) for cell in cells):
        return f"holds only numbers or ids ({cells[0].strip()[:20]!r}, …)" if cells else "is empty"
    script = script_of_language(code)
    if script is not None and not any(has_script(cell, script) for cell in cells):
        return f"has no letter of that language ({cells[0].strip()[:20]!r}, …)"
    return ""


def _likely(records: Sequence[Sequence[str]], languages: Languages, *, width: int) -> list[str]:
    """What each column of a table may be, for the user to confirm: one for each language, `other` for the rest."""
    if width <= len(languages.column_order):
        return list(languages.column_order)
    columns = [_cells(records, place) for place in range(width)]
    order = ["other"] * width
    for code in languages[:2]:
        free = [place for place in range(width) if order[place] == "other"]
        order[max(free, key=lambda place: _likeness(columns[place], code))] = code
    return order


def _likeness(cells: Sequence[str], code: str) -> tuple[bool, bool]:
    """Whether a column may be of a language, and whether its cells are as different as sentences are."""
    return not _no_texts(cells, code), len(set(cells)) > len(cells) // 2


def record_keys(record: Mapping[str, object], languages: Languages) -> tuple[str, str]:
    """The keys of both sides in a record of names and texts, by the same names as columns."""
    if languages.source in record and languages.target in record:
        return languages.source, languages.target
    names = list(record)
    found = columns_by_name(names, languages)
    return (languages.source, languages.target) if found is None else (names[found.source], names[found.target])


Pair = tuple[str, str]
Pairs = Examples[Pair]
SETTINGS = "data.source=… data.target=…"
SPREADSHEET_SUFFIXES = (".xlsx", ".xls", ".ods", ".numbers")


def read_parallel(source: Path, target: Path) -> Pairs:
    """Two files, line by line -> pairs; files of different length are an error that says where they part."""

    def read() -> Iterator[Pair]:
        left, right = read_lines(source), read_lines(target)
        for number, (s, t) in enumerate(zip_longest(left, right), start=1):
            if s is None or t is None:
                short, long, rest = (source, target, right) if s is None else (target, source, left)
                total = number + sum(1 for _ in rest)
                raise DataError(
                    f"{short} ends after line {number - 1} but {long} has {total} lines; they must be aligned"
                )
            yield s, t

    return from_files(f"{source} and {target}", read, source, target)


def read_table(path: Path, languages: Languages) -> Pairs:
    """A TSV or CSV file -> pairs; columns by number, by a header, or by their order. Line ends in cells are spaces."""

    def read() -> Iterator[Pair]:
        stream = tables.read_records(path)
        head = list(islice(stream, SNIFF_RECORDS + 1))
        if not head:
            raise DataError(f"{path}: there is nothing but blank lines in it")
        found = find_columns(head[0].cells, [record.cells for record in head[1:]], languages, path)
        for number, cells in chain(head[1:] if found.header else head, stream):
            last = max(found.source, found.target)
            if last >= len(cells):
                count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
                raise DataError(f"{path}:{number}: {count}, but column {last + 1} is asked for")
            yield _one_line(cells[found.source]), _one_line(cells[found.target])

    return from_files(f"{path}", read, path, key=str(languages))


def _one_line(cell: str) -> str:
    return " ".join(cell.split("\n")) if "\n" in cell else cell


def read_jsonl(path: Path, languages: Languages) -> Pairs:
    """A file with a JSON object a line, `{"en": …, "de": …}` (or that under "translation") -> pairs."""

    def read() -> Iterator[Pair]:
        return (from_record(record, languages, place) for place, record in tables.read_jsonl(path))

    return from_files(f"{path}", read, path, key=str(languages))


def from_record(record: Any, languages: Languages, where: str) -> Pair:
    """A record `{"en": …, "de": …}` or `{"translation": {…}}` -> the pair of the two languages."""
    inner = record.get("translation", record) if isinstance(record, dict) else None
    named = inner if isinstance(inner, dict) else record
    if not isinstance(named, dict):
        raise DataError(f"{where}: expected an object with a text for each language, got {record!r:.60}")
    source, target = record_keys(named, languages)
    for code in (source, target):
        if code not in named:
            raise DataError(f"{where}: no language {code!r}; name both: {SETTINGS}; {did_you_mean(code, named)}")
        if not isinstance(named[code], str):
            raise DataError(f"{where}: {code!r} holds {named[code]!r:.60}, which is no text")
    return _one_line(named[source]), _one_line(named[target])


def read(path: Path, languages: Languages) -> dict[str, Pairs]:
    """A file, or a folder with files named after splits -> pairs for each split there is."""
    if path.is_file():
        both = aligned_files(path, languages)
        return {"train": read_parallel(*both) if both else _single(path, languages)}
    if not path.is_dir():
        if packed := _beside(path, languages):
            return {"train": packed}
        raise DataError(f"{path}: no such file or folder")
    splits = _columns_in(path, languages) or _files_in(path, languages)
    if "train" not in splits and len(splits) == 1:
        return {"train": next(iter(splits.values()))}
    return splits


def _single(path: Path, languages: Languages) -> Pairs:
    kind = strip_compression(path).suffix
    if kind == ".jsonl":
        return read_jsonl(path, languages)
    if kind in (".tsv", ".csv", ".txt"):
        return read_table(path, languages)
    if kind in SPREADSHEET_SUFFIXES:
        raise DataError(f"{path}: a workbook of a spreadsheet; save it as CSV UTF-8 (File, Save as) and give that file")
    code = kind.removeprefix(".")
    if code in LANGUAGE_NAMES:
        raise DataError(
            f"{path}: its language, {code}, is neither data.source={languages.source} nor data.target="
            f"{languages.target}; name the two, of which each has a file: data.source={code} data.target=…"
        )
    raise DataError(f"{path}: unknown kind of file; expected .tsv, .csv or .jsonl (also .gz, .xz), or a folder")


def aligned_files(path: Path, languages: Languages) -> tuple[Path, Path] | None:
    """One of two aligned files, news.en -> both, news.en and news.ko; None where its suffix is neither language."""
    stem, codes = strip_compression(path).with_suffix(""), languages[:2]
    if strip_compression(path).suffix.removeprefix(".") not in codes:
        return None
    source, target = (_packed(stem.with_name(f"{stem.name}.{code}")) for code in codes)
    for side, code in zip((source, target), codes, strict=True):
        if not side.exists():
            raise DataError(
                f"{path}: {side.name} is not beside it; put the lines of {code} there, as many as it has, or name "
                f"another language: {SETTINGS}"
            )
    return source, target


def _beside(stem: Path, languages: Languages) -> Pairs | None:
    """`corpus/news` -> corpus/news.en beside corpus/news.de, if they are there."""
    sides = [_packed(stem.with_name(f"{stem.name}.{code}")) for code in languages[:2]]
    return read_parallel(*sides) if all(side.exists() for side in sides) else None


def _packed(path: Path) -> Path:
    choices = [path, *(path.with_name(path.name + suffix) for suffix in COMPRESSED_SUFFIXES)]
    return next((choice for choice in choices if choice.exists()), path)


def _columns_in(folder: Path, languages: Languages) -> dict[str, Pairs]:
    files = sorted(p for p in folder.iterdir() if strip_compression(p).suffix in tables.SUFFIXES)
    splits: dict[str, Pairs] = {}
    for path in files:
        split = split_of(strip_compression(path).stem)
        if split is not None:
            splits.setdefault(split, _single(path, languages))
    return {"train": _single(files[0], languages)} if files and not splits else splits


def _files_in(folder: Path, languages: Languages) -> dict[str, Pairs]:
    files = {strip_compression(path).name: path for path in sorted(folder.iterdir()) if path.is_file()}
    sides = [{Path(n).stem: p for n, p in files.items() if Path(n).suffix == f".{code}"} for code in languages[:2]]
    for code, side in zip(languages[:2], sides, strict=True):
        if not side:
            present = {Path(name).suffix.removeprefix(".") for name in files} - {"", "md", "txt", "json"}
            raise DataError(f"{folder}: no file for language {code!r}; {did_you_mean(code, present)}")
    splits: dict[str, Pairs] = {}
    for stem in sorted({*sides[0], *sides[1]}):
        split = split_of(stem)
        if split is None or split in splits:
            continue
        for code, side in zip(languages[:2], sides, strict=True):
            if stem not in side:
                raise DataError(f"{folder}: {stem}.{code} is missing beside the other language")
        splits[split] = read_parallel(sides[0][stem], sides[1][stem])
    if not splits:
        raise DataError(f"{folder}: no file named train, valid or test; found {', '.join(sorted(files)[:5])}")
    return splits
