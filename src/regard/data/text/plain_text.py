"""Plain text for language models: files, folders, .gz, .xz, .zip, columns of tables, or the built-in documentation.

A document is a file, a member of a .zip, a line of JSONL, or a row of a table. Words tagged as in the Brown corpus
(`dog/nn`) lose their tags and are put together as printed text.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.data.examples import COMPRESSED_SUFFIXES, COMPRESSION_RATIO, Examples, split_of, strip_compression
from regard.data.files import download, tables
from regard.data.files.text_files import decode_text, read_text

BUILT_IN = "python"
DOWNLOADS = ("tinyshakespeare",)  # known downloads that are plain text
HELD_OUT_DIVISOR = 10  # a tenth of the characters is held out where no validation text is given
DOCUMENTS_PER_HELD_OUT = 20  # of at least so many documents, one in so many is for validation and one for testing
TABLE_SUFFIXES = (".tsv", ".csv")
SKIPPED_PREFIXES = ("readme", "contents", "cats.txt", "license")  # members of an archive that are not its texts


Documents = Examples[str]  # texts that can be gone through again and again without being held in memory


class PlainTextSource(NamedTuple):
    """Which text: that of the paths, which come first, or of a name."""

    paths: tuple[Path, ...]  # files or folders; the column of a table stands behind a #: reviews.tsv#4
    name: str


def open_text(source: PlainTextSource, *, test_only: bool = False) -> dict[str, Documents]:
    """The documents of each split; where no validation text is given, a part of the training text is held out, or all
    of it where it is only tested on."""
    cut = _whole_of if test_only else _complete
    if source.paths:
        return _merged([cut(_from_path(str(path))) for path in source.paths])
    if source.name == BUILT_IN:
        return cut({"train": Documents("the documentation inside Python", _topics, key="pydoc topics")})
    if source.name in DOWNLOADS:
        return cut(_folder(download.fetch_dataset(source.name), column=""))
    known = (BUILT_IN, *DOWNLOADS)
    raise ConfigError(f"no text {source.name!r}; files are given as data.paths=[…]; {did_you_mean(source.name, known)}")


def _topics() -> Iterator[str]:
    from pydoc_data.topics import topics

    return (topics[name].strip() for name in sorted(topics))


def _from_path(given: str) -> dict[str, Documents]:
    place, _, column = given.partition("#")
    path = Path(place)
    if path.is_dir():
        return _folder(path, column)
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder")
    return {"train": _file(path, column)}


def _folder(path: Path, column: str) -> dict[str, Documents]:
    """Files named after splits are the splits; else every file is a part of the training text."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    splits: dict[str, list[Documents]] = {}
    for file in files:
        split = split_of(strip_compression(file).stem)
        if split is not None:
            splits.setdefault(split, []).append(_file(file, column))
    if "train" in splits:
        return {split: _joined(parts) for split, parts in splits.items()}
    texts = [file for file in files if not file.name.lower().startswith(SKIPPED_PREFIXES)]
    if not texts:
        raise DataError(f"{path}: no files in this folder to read text from")
    return {"train": _joined([_file(file, column) for file in texts], where=str(path))}


def _file(path: Path, column: str) -> Documents:
    kind = strip_compression(path).suffix
    read: Callable[[], Iterator[str]] = partial(_whole, path)
    if kind == ".zip":
        read = partial(_members, path)
    elif kind == ".jsonl":
        read = partial(_records, path, column or "text")
    elif kind in TABLE_SUFFIXES and column:
        read = partial(_cells, path, column)
    elif kind in TABLE_SUFFIXES:
        raise DataError(f"{path}: which column is the text? Name it or give its number behind a #: {path.name}#text")
    fact = path.stat()
    size = fact.st_size * (COMPRESSION_RATIO if path.suffix in (*COMPRESSED_SUFFIXES, ".zip") else 1)
    return Documents(str(path), read, f"{path.resolve()}:{fact.st_size}:{fact.st_mtime_ns}#{column};", size)


def _joined(parts: Sequence[Documents], where: str = "") -> Documents:
    def read() -> Iterator[str]:
        return chain.from_iterable(parts)

    where = where or " and ".join(part.where for part in parts)
    return Documents(where, read, "".join(part.key for part in parts), sum(part.bytes for part in parts))


def _merged(sources: Sequence[dict[str, Documents]]) -> dict[str, Documents]:
    """The same splits of several sources, one behind the other."""
    if len(sources) == 1:
        return sources[0]
    splits = dict.fromkeys(split for source in sources for split in source)
    return {split: _joined([source[split] for source in sources if split in source]) for split in splits}


def _whole(path: Path) -> Iterator[str]:
    yield read_text(path)


def _members(path: Path) -> Iterator[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
            for name in names:
                if not PurePosixPath(name).name.lower().startswith(SKIPPED_PREFIXES):
                    text = decode_text(archive.read(name), f"{path}: {name}")
                    yield strip_pos_tags(text) if has_pos_tags(text) else text
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError) as wrong:
        raise DataError(f"{path}: cannot be read: {wrong}") from None


def _records(path: Path, column: str) -> Iterator[str]:
    for place, record in tables.read_jsonl(path):
        if not isinstance(record, dict) or not isinstance(record.get(column), str):
            raise DataError(f"{place}: has no text {column!r}; name the right one behind a #: {path.name}#…")
        yield record[column]


def _cells(path: Path, column: str) -> Iterator[str]:
    """The text column of a table, by its name in the first line or by its number; tags <br /> become line ends."""
    place = int(column) - 1 if column.isdigit() and int(column) else None
    for number, cells in tables.read_records(path):
        if place is None:
            if column not in cells:
                raise DataError(f"{path}: no column {column!r}; {did_you_mean(column, cells)}, or give its number")
            place = cells.index(column)
        elif place < len(cells):
            yield cells[place].replace("<br />", "\n").rstrip("\n")
        else:
            raise DataError(f"{path}:{number}: {len(cells)} columns, but column {place + 1} is asked for")


def has_pos_tags(text: str) -> bool:
    """Whether the words of a text carry tags as in the Brown corpus: dog/nn."""
    words = text.split(maxsplit=20)[:20]
    return len(words) > 1 and all(re.fullmatch(r"\S+/[a-z.,:;()'`*$+-]\S*", word) for word in words)


def strip_pos_tags(text: str) -> str:
    """`The/at dog/nn barked/vbd ./.` -> "The dog barked."; a paragraph a line."""
    paragraphs = (" ".join(word.rpartition("/")[0] for word in line.split()) for line in text.splitlines())
    return "\n".join(_printed(paragraph) for paragraph in paragraphs if paragraph)


def _printed(words: str) -> str:
    """Words between spaces -> as a printer sets them: quotes and commas beside their words."""
    words = re.sub(r"([;?!]) (?:\1)(?= |$)", r"\1", words)  # the corpus doubles these
    words = re.sub(r"(?:^|(?<= ))`` ?", '"', words)
    words = re.sub(r" ?''", '"', words)
    words = re.sub(r" ([.,;:?!)\]])(?= |\"|$)", r"\1", words)
    return re.sub(r"([(\[]) ", r"\1", words)


def _complete(splits: dict[str, Documents]) -> dict[str, Documents]:
    """Splits as given -> the same, with validation text cut off the training text where there is none."""
    if "valid" in splits:
        return splits
    whole = splits["train"]
    many = sum(1 for _ in islice(whole, DOCUMENTS_PER_HELD_OUT)) == DOCUMENTS_PER_HELD_OUT
    cut, parts = (_every, ("train", "valid", "test")) if many else (_by_characters, ("train", "valid"))
    return splits | {
        split: Documents(whole.where, partial(cut, whole, split), f"{whole.key}{split}", whole.bytes)
        for split in parts
        if split == "train" or split not in splits
    }


def _whole_of(splits: dict[str, Documents]) -> dict[str, Documents]:
    return dict.fromkeys(("train", "valid", "test"), splits["train"]) if list(splits) == ["train"] else splits


def _every(whole: Documents, split: str) -> Iterator[str]:
    """The twentieth, fortieth, … document is for validation, the tenth, thirtieth, … for testing."""
    names = {DOCUMENTS_PER_HELD_OUT - 1: "valid", DOCUMENTS_PER_HELD_OUT // 2 - 1: "test"}
    return (text for number, text in enumerate(whole) if names.get(number % DOCUMENTS_PER_HELD_OUT, "train") == split)


def _by_characters(whole: Documents, split: str) -> Iterator[str]:
    """The first nine tenths of the characters, or the last tenth."""
    edge = sum(map(len, whole)) * (HELD_OUT_DIVISOR - 1) // HELD_OUT_DIVISOR
    for text in whole:
        kept = text[max(0, edge) :] if split == "valid" else text[: max(0, edge)]
        edge -= len(text)
        if kept:
            yield kept
