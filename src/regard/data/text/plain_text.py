"""Plain text for language models: files, folders, .gz, .xz, .zip, columns of tables, or the built-in documentation.

A document is a file, a member of a .zip, a line of JSONL, or a row of a table. The part-of-speech tags of the Brown
corpus (`dog/nn`) are removed, and its words are joined as in printed text.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.core.errors import ConfigError, DataError, did_you_mean, pluralize
from regard.data.examples import (
    COMPRESSED_SUFFIXES,
    COMPRESSION_RATIO,
    Examples,
    Splits,
    same_for_all_splits,
    split_of,
    strip_compression,
)
from regard.data.files import download, table_folders, tables
from regard.data.files.text_files import decode_text, read_limited, read_text

BUILT_IN = "python"
DOWNLOADS = ("tinyshakespeare",)  # downloads that contain plain text
HELD_OUT_DIVISOR = 10  # a tenth of the characters is held out if there is no validation text
DOCUMENTS_PER_HELD_OUT = 20  # of at least 20 documents, one in 20 is held out for each of validation and test
TABLE_SUFFIXES = (".tsv", ".csv", ".xlsx")
SKIPPED_PREFIXES = ("readme", "contents", "cats.txt", "license")  # files that are not texts

Documents = Examples[str]


class PlainTextSource(NamedTuple):
    """Location of the text: paths, which take precedence, or a name."""

    paths: tuple[Path, ...]  # files or folders; the column of a table follows a #: reviews.tsv#4
    name: str


def open_text(source: PlainTextSource, *, test_only: bool = False) -> Splits[Documents]:
    """Return the documents of each split.

    If there is no validation text, a part of the training text is held out. With `test_only`, text without splits is
    used for every split.
    """
    complete: Callable[[dict[str, Documents]], dict[str, Documents]] = (
        (lambda splits: same_for_all_splits(splits, 0, text_of=str)) if test_only else _add_missing_splits
    )
    if source.paths:
        return Splits(_merge([complete(_from_path(str(path))) for path in source.paths]))
    if source.name == BUILT_IN:
        documentation = Documents("the documentation inside Python", _topics, key="pydoc topics")
        return Splits(complete({"train": documentation}))
    if source.name in DOWNLOADS:
        return Splits(complete(_folder(download.fetch_dataset(source.name), column="")))
    names = (BUILT_IN, *DOWNLOADS)
    raise ConfigError(f"no text {source.name!r}; files are given as data.paths=[…]; {did_you_mean(source.name, names)}")


def _topics() -> Iterator[str]:
    from pydoc_data.topics import topics

    return (topics[name].strip() for name in sorted(topics))


def _from_path(location: str) -> dict[str, Documents]:
    name, _, column = location.partition("#")
    path = Path(name)
    if path.is_dir():
        return _folder(path, column)
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder")
    return {"train": _file(path, column)}


def _folder(path: Path, column: str) -> dict[str, Documents]:
    """Read files named after splits as these splits; otherwise every file is a part of the training text."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    splits: dict[str, list[Documents]] = {}
    for file in files:
        split = split_of(strip_compression(file).stem)
        if split is not None:
            splits.setdefault(split, []).append(_file(file, column))
    texts = [file for file in files if not file.name.lower().startswith(SKIPPED_PREFIXES)]
    if "train" in splits:
        unread = [file for file in texts if split_of(strip_compression(file).stem) is None]
        remark = f"{path}: not read: {table_folders.list_names(unread)}; the files of the splits are read alone"
        remarks = (remark,) if unread else ()
        return {split: replace(_join(parts), remarks=remarks) for split, parts in splits.items()}
    if not texts:
        raise DataError(f"{path}: no files in this folder to read text from")
    remarks = (f"{path}: {len(texts)} files are joined: {table_folders.list_names(texts)}",) if len(texts) > 1 else ()
    return {"train": replace(_join([_file(file, column) for file in texts], where=str(path)), remarks=remarks)}


def _file(path: Path, column: str) -> Documents:
    suffix = strip_compression(path).suffix
    read: Callable[[], Iterator[str]] = partial(_entire_file, path)
    if suffix == ".zip":
        read = partial(_members, path)
    elif suffix == ".jsonl":
        read = partial(_records, path, column or "text")
    elif suffix in TABLE_SUFFIXES and column:
        read = partial(_cells, path, column)
    elif suffix in TABLE_SUFFIXES:
        raise DataError(f"{path}: which column is the text? Add its name or number after a #: {path.name}#text")
    facts = path.stat()
    size = facts.st_size * (COMPRESSION_RATIO if path.suffix in (*COMPRESSED_SUFFIXES, ".zip") else 1)
    return Documents(str(path), read, f"{path.resolve()}:{facts.st_size}:{facts.st_mtime_ns}#{column};", size)


def _join(parts: Sequence[Documents], where: str = "") -> Documents:
    def read() -> Iterator[str]:
        return chain.from_iterable(parts)

    where = where or " and ".join(part.where for part in parts)
    remarks = tuple(dict.fromkeys(remark for part in parts for remark in part.remarks))
    key, size = "".join(part.key for part in parts), sum(part.bytes for part in parts)
    return Documents(where, read, key, size, remarks=remarks)


def _merge(sources: Sequence[dict[str, Documents]]) -> dict[str, Documents]:
    """Concatenate the splits of several sources."""
    if len(sources) == 1:
        return sources[0]
    splits = dict.fromkeys(split for source in sources for split in source)
    return {split: _join([source[split] for source in sources if split in source]) for split in splits}


def _entire_file(path: Path) -> Iterator[str]:
    yield read_text(path)


def _members(path: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
            for name in names:
                if not PurePosixPath(name).name.lower().startswith(SKIPPED_PREFIXES):
                    with archive.open(name) as member:
                        text = decode_text(read_limited(member), f"{path}: {name}")
                    yield strip_pos_tags(text) if has_pos_tags(text) else text
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def _records(path: Path, column: str) -> Iterator[str]:
    for location, record in tables.read_jsonl(path):
        if not isinstance(record, dict) or not isinstance(record.get(column), str):
            raise DataError(f"{location}: has no text {column!r}; add the right key after a #: {path.name}#…")
        yield record[column]


def _cells(path: Path, column: str) -> Iterator[str]:
    """Yield the text column of a table, by its name in the first line or by its number; <br /> becomes a newline."""
    index = int(column) - 1 if column.isdecimal() and int(column) else None
    for line, cells in tables.read_records(path):
        if index is None:
            if column not in cells:
                raise DataError(f"{path}: no column {column!r}; {did_you_mean(column, cells)}, or give its number")
            index = cells.index(column)
        elif index < len(cells):
            yield cells[index].replace("<br />", "\n").rstrip("\n")
        else:
            raise DataError(f"{path}:{line}: {pluralize(len(cells), 'column')}, but column {index + 1} is required")


def has_pos_tags(text: str) -> bool:
    """Return True if the words of a text have tags as in the Brown corpus: dog/nn."""
    words = text.split(maxsplit=20)[:20]
    return len(words) > 1 and all(re.fullmatch(r"\S+/[a-z.,:;()'`*$+-]\S*", word) for word in words)


def strip_pos_tags(text: str) -> str:
    """`The/at dog/nn barked/vbd ./.` -> "The dog barked."; one paragraph per line."""
    paragraphs = (" ".join(word.rpartition("/")[0] for word in line.split()) for line in text.splitlines())
    return "\n".join(_detokenize(paragraph) for paragraph in paragraphs if paragraph)


def _detokenize(words: str) -> str:
    """Join words as in printed text: no space between punctuation and its word."""
    words = re.sub(r"([;?!]) (?:\1)(?= |$)", r"\1", words)  # doubled in the corpus
    words = re.sub(r"(?:^|(?<= ))`` ?", '"', words)
    words = re.sub(r" ?''", '"', words)
    words = re.sub(r" ([.,;:?!)\]])(?= |\"|$)", r"\1", words)
    return re.sub(r"([(\[]) ", r"\1", words)


def _add_missing_splits(splits: dict[str, Documents]) -> dict[str, Documents]:
    """Cut validation text off the training text if there is none."""
    if "valid" in splits:
        return splits
    train = splits["train"]
    many = sum(1 for _ in islice(train, DOCUMENTS_PER_HELD_OUT)) == DOCUMENTS_PER_HELD_OUT
    select, names = (_by_document, ("train", "valid", "test")) if many else (_by_characters, ("train", "valid"))
    return splits | {
        name: replace(train, read=partial(select, train, name), key=f"{train.key}{name}")
        for name in names
        if name == "train" or name not in splits
    }


def _by_document(documents: Documents, split: str) -> Iterator[str]:
    """Hold out the twentieth, fortieth, … document for validation, the tenth, thirtieth, … for testing."""
    names = {DOCUMENTS_PER_HELD_OUT - 1: "valid", DOCUMENTS_PER_HELD_OUT // 2 - 1: "test"}
    return (text for i, text in enumerate(documents) if names.get(i % DOCUMENTS_PER_HELD_OUT, "train") == split)


def _by_characters(documents: Documents, split: str) -> Iterator[str]:
    """Hold out the last tenth of the characters for validation."""
    edge = sum(map(len, documents)) * (HELD_OUT_DIVISOR - 1) // HELD_OUT_DIVISOR
    for text in documents:
        part = text[max(0, edge) :] if split == "valid" else text[: max(0, edge)]
        edge -= len(text)
        if part:
            yield part
