"""Parallel text as it comes: `train.en` beside `train.de`, TSV, JSONL, plain or compressed, read lazily as pairs."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.errors import ConfigError, DataError, nearest
from regard.data.rows import PACKED, Rows, from_files, plain, split_of

Pair = tuple[str, str]
Pairs = Rows[Pair]


class Languages(NamedTuple):
    """Which language is translated to which; `columns` names the columns of a TSV file that has no header."""

    source: str
    target: str
    columns: tuple[str, ...] = ("en", "ko")


def lines(path: Path) -> Iterator[str]:
    """A UTF-8 file, packed or not -> its lines. Only \\n ends a line, so that line numbers agree with other tools."""
    offset = 0
    for raw in raw_lines(path):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as wrong:
            place = offset + wrong.start
            raise DataError(f"{path}: not UTF-8 at byte {place} (0x{raw[wrong.start]:02x}); convert it") from None
        yield (text.removeprefix("\ufeff") if offset == 0 else text).rstrip("\r\n")
        offset += len(raw)


def raw_lines(path: Path) -> Iterator[bytes]:
    """A file, packed or not -> its lines as bytes, line ends included; a file that is missing or empty is an error."""
    empty = True
    try:
        with _open(path) as file:
            for raw in file:
                empty = False
                yield raw
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except (OSError, EOFError, lzma.LZMAError) as wrong:
        raise DataError(f"{path}: cannot be read: {wrong}") from None
    if empty:
        raise DataError(f"{path}: the file is empty")


def _open(path: Path) -> Any:
    opener: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    return opener.get(path.suffix, open)(path, "rb")


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


def tsv(path: Path, languages: Languages) -> Pairs:
    """A file of tab-separated columns -> pairs; columns by number, by a header line, or by `languages.columns`."""

    def read() -> Iterator[Pair]:
        rows = enumerate(lines(path), start=1)
        first, top = next(rows)
        header = top.split("\t")
        named = {languages.source, languages.target} <= set(header)
        names = tuple(header) if named else languages.columns
        s, t = (_column(code, names, path) for code in languages[:2])
        for number, line in rows if named else _chain((first, top), rows):
            cells = line.split("\t")
            if max(s, t) >= len(cells):
                raise DataError(f"{path}:{number}: {len(cells)} columns, but column {max(s, t) + 1} is asked for")
            yield cells[s], cells[t]

    return from_files(f"{path}", read, path, key=str(languages))


def _chain(first: tuple[int, str], rest: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _column(code: str, names: tuple[str, ...], path: Path) -> int:
    if code.isdigit() and int(code) >= 1:
        return int(code) - 1
    if code in names:
        return names.index(code)
    raise ConfigError(
        f"{path}: no language {code!r} among its columns {', '.join(names)}; "
        f"give its number (source=1) or name the columns in order (columns=['en', 'de'])"
    )


def jsonl(path: Path, languages: Languages) -> Pairs:
    """A file with a JSON object a line, `{"en": …, "de": …}` (or that under "translation") -> pairs."""

    def read() -> Iterator[Pair]:
        for number, line in enumerate(lines(path), start=1):
            try:
                record = json.loads(line)
            except json.JSONDecodeError as wrong:
                raise DataError(f"{path}:{number}: not JSON: {wrong.msg}") from None
            yield from_record(record, languages, f"{path}:{number}")

    return from_files(f"{path}", read, path, key=str(languages))


def from_record(record: Any, languages: Languages, where: str) -> Pair:
    """A record `{"en": …, "de": …}` or `{"translation": {…}}` -> the pair of the two languages."""
    table = record.get("translation", record) if isinstance(record, dict) else None
    if not isinstance(table, dict):
        raise DataError(f"{where}: expected an object with a text for each language, got {record!r:.60}")
    for code in languages[:2]:
        if code not in table:
            raise DataError(f"{where}: no language {code!r}; {nearest(code, table)}")
        if not isinstance(table[code], str):
            raise DataError(f"{where}: {code!r} holds {table[code]!r:.60}, which is no text")
    return table[languages.source], table[languages.target]


def read(path: Path, languages: Languages) -> dict[str, Pairs]:
    """A file, or a folder with files named after splits -> pairs for each split there is."""
    if path.is_file():
        return {"train": _single(path, languages)}
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
    if kind in (".tsv", ".txt"):
        return tsv(path, languages)
    raise DataError(f"{path}: unknown kind of file; expected .tsv or .jsonl (also .gz, .xz), or a folder")


def _beside(stem: Path, languages: Languages) -> Pairs | None:
    """`corpus/news` -> corpus/news.en beside corpus/news.de, if they are there."""
    sides = [_packed(stem.with_name(f"{stem.name}.{code}")) for code in languages[:2]]
    return parallel(*sides) if all(side.exists() for side in sides) else None


def _packed(path: Path) -> Path:
    choices = [path, *(path.with_name(path.name + suffix) for suffix in PACKED)]
    return next((choice for choice in choices if choice.exists()), path)


def _columns_in(folder: Path, languages: Languages) -> dict[str, Pairs]:
    files = sorted(p for p in folder.iterdir() if plain(p).suffix in (".tsv", ".jsonl"))
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
