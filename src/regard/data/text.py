"""Parallel text as it comes: `train.en` beside `train.de`, TSV, CSV, JSONL, plain or compressed, lazily as pairs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from regard.core.errors import DataError, nearest
from regard.data import columns, tables
from regard.data.columns import Languages
from regard.data.languages import NAMES
from regard.data.reading import lines
from regard.data.rows import PACKED, Rows, from_files, plain, split_of

Pair = tuple[str, str]
Pairs = Rows[Pair]
SETTINGS = "data.source=… data.target=…"
EXCEL = (".xlsx", ".xls", ".ods", ".numbers")


def parallel(source: Path, target: Path) -> Pairs:
    """Two files, line by line -> pairs; files of different length are an error that says where they part."""

    def read() -> Iterator[Pair]:
        left, right = lines(source), lines(target)
        for number, (s, t) in enumerate(zip_longest(left, right), start=1):
            if s is None or t is None:
                short, long, rest = (source, target, right) if s is None else (target, source, left)
                total = number + sum(1 for _ in rest)
                raise DataError(
                    f"{short} ends after line {number - 1} but {long} has {total} lines; they must be aligned"
                )
            yield s, t

    return from_files(f"{source} and {target}", read, source, target)


def table(path: Path, languages: Languages) -> Pairs:
    """A TSV or CSV file -> pairs; columns by number, by a header, or by their order. Line ends in cells are spaces."""

    def read() -> Iterator[Pair]:
        stream = tables.records(path)
        head = list(islice(stream, columns.LOOKED_AT + 1))
        if not head:
            raise DataError(f"{path}: there is nothing but blank lines in it")
        found = columns.places(head[0].cells, [record.cells for record in head[1:]], languages, path)
        for number, cells in chain(head[1:] if found.header else head, stream):
            last = max(found.source, found.target)
            if last >= len(cells):
                count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
                raise DataError(f"{path}:{number}: {count}, but column {last + 1} is asked for")
            yield _one_line(cells[found.source]), _one_line(cells[found.target])

    return from_files(f"{path}", read, path, key=str(languages))


def _one_line(cell: str) -> str:
    return " ".join(cell.split("\n")) if "\n" in cell else cell


def jsonl(path: Path, languages: Languages) -> Pairs:
    """A file with a JSON object a line, `{"en": …, "de": …}` (or that under "translation") -> pairs."""

    def read() -> Iterator[Pair]:
        return (from_record(record, languages, place) for place, record in tables.objects(path))

    return from_files(f"{path}", read, path, key=str(languages))


def from_record(record: Any, languages: Languages, where: str) -> Pair:
    """A record `{"en": …, "de": …}` or `{"translation": {…}}` -> the pair of the two languages."""
    inner = record.get("translation", record) if isinstance(record, dict) else None
    named = inner if isinstance(inner, dict) else record
    if not isinstance(named, dict):
        raise DataError(f"{where}: expected an object with a text for each language, got {record!r:.60}")
    source, target = columns.of_record(named, languages)
    for code in (source, target):
        if code not in named:
            raise DataError(f"{where}: no language {code!r}; name both: {SETTINGS}; {nearest(code, named)}")
        if not isinstance(named[code], str):
            raise DataError(f"{where}: {code!r} holds {named[code]!r:.60}, which is no text")
    return _one_line(named[source]), _one_line(named[target])


def read(path: Path, languages: Languages) -> dict[str, Pairs]:
    """A file, or a folder with files named after splits -> pairs for each split there is."""
    if path.is_file():
        both = sides(path, languages)
        return {"train": parallel(*both) if both else _single(path, languages)}
    if not path.is_dir():
        if packed := _beside(path, languages):
            return {"train": packed}
        raise DataError(f"{path}: no such file or folder")
    splits = _columns_in(path, languages) or _files_in(path, languages)
    if "train" not in splits and len(splits) == 1:
        return {"train": next(iter(splits.values()))}
    return splits


def _single(path: Path, languages: Languages) -> Pairs:
    kind = plain(path).suffix
    if kind == ".jsonl":
        return jsonl(path, languages)
    if kind in (".tsv", ".csv", ".txt"):
        return table(path, languages)
    if kind in EXCEL:
        raise DataError(f"{path}: a workbook of a spreadsheet; save it as CSV UTF-8 (File, Save as) and give that file")
    code = kind.removeprefix(".")
    if code in NAMES:
        raise DataError(
            f"{path}: its language, {code}, is neither data.source={languages.source} nor data.target="
            f"{languages.target}; name the two, of which each has a file: data.source={code} data.target=…"
        )
    raise DataError(f"{path}: unknown kind of file; expected .tsv, .csv or .jsonl (also .gz, .xz), or a folder")


def sides(path: Path, languages: Languages) -> tuple[Path, Path] | None:
    """One of two aligned files, news.en -> both, news.en and news.ko; None where its suffix is neither language."""
    stem, codes = plain(path).with_suffix(""), languages[:2]
    if plain(path).suffix.removeprefix(".") not in codes:
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
    return parallel(*sides) if all(side.exists() for side in sides) else None


def _packed(path: Path) -> Path:
    choices = [path, *(path.with_name(path.name + suffix) for suffix in PACKED)]
    return next((choice for choice in choices if choice.exists()), path)


def _columns_in(folder: Path, languages: Languages) -> dict[str, Pairs]:
    files = sorted(p for p in folder.iterdir() if plain(p).suffix in tables.SUFFIXES)
    splits: dict[str, Pairs] = {}
    for path in files:
        split = split_of(plain(path).stem)
        if split is not None:
            splits.setdefault(split, _single(path, languages))
    return {"train": _single(files[0], languages)} if files and not splits else splits


def _files_in(folder: Path, languages: Languages) -> dict[str, Pairs]:
    files = {plain(path).name: path for path in sorted(folder.iterdir()) if path.is_file()}
    sides = [{Path(n).stem: p for n, p in files.items() if Path(n).suffix == f".{code}"} for code in languages[:2]]
    for code, side in zip(languages[:2], sides, strict=True):
        if not side:
            present = {Path(name).suffix.removeprefix(".") for name in files} - {"", "md", "txt", "json"}
            raise DataError(f"{folder}: no file for language {code!r}; {nearest(code, present)}")
    splits: dict[str, Pairs] = {}
    for stem in sorted({*sides[0], *sides[1]}):
        split = split_of(stem)
        if split is None or split in splits:
            continue
        for code, side in zip(languages[:2], sides, strict=True):
            if stem not in side:
                raise DataError(f"{folder}: {stem}.{code} is missing beside the other language")
        splits[split] = parallel(sides[0][stem], sides[1][stem])
    if not splits:
        raise DataError(f"{folder}: no file named train, valid or test; found {', '.join(sorted(files)[:5])}")
    return splits
