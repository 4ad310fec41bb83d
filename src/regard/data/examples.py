"""Re-iterable examples of any kind, and the rules by which a data set is split into train, valid and test."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.core import checksums
from regard.core.errors import DataError, did_you_mean, pluralize
from regard.core.files import file_state
from regard.core.protocols import Indices

if TYPE_CHECKING:
    from regard.core.task import Task

MAX_CACHED_BYTES = 2**28  # examples with more text are read from the file in every pass
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
COMPRESSION_RATIO = 4  # approximate size of decompressed text relative to the file
HELD_OUT_EXAMPLES = 1000  # examples in a held-out split, if they are at most a twentieth of the data
HELD_OUT_DIVISOR = 20
SplitFunction = Callable[..., Any]  # `add_missing_splits` or `same_for_all_splits`


class Splits(dict[str, T]):
    """Splits by name. Looking up a split that does not exist raises a DataError that lists the others."""

    def __missing__(self, name: str) -> NoReturn:
        raise DataError(f"the data has no split {name!r}; {did_you_mean(name, self)}")


@dataclass(frozen=True)
class Examples(Generic[T]):
    """Examples that are read again in every pass, so that they need not fit into memory."""

    where: str  # name in error messages
    read: Callable[[], Iterator[T]]
    key: str = ""  # equal for equal content: paths, sizes, modification times and options
    bytes: int = 0  # approximate size of the text; 0 if it is generated
    files: tuple[Path, ...] = ()  # source files
    part: str = ""  # part of the files that is used
    remarks: tuple[str, ...] = ()  # on the files: which are joined, which are not read
    is_held_out: bool = False  # True for a split that was cut off the training data of the user

    def __iter__(self) -> Iterator[T]:
        return self.read()

    def checksum(self) -> str:
        """Return a checksum of the content: of the files, independent of their folder, or else of every example."""
        if not self.files:
            return checksums.hash_rows(self)
        return blake2b(f"{checksums.hash_files(self.files)} {self.part}".encode(), digest_size=32).hexdigest()


def cache_in_memory(rows: Examples[T]) -> Examples[T]:
    """Return the same examples, cached after the first pass. More than MAX_CACHED_BYTES of text are not cached."""
    if rows.bytes > MAX_CACHED_BYTES:
        return rows
    cached: list[T] = []

    def read() -> Iterator[T]:
        if not cached:
            cached.extend(rows)
        return iter(cached)

    return replace(rows, read=read)


def from_files(where: str, read: Callable[[], Iterator[T]], *paths: Path, key: str = "") -> Examples[T]:
    """Return examples that are read from files; their key changes with the files."""
    states = [(str(path.resolve()), state) for path in paths if (state := file_state(path)) is not None]
    stamp = "".join(f"{path}:{state};" for path, state in states)
    size = sum(
        state.size * (COMPRESSION_RATIO if Path(path).suffix in COMPRESSED_SUFFIXES else 1) for path, state in states
    )
    files = tuple(path for path in paths if path.is_file())
    return Examples(where, read, key=stamp + key, bytes=size, files=files if len(files) == len(paths) else (), part=key)


def join(parts: Sequence[Examples[T]], where: str, remarks: tuple[str, ...] = ()) -> Examples[T]:
    """Return the examples of several files, one after the other; one part keeps its own name."""
    if len(parts) == 1:
        return replace(parts[0], remarks=remarks)
    keys, files = ([getattr(part, name) for part in parts] for name in ("key", "files"))
    return Examples(
        where,
        lambda: chain.from_iterable(parts),
        key="".join(keys),
        bytes=sum(part.bytes for part in parts),
        files=tuple(path for paths in files for path in paths) if all(files) else (),
        part=parts[0].part,
        remarks=remarks,
    )


def strip_compression(path: Path) -> Path:
    """Return the path without the suffix of a compressed file: train.tsv.gz -> train.tsv."""
    return path.with_suffix("") if path.suffix in COMPRESSED_SUFFIXES else path


def split_of(stem: str) -> str | None:
    """File stem -> name of the split: `train`, `news.dev`, `test_2016_flickr`; None if the stem names no split."""
    match = re.search(r"(?:^|[.\-_])(train|validation|valid|val|dev|test)(?:[_\-.\d]\w*)?$", stem)
    return SPLIT_ALIASES[match[1]] if match else None


def get_split(splits: dict[str, Examples[T]], name: str) -> Examples[T]:
    """Return one split, or raise an error that lists the existing splits."""
    return Splits(splits)[name]


def missing_splits(splits: Collection[str]) -> list[str]:
    """Return the splits that must be cut off the training data because the data does not contain them."""
    if "train" not in splits:
        raise DataError(f"there is no training split; the data has {', '.join(sorted(splits)) or 'nothing'}")
    return [] if "valid" in splits else [name for name in ("valid", "test") if name not in splits]


def too_few_error(num_distinct: int, split_names: Sequence[str]) -> str:
    """Return an error message if there are too few distinct texts for train and the given splits, or else ""."""
    if num_distinct > len(split_names):
        return ""
    *first, last = "train", *split_names
    verb = "is" if num_distinct == 1 else "are"
    return (
        f"{pluralize(num_distinct, 'different text')} {verb} too few to split into {', '.join(first)} and {last}: at "
        f"least {len(split_names) + 1} are needed, and equal texts count once; provide more, or a folder with one file "
        "per split"
    )


def hash_keys(contents: Iterable[bytes], seed: int) -> NDArray[np.uint64]:
    """Contents -> one random key each: equal contents have equal keys, and keys differ between seeds."""
    salt = seed.to_bytes(16, "little", signed=True)
    digests = (blake2b(content, digest_size=8, salt=salt).digest() for content in contents)
    return np.fromiter((int.from_bytes(digest, "little") for digest in digests), dtype=np.uint64)


def hold_out(
    train: Indices, keys: NDArray[np.uint64], split_names: Sequence[str], *, size: int, noun: str = "examples"
) -> Splits[Indices]:
    """Training indices -> the named held-out splits, and the rest as `train`.

    Each split takes the examples with the smallest remaining keys until it has at least `size` examples. Examples with
    equal keys are never separated.
    """
    splits: Splits[Indices] = Splits()
    remaining = train
    for name in split_names:
        distinct, counts = np.unique(keys[remaining], return_counts=True)
        num_keys = np.searchsorted(np.cumsum(counts), size) + 1
        if num_keys >= len(distinct):
            raise DataError(f"{len(train)} {noun} are too few to hold some out for {name}; give more")
        chosen = np.isin(keys[remaining], distinct[:num_keys])
        splits[name], remaining = remaining[chosen], remaining[~chosen]
    splits["train"] = remaining
    return splits


def add_missing_splits(
    splits: dict[str, Examples[T]], seed: int, *, text_of: Callable[[T], str]
) -> Splits[Examples[T]]:
    """Add a valid split, and a test split if there is neither, by cutting them off train.

    The text of an example alone decides its split, so equal texts are never in two splits.
    """
    missing = missing_splits(splits)
    if not missing:
        return Splits(splits)
    train = splits["train"]
    keys = hash_keys((text_of(example).encode() for example in train), seed)
    distinct = np.unique(keys)
    if message := too_few_error(len(distinct), missing):
        raise DataError(f"{train.where}: {message}")
    size = min(HELD_OUT_EXAMPLES, len(distinct) // HELD_OUT_DIVISOR) or 1
    ranks = hold_out(np.arange(len(distinct)), distinct, missing, size=size)
    edges = [0, *(int(distinct[ranks[name][-1] + 1]) for name in missing)]
    parts = {
        name: replace(_part(train, keys, low=low, high=high), is_held_out=True)
        for name, low, high in zip(missing, edges[:-1], edges[1:], strict=True)
    }
    return Splits({**splits, **parts, "train": _part(train, keys, low=edges[-1], high=2**64)})


def same_for_all_splits(
    splits: dict[str, Examples[T]], seed: int, *, text_of: Callable[[T], str]
) -> Splits[Examples[T]]:
    """Replacement for `add_missing_splits` for test-only data: data without splits is used for every split."""
    return Splits(dict.fromkeys(("train", "valid", "test"), splits["train"]) if list(splits) == ["train"] else splits)


def split_function_for(task: Task) -> SplitFunction:
    """Return the function that splits a task's data if the data has no splits."""
    return same_for_all_splits if task.test_only else add_missing_splits


def _part(rows: Examples[T], keys: NDArray[np.uint64], *, low: int, high: int) -> Examples[T]:
    inside = (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))

    def read() -> Iterator[T]:
        return (row for row, chosen in zip(rows, inside, strict=True) if chosen)

    edges = f"{low}:{high}"
    return replace(rows, read=read, key=f"{rows.key}{edges}", part=rows.part + edges)
