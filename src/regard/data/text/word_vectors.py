"""Word vector files: word2vec text and binary, GloVe, fastText text. They can initialize any embedding table.

word2vec and fastText files start with a line `count width`, GloVe files with the first vector. A line of a text file
has a word and its values; a binary entry has a word, a space and the values as 32-bit floats. Compressed files (.gz,
.xz) are decompressed while reading.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError, FileError
from regard.data.text import tokenizer as tokenizers

Array = NDArray[np.float32]
VECTORS_KEY = "vectors.weight"  # name of the embedding table in the run folder of a word vector model
MAX_WORD_BYTES = 4096  # bytes of a word in a binary file; more means that the file is not one


class WordVectors(NamedTuple):
    """Words and their vectors."""

    words: list[str]
    matrix: Array  # (n d)


class Coverage(NamedTuple):
    """Number of words of a vocabulary that have a vector."""

    path: str
    num_covered: int
    num_words: int

    def describe(self) -> str:
        """Return the coverage as one line of text."""
        share = self.num_covered / max(1, self.num_words)
        return f"{self.path}: vectors for {self.num_covered:,} of {self.num_words:,} words ({share:.0%})"


def init_embeddings(weight: Tensor, words: Sequence[str], path: Path) -> Coverage:
    """Write the vectors of a file into the rows (v d) of its words; other rows are unchanged.

    A word that the file has only in lower case gets that vector. All vectors are scaled by one factor, so that their
    root mean square equals that of the rows they replace.
    """
    spellings = {spelling for word in words if word for spelling in (word, word.lower())}
    vectors = read(path, spellings)
    width = vectors.matrix.shape[1]
    if width != weight.shape[1]:
        raise DataError(
            f"{path}: its vectors have width {width}, but the embedding table has {weight.shape[1]}; "
            f"set the width of the model to {width}, or use other vectors"
        )
    broken = ~np.isfinite(vectors.matrix).all(axis=1)
    if broken.any():
        word = vectors.words[int(broken.argmax())]
        raise DataError(f"{path}: the vector of {word!r} has a value that is not finite; remove the word or fix it")
    file_rows = {word: row for row, word in enumerate(vectors.words)}
    rows = [(index, file_rows.get(word, file_rows.get(word.lower()))) for index, word in enumerate(words) if word]
    covered = [(index, row) for index, row in rows if row is not None]
    if covered:
        indices, sources = (list(side) for side in zip(*covered, strict=True))
        chosen = torch.from_numpy(vectors.matrix[sources]).to(weight)
        with torch.no_grad():
            size = chosen.square().mean().sqrt().clamp_min(1e-12)
            weight[indices] = chosen * (weight[indices].square().mean().sqrt() / size)
    return Coverage(str(path), len(covered), len(rows))


def read(path: Path, vocabulary: Collection[str] | None = None) -> WordVectors:
    """File -> its words and vectors, or only those in `vocabulary`, to bound memory.

    The folder of a run that learned word vectors is read like a file.
    """
    if path.is_dir():
        return _from_run(path)
    try:
        with _open(path) as file:
            first = file.readline()
            header = _header(first)
            if header is None:
                return _collect(_lines(path, file, first=first, width=_width(path, first)), vocabulary)
            count, width = header
            ahead = file.read(MAX_WORD_BYTES)
            rest: Any = io.BufferedReader(_Concatenated(ahead, file))
            if _is_text(ahead, width):
                rows = _lines(path, rest, first=None, width=width)
            else:
                rows = _binary(path, rest, count=count, width=width)
            return _collect(_check_count(path, rows, count), vocabulary)
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path}: no such file of word vectors") from None
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def _from_run(folder: Path) -> WordVectors:
    tokenizer = tokenizers.load(folder / "tokenizer.json")
    try:
        with safe_open(folder / "model.safetensors", framework="np") as file:
            matrix = file.get_tensor(VECTORS_KEY)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{folder}: not a run that learned word vectors: {error}") from None
    first = SpecialTokens().first_regular_id
    return WordVectors([tokenizer.token_text(token) for token in range(first, tokenizer.vocab_size)], matrix[first:])


def _open(path: Path) -> BinaryIO:
    opener: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
    file: BinaryIO = opener.get(path.suffix, open)(path, "rb")
    return file


class _Concatenated(io.RawIOBase):
    """Bytes that were read ahead, followed by the rest of the file."""

    def __init__(self, ahead: bytes, file: BinaryIO) -> None:
        self._ahead, self._file = ahead, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._ahead[: len(buffer)] if self._ahead else self._file.read(len(buffer))
        self._ahead = self._ahead[len(data) :] if self._ahead else b""
        buffer[: len(data)] = data
        return len(data)


def _header(line: bytes) -> tuple[int, int] | None:
    """Return count and width, or None if the first line is a vector."""
    parts = line.split()
    if len(parts) != 2 or not all(re.fullmatch(rb"[0-9]+", part) for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _is_text(ahead: bytes, width: int) -> bool:
    """Return True if the header is followed by a line of a word and `width` values."""
    try:
        return len(ahead.split(b"\n")[0].decode("utf-8").split()) > width or _has_numbers(ahead)
    except UnicodeDecodeError:
        return False


def _has_numbers(ahead: bytes) -> bool:
    """Return True if the second word is a number, as in text files. Their lines may be longer than `ahead`."""
    parts = ahead.split()
    try:
        return len(parts) > 2 and all(float(part) == float(part) for part in parts[1:3])
    except ValueError:
        return False


def _width(path: Path, line: bytes) -> int:
    """Return the number of values in a first line without a header."""
    parts = line.decode("utf-8", errors="replace").split()
    if len(parts) < 3:
        raise DataError(f"{path}: not a file of word vectors: its first line is neither `count width` nor a vector")
    return len(parts) - 1


def _lines(path: Path, file: Iterable[bytes], *, first: bytes | None, width: int) -> Iterator[tuple[str, Array]]:
    rows = enumerate(file, start=2) if first is None else enumerate(chain([first], file), start=1)
    return (_row(path, raw, line, width) for line, raw in rows if raw.strip())


def _row(path: Path, raw: bytes, line: int, width: int) -> tuple[str, Array]:
    parts = raw.decode("utf-8", errors="replace").rstrip().rsplit(" ", width)  # a word may contain spaces
    if len(parts) != width + 1:
        count = len(parts) - 1
        raise DataError(f"{path}:{line}: {count} values, expected {width}; the file is truncated or damaged")
    try:
        return parts[0], np.array(parts[1:], dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{path}:{line}: not a vector: {error}") from None


def _binary(path: Path, file: Any, *, count: int, width: int) -> Iterator[tuple[str, Array]]:
    for index in range(count):
        word = _read_word(file)
        data = file.read(4 * width)
        if word is None or len(data) < 4 * width:
            raise DataError(f"{path}: truncated: the header has {count:,} vectors, but it ends in vector {index + 1:,}")
        yield word, np.frombuffer(data, dtype="<f4")


def _read_word(file: Any) -> str | None:
    """Return the text up to the next space, or None at the end of the file."""
    word = bytearray()
    while len(word) < MAX_WORD_BYTES:
        byte = file.read(1)
        if not byte:
            return None
        if byte == b" ":
            return word.decode("utf-8", errors="replace").lstrip("\n")
        word += byte
    return None


def _check_count(path: Path, rows: Iterator[tuple[str, Array]], count: int) -> Iterator[tuple[str, Array]]:
    num_rows = 0
    for row in rows:
        num_rows += 1
        yield row
    if num_rows < count:
        raise DataError(f"{path}: truncated: the header has {count:,} vectors, but the file has {num_rows:,}")


def _collect(rows: Iterator[tuple[str, Array]], vocabulary: Collection[str] | None) -> WordVectors:
    words: list[str] = []
    vectors: list[Array] = []
    width = 0
    for word, vector in rows:
        width = len(vector)
        if vocabulary is None or word in vocabulary:
            words.append(word)
            vectors.append(vector)
    return WordVectors(words, np.stack(vectors) if vectors else np.zeros((0, width), dtype=np.float32))


def to_text(vectors: WordVectors) -> bytes:
    """Return the vectors in word2vec's text format, which fastText and gensim also read."""
    lines = [f"{len(vectors.words)} {vectors.matrix.shape[1]}"]
    for word, row in zip(vectors.words, vectors.matrix.tolist(), strict=True):
        lines.append(f"{_check_word(word)} {' '.join(f'{value:.6g}' for value in row)}")
    return ("\n".join(lines) + "\n").encode()


def to_binary(vectors: WordVectors) -> bytes:
    """Return the vectors in word2vec's binary format."""
    parts = [f"{len(vectors.words)} {vectors.matrix.shape[1]}\n".encode()]
    for word, row in zip(vectors.words, vectors.matrix.astype("<f4"), strict=True):
        parts += [f"{_check_word(word)} ".encode(), row.tobytes(), b"\n"]
    return b"".join(parts)


def _check_word(word: str) -> str:
    if not word or any(character.isspace() for character in word):
        raise FileError(f"the word {word!r} cannot be written: it has a space or is empty")
    return word
