"""Examples of any kind that can be gone through again and again, and splits by seed where the data has none."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.core import checksums
from regard.core.errors import DataError, did_you_mean, pluralize

if TYPE_CHECKING:
    from regard.core.task import Task

MAX_CACHED_BYTES = 2**28  # bytes of text that are kept in memory rather than read again and again
T = TypeVar("T")
SPLIT_ALIASES = {
    "train": "train",
    "valid": "valid",
    "val": "valid",
    "dev": "valid",
    "validation": "valid",
    "test": "test",
}
COMPRESSED_SUFFIXES = (".gz", ".xz")
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.xz")
COMPRESSION_RATIO = 4  # how much larger text is unpacked, about
HELD_OUT_EXAMPLES = 1000  # examples to hold out for a split, if that is at most a twentieth
HELD_OUT_DIVISOR = 20
SplitFunction = Callable[..., Any]  # `complete` or `whole`


@dataclass(frozen=True)
class Examples(Generic[T]):
    """Examples that are read anew each time, so that they need not be held in memory."""

    where: str  # what an error message calls them
    read: Callable[[], Iterator[T]]
    key: str = ""  # the same for the same content: paths, sizes, times and choices
    bytes: int = 0  # of text, about; 0 where it is made by code
    files: tuple[Path, ...] = ()  # that they are read from
    part: str = ""  # what is taken from the files

    def __iter__(self) -> Iterator[T]:
        return self.read()

    def checksum(self) -> str:
        """The same for the same content: of the files, wherever they lie, or else of every row."""
        if not self.files:
            return checksums.hash_rows(self)
        return blake2b(f"{checksums.hash_files(self.files)} {self.part}".encode(), digest_size=32).hexdigest()


def cache_in_memory(rows: Examples[T]) -> Examples[T]:
    """The same rows, kept in memory once they have been read; of more text than HELD bytes they are read each time."""
    if rows.bytes > MAX_CACHED_BYTES:
        return rows
    kept: list[T] = []

    def read() -> Iterator[T]:
        if not kept:
            kept.extend(rows)
        return iter(kept)

    return replace(rows, read=read)


def from_files(where: str, read: Callable[[], Iterator[T]], *paths: Path, key: str = "") -> Examples[T]:
    """Rows that come from files; their key changes when a file does."""
    facts = [(str(path.resolve()), path.stat()) for path in paths if path.exists()]
    stamp = "".join(f"{path}:{fact.st_size}:{fact.st_mtime_ns};" for path, fact in facts)
    size = sum(
        fact.st_size * (COMPRESSION_RATIO if Path(path).suffix in COMPRESSED_SUFFIXES else 1) for path, fact in facts
    )
    files = tuple(path for path in paths if path.is_file())
    return Examples(where, read, key=stamp + key, bytes=size, files=files if len(files) == len(paths) else (), part=key)


def strip_compression(path: Path) -> Path:
    """The path without the suffix of a packed file: train.tsv.gz -> train.tsv."""
    return path.with_suffix("") if path.suffix in COMPRESSED_SUFFIXES else path


def split_of(stem: str) -> str | None:
    """A file's stem -> the split it holds: `train`, `news.dev`, `test_2016_flickr`; None if it names none."""
    match = re.search(r"(?:^|[.\-_])(train|validation|valid|val|dev|test)(?:[_\-.\d]\w*)?$", stem)
    return SPLIT_ALIASES[match[1]] if match else None


def files_by_split(folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """The files of a folder that are named after splits (train.tsv, ner.dev.gz), by split; the first of each."""
    files: dict[str, Path] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        name = strip_compression(path)
        split = split_of(name.stem) if name.suffix in suffixes else split_of(name.name)
        if split is not None:
            files.setdefault(split, path)
    return files


def get_split(splits: dict[str, Examples[T]], name: str) -> Examples[T]:
    """One split, or an error that lists those there are."""
    if name not in splits:
        raise DataError(f"the data has no split {name!r}; {did_you_mean(name, splits)}")
    return splits[name]


def missing_splits(splits: Collection[str]) -> list[str]:
    """The splits that are cut off the training data because they were not given."""
    if "train" not in splits:
        raise DataError(f"there is no training split; the data has {', '.join(sorted(splits)) or 'nothing'}")
    return [] if "valid" in splits else [name for name in ("valid", "test") if name not in splits]


def too_few_error(num_distinct: int, split_names: Sequence[str]) -> str:
    """Why so many different texts cannot be cut into train and the splits wanted, one each at least; else nothing."""
    if num_distinct > len(split_names):
        return ""
    *first, last = "train", *split_names
    verb = "is" if num_distinct == 1 else "are"
    return (
        f"{pluralize(num_distinct, 'different text')} {verb} too few to split into {', '.join(first)} and {last}: at least "
        f"{len(split_names) + 1} are needed, and equal ones count once; give more, or a folder with a file for each split"
    )


def add_missing_splits(
    splits: dict[str, Examples[T]], seed: int, *, text_of: Callable[[T], str]
) -> dict[str, Examples[T]]:
    """Splits as they were given -> the same with a valid split (and a test split, if neither was there) cut off train.

    Which part an example falls into is decided by its text alone, so equal texts are never in two parts.
    """
    wanted = missing_splits(splits)
    if not wanted:
        return splits
    keys = _keys(splits["train"], seed, text_of)
    different = np.unique(keys)
    size = min(HELD_OUT_EXAMPLES, len(different) // HELD_OUT_DIVISOR) or 1
    if few := too_few_error(len(different), wanted):
        raise DataError(f"{splits['train'].where}: {few}")
    edges = [0, *(int(different[size * (i + 1)]) for i in range(len(wanted)))]
    parts = {
        name: _part(splits["train"], keys, low=low, high=high)
        for name, low, high in zip(wanted, edges[:-1], edges[1:], strict=True)
    }
    return {**splits, **parts, "train": _part(splits["train"], keys, low=edges[-1], high=2**64)}


def same_for_all_splits(
    splits: dict[str, Examples[T]], seed: int, *, text_of: Callable[[T], str]
) -> dict[str, Examples[T]]:
    """In place of `complete`, for data that is only tested on: what is no split of several is each of them."""
    return dict.fromkeys(("train", "valid", "test"), splits["train"]) if list(splits) == ["train"] else splits


def split_function_for(task: Task) -> SplitFunction:
    """How a task's data is cut into splits where it has none."""
    return same_for_all_splits if task.test_only else add_missing_splits


def _keys(rows: Examples[T], seed: int, text_of: Callable[[T], str]) -> NDArray[np.uint64]:
    salt = seed.to_bytes(16, "little", signed=True)
    digests = (blake2b(text_of(row).encode(), digest_size=8, salt=salt).digest() for row in rows)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), dtype=np.uint64)


def _part(rows: Examples[T], keys: NDArray[np.uint64], *, low: int, high: int) -> Examples[T]:
    inside = (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))

    def read() -> Iterator[T]:
        return (row for row, chosen in zip(rows, inside, strict=True) if chosen)

    edges = f"{low}:{high}"
    return Examples(rows.where, read, f"{rows.key}{edges}", bytes=rows.bytes, files=rows.files, part=rows.part + edges)
