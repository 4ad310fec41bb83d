"""Readers of parallel text: aligned files (`train.en`, `train.de`), and tables (TSV, CSV, JSONL, Excel workbooks).

The columns of a table are detected by its header, by their order, or by number. Ambiguous tables are an error that
names the settings to choose: a first line that looks like a header but names neither language, columns whose scripts
suggest that they are swapped, or many columns of which the first ones are not text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import ConfigError, DataError, did_you_mean, quote_setting
from regard.data.examples import Examples, from_files, join, strip_compression
from regard.data.files import spreadsheets, tables
from regard.data.files.tables import is_likely_header
from regard.data.files.text_files import read_lines
from regard.data.text import pair_groups
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

Pair = tuple[str, str]
Pairs = Examples[Pair]
SNIFF_RECORDS = 100  # records that the first one is compared with
ID_PATTERN = re.compile(r"[\d\W_]+|[^\s\d]{0,12}[-_.:#]?\d\S*")  # 17, 3.5, s-017, eng:17: an id, not a text


class Languages(NamedTuple):
    """Source and target language, and their columns in tables."""

    source: str  # a language code, or the name or number of a column
    target: str
    columns: tuple[str, ...] = ()  # the columns of tables without a header, in order; none: source, target
    header: bool | None = None  # True if tables start with a line of names; none: detected, or an error if ambiguous

    @property
    def column_order(self) -> tuple[str, ...]:
        """Columns of a table without a header."""
        return self.columns or (self.source, self.target)


DEFAULT_LANGUAGES = Languages("en", "ko")


class PairColumns(NamedTuple):
    """Column indices of both sides, and True if the first record is a header."""

    source: int
    target: int
    header: bool


def read(path: Path, languages: Languages) -> dict[str, Pairs]:
    """File, or folder of tables or aligned files -> sentence pairs of each split."""
    groups, remarks = pair_groups.find_groups(path, languages[:2])
    splits: dict[str, list[Pairs]] = {}
    for split, files in groups:
        part = read_parallel(files[0], files[1]) if len(files) > 1 else _read_file(files[0], languages)
        splits.setdefault(split, []).append(part)
    return {split: join(parts, f"{path}", remarks) for split, parts in splits.items()}


def read_parallel(source: Path, target: Path) -> Pairs:
    """Two files with aligned lines -> sentence pairs; different numbers of lines are an error."""

    def read() -> Iterator[Pair]:
        source_lines, target_lines = read_lines(source), read_lines(target)
        for line, (s, t) in enumerate(zip_longest(source_lines, target_lines), start=1):
            if s is None or t is None:
                short, long, rest = (source, target, target_lines) if s is None else (target, source, source_lines)
                total = line + sum(1 for _ in rest)
                raise DataError(
                    f"{short} ends after line {line - 1} but {long} has {total} lines; they must be aligned"
                )
            yield s, t

    return from_files(f"{source} and {target}", read, source, target)


def read_table(path: Path, languages: Languages) -> Pairs:
    """TSV or CSV file -> sentence pairs; columns by number, header or order. Newlines in cells become spaces."""

    def read() -> Iterator[Pair]:
        stream = tables.read_records(path)
        head = tables.take_head(stream, SNIFF_RECORDS + 1, path)
        columns = find_columns(head[0].cells, [record.cells for record in head[1:]], languages, path)
        last = max(columns.source, columns.target)
        for line, cells in chain(head[1:] if columns.header else head, stream):
            if last >= len(cells):
                count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
                raise DataError(f"{path}:{line}: {count}, but column {last + 1} is required")
            yield _single_line(cells[columns.source]), _single_line(cells[columns.target])

    return from_files(f"{path}", read, path, key=str(languages))


def read_jsonl(path: Path, languages: Languages) -> Pairs:
    """File with one JSON object per line, `{"en": …, "de": …}` (also under "translation") -> sentence pairs."""

    def read() -> Iterator[Pair]:
        return (from_record(record, languages, location) for location, record in tables.read_jsonl(path))

    return from_files(f"{path}", read, path, key=str(languages))


def from_record(record: Any, languages: Languages, where: str) -> Pair:
    """Record `{"en": …, "de": …}` or `{"translation": {…}}` -> the pair of both languages."""
    inner = record.get("translation", record) if isinstance(record, dict) else None
    texts = inner if isinstance(inner, dict) else record
    if not isinstance(texts, dict):
        raise DataError(f"{where}: expected an object with a text for each language, got {record!r:.60}")
    source, target = record_keys(texts, languages)
    if source not in texts and target not in texts and (names := _text_keys(texts, languages)):
        raise DataError(
            f"{where}: the keys {', '.join(texts)} do not name {languages.source} and {languages.target}; set "
            + " ".join(
                quote_setting(f"data.{side}={name}") for side, name in zip(("source", "target"), names, strict=True)
            )
        )
    for code in (source, target):
        if code not in texts:
            raise DataError(
                f"{where}: no language {code!r}; name both: {pair_groups.SETTINGS}; {did_you_mean(code, texts)}"
            )
        if not isinstance(texts[code], str):
            raise DataError(f"{where}: {code!r} is {texts[code]!r:.60}, which is not a text")
    return _single_line(texts[source]), _single_line(texts[target])


def record_keys(record: Mapping[str, object], languages: Languages) -> tuple[str, str]:
    """Return the keys of both sides in a record; the same names as for columns are accepted."""
    if languages.source in record and languages.target in record:
        return languages.source, languages.target
    names = list(record)
    columns = columns_by_name(names, languages)
    return (languages.source, languages.target) if columns is None else (names[columns.source], names[columns.target])


def _text_keys(record: Mapping[str, object], languages: Languages) -> tuple[str, str] | None:
    """Guess the keys of both texts in a record, by script if the languages differ in it; None unless there are two."""
    texts = {name: value for name, value in record.items() if isinstance(value, str) and value.strip()}
    names = [name for name, value in texts.items() if not ID_PATTERN.fullmatch(value.strip())]
    if len(names) < 2:
        return None
    scripts = [script_of(texts[name]) for name in names[:2]]
    expected = [script_of_language(code) for code in languages[:2]]
    is_reversed = None not in expected and expected[0] != expected[1] and scripts == expected[::-1]
    return (names[1], names[0]) if is_reversed else (names[0], names[1])


def find_columns(top: Sequence[str], records: Sequence[Sequence[str]], languages: Languages, path: Path) -> PairColumns:
    """First record and further records of a table -> its columns, or an error that names the settings to choose."""
    if error := tables.one_column_error(path, [top, *records]):
        raise error
    if languages.source.isdecimal() and languages.target.isdecimal():
        source, target = (int(code) - 1 for code in languages[:2])
        header = languages.header if languages.header is not None else _names_languages(top)
        if header is None and is_likely_header(top, records):
            raise DataError(
                f"{_header_question(top, path)} Set data.header=true if it is a header, data.header=false if it is a "
                "pair"
            )
        return PairColumns(source, target, bool(header))
    columns = None if languages.header is False else columns_by_name(top, languages)
    if columns is not None:
        tables.check_unique(top, columns[:2], path)
        if not _has_codes(top, languages):
            _check_scripts([record for record in records if record], columns, languages, path)
        return columns
    if languages.header is None and is_likely_header(top, records):
        order = _likely_order(records, languages, width=len(top))
        indices = (order.index(code) if code in order else i for i, code in enumerate(languages[:2]))
        source_name, target_name = ([*top, "", ""][index].strip() for index in indices)
        raise DataError(
            f"{_header_question(top, path)} It does not name {languages.source} and {languages.target}. If it is a "
            f"header: data.source='{source_name}' data.target='{target_name}', or data.header=true "
            f"data.columns={','.join(order)} (its columns, in order); if it is a pair: data.header=false"
        )
    source, target = (_column(code, languages.column_order, path) for code in languages[:2])
    columns = PairColumns(source, target, bool(languages.header))
    texts = [*([] if columns.header else [top]), *records]
    _check_scripts(texts, columns, languages, path)
    if not languages.columns:
        _check_texts(texts, columns, languages, path)
    return columns


def columns_by_name(top: Sequence[str], languages: Languages) -> PairColumns | None:
    """Return the columns that a header names: by language code, by language name, or as source and target."""
    cells = [cell.strip() for cell in top]
    for sides in (
        [[code.strip().casefold()] for code in languages[:2]],
        [language_names(code) for code in languages[:2]],
        [SOURCE_COLUMNS, TARGET_COLUMNS],
    ):
        source, target = (_find_name(cells, tuple(names)) for names in sides)
        if source is not None and target is not None and source != target:
            return PairColumns(source, target, header=True)
    return None


def guess_languages(top: Sequence[str]) -> Languages | None:
    """Return the languages that a header names, in its order; None if it names fewer than two."""
    cells = [cell.strip() for cell in top]
    codes = [
        next((code for code in LANGUAGE_NAMES if matches_name(cell, language_names(code))), None) for cell in cells
    ]
    distinct = list(dict.fromkeys(code for code in codes if code is not None))
    if len(distinct) >= 2:
        return Languages(distinct[0], distinct[1])
    source, target = (_find_name(cells, names) for names in (SOURCE_COLUMNS, TARGET_COLUMNS))
    return None if source is None or target is None or source == target else Languages(cells[source], cells[target])


def detect_languages(top: Sequence[str]) -> Languages:
    """Return the languages to train a table with: the default ones, unless its header names two others."""
    return (
        DEFAULT_LANGUAGES
        if columns_by_name(top, DEFAULT_LANGUAGES) is not None
        else guess_languages(top) or DEFAULT_LANGUAGES
    )


def _read_file(path: Path, languages: Languages) -> Pairs:
    suffix = strip_compression(path).suffix
    if suffix == ".jsonl":
        return read_jsonl(path, languages)
    if suffix == pair_groups.TEXT_SUFFIX and not pair_groups.has_tab(path):
        command = f"regard train language {quote_setting(f'data.paths={path}')}"
        raise DataError(
            f"{path}: no line has a tab, so it has no pairs; put the aligned lines of the other language into a file "
            f"next to it (x.en and x.ko), or to train on plain text: {command}"
        )
    if suffix in (".tsv", ".csv", ".txt", spreadsheets.SUFFIX):
        return read_table(path, languages)
    if suffix in spreadsheets.OTHER_SUFFIXES:
        raise DataError(f"{path}: a spreadsheet; save it as .xlsx or as CSV UTF-8 (File, Save as) and use that file")
    code = suffix.removeprefix(".")
    if code in LANGUAGE_NAMES:
        raise DataError(
            f"{path}: its language, {code}, is neither data.source={languages.source} nor data.target="
            f"{languages.target}; name the languages of both files: data.source={code} data.target=…"
        )
    raise tables.unknown_type_error(path)


def _single_line(cell: str) -> str:
    return " ".join(cell.split("\n")) if "\n" in cell else cell


def _header_question(top: Sequence[str], path: Path) -> str:
    cells = ", ".join(repr(cell[:40]) for cell in top[:6])
    return f"{path}: is its first line, {cells}, a header?"


def _find_name(cells: Sequence[str], names: tuple[str, ...]) -> int | None:
    """Return the column with one of the names: an exact match first, then a cell that has a name among its words."""
    exact = next((i for i, cell in enumerate(cells) if cell.casefold() in names), None)
    return exact if exact is not None else next((i for i, cell in enumerate(cells) if matches_name(cell, names)), None)


def _has_codes(top: Sequence[str], languages: Languages) -> bool:
    cells = [cell.strip() for cell in top]
    return all(_find_name(cells, language_names(code)) is not None for code in languages[:2])


def _names_languages(top: Sequence[str]) -> bool | None:
    """Return True if the first record names two languages, or source and target; None if that is unknown."""
    return True if guess_languages(top) is not None else None


def _column(code: str, names: tuple[str, ...], path: Path) -> int:
    if code.isdecimal() and int(code) >= 1:
        return int(code) - 1
    if code in names:
        return names.index(code)
    raise ConfigError(
        f"{path}: no language {code!r} among its columns {', '.join(names)}; "
        "give its number (data.source=1) or name the columns in order (data.columns=en,ko)"
    )


def _check_scripts(records: Sequence[Sequence[str]], columns: PairColumns, languages: Languages, path: Path) -> None:
    """Refuse columns if each is written in the script of the other language."""
    expected = [script_of_language(code) for code in languages[:2]]
    if None in expected or expected[0] == expected[1]:
        return
    cells = [[r[i] for r in records if len(r) > max(columns[:2])] for i in columns[:2]]
    counts = [Counter(script_of(cell) for cell in column).most_common(1)[:1] for column in cells]
    scripts = [count[0][0] if count else None for count in counts]
    if scripts == expected[::-1]:
        swapped = f"data.source={languages.target} data.target={languages.source}"
        remedy = swapped if columns.header else f"data.columns={languages.target},{languages.source}, or {swapped}"
        first = " / ".join(repr(column[0][:30]) for column in cells)
        raise DataError(
            f"{path}: its columns seem to be swapped: {first} is read as {languages.source} / {languages.target}; "
            f"set {remedy}"
        )


def _check_texts(records: Sequence[Sequence[str]], columns: PairColumns, languages: Languages, path: Path) -> None:
    """Refuse the first of many columns if one of them does not contain texts of its language."""
    width = max(map(len, records), default=0)
    if width <= len(languages.column_order):
        return
    for index, code in zip(columns[:2], languages[:2], strict=True):
        problem = _text_problem(_cells(records, index), code)
        if problem:
            order = _likely_order(records, languages, width=width)
            source, target = (order.index(code) + 1 for code in languages[:2])
            raise DataError(
                f"{path}: which of its {width} columns are {languages.source} and {languages.target}? There is no "
                f"header, and column {index + 1} {problem}, so it is not {code}; name the columns in order: "
                f"data.columns={','.join(order)}, or give numbers: data.source={source} data.target={target}"
            )


def _cells(records: Sequence[Sequence[str]], index: int) -> list[str]:
    return [record[index] for record in records if len(record) > index and record[index].strip()]


def _text_problem(cells: Sequence[str], code: str) -> str:
    """Return why cells cannot be texts of a language (only ids, or the wrong script), or "" if they can."""
    if all(ID_PATTERN.fullmatch(cell.strip()) for cell in cells):
        return f"holds only numbers or ids ({cells[0].strip()[:20]!r}, …)" if cells else "is empty"
    script = script_of_language(code)
    if script is not None and not any(has_script(cell, script) for cell in cells):
        return f"has no character of that language ({cells[0].strip()[:20]!r}, …)"
    return ""


def _likely_order(records: Sequence[Sequence[str]], languages: Languages, *, width: int) -> list[str]:
    """Guess the columns of a table for the user to confirm: one per language, `other` for the rest."""
    if width <= len(languages.column_order):
        return list(languages.column_order)
    columns = [_cells(records, index) for index in range(width)]
    order = ["other"] * width
    for code in languages[:2]:
        free = [index for index in range(width) if order[index] == "other"]
        order[max(free, key=lambda index: _text_score(columns[index], code))] = code
    return order


def _text_score(cells: Sequence[str], code: str) -> tuple[bool, bool]:
    """Rate a column as text of a language: it may be one, and its cells are as distinct as sentences are."""
    return not _text_problem(cells, code), len(set(cells)) > len(cells) // 2
