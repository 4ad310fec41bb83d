"""Word vectors in files: word2vec text and binary, GloVe, fastText text. They can start any table of embeddings.

word2vec and fastText begin with a line `count width`, GloVe with the first vector. In text a line is a word and its
numbers; in binary a word, a space and the numbers as 32-bit floats. Packed files (.gz, .xz) are read as they are.
"""

from __future__ import annotations

import gzip
import io
import lzma
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
VECTORS_KEY = "vectors.weight"  # the name of the table in the run folder of a model of word vectors
MAX_WORD_BYTES = 4096  # bytes of a word in a binary file; more means that it is none


class WordVectors(NamedTuple):
    """Words and their vectors, row by row."""

    words: list[str]
    matrix: Array  # (n d)


class Coverage(NamedTuple):
    """How many words of a vocabulary have got a vector."""

    path: str
    num_covered: int
    num_words: int

    def describe(self) -> str:
        """For people."""
        share = self.num_covered / max(1, self.num_words)
        return f"{self.path}: vectors for {self.num_covered:,} of {self.num_words:,} words ({share:.0%})"


def init_embeddings(weight: Tensor, words: Sequence[str], path: Path) -> Coverage:
    """Write the vectors of a file into the rows (v d) of its words, and leave all other rows as they are.

    A word that the file has only in lower case gets that vector. All are scaled by one factor, so that they are as
    large as the rows they replace.
    """
    spelt = {spelling for word in words if word for spelling in (word, word.lower())}
    vectors = read(path, spelt)
    width = vectors.matrix.shape[1]
    if width != weight.shape[1]:
        raise DataError(
            f"{path}: its vectors have width {width}, but the table of embeddings has {weight.shape[1]}; "
            f"set the width of the model to {width}, or give other vectors"
        )
    broken = ~np.isfinite(vectors.matrix).all(axis=1)
    if broken.any():
        word = vectors.words[int(broken.argmax())]
        raise DataError(f"{path}: the vector of {word!r} has a number that is not finite; take the word out or mend it")
    places = {word: row for row, word in enumerate(vectors.words)}
    rows = [(number, places.get(word, places.get(word.lower()))) for number, word in enumerate(words) if word]
    found = [(number, row) for number, row in rows if row is not None]
    if found:
        numbers, sources = (list(side) for side in zip(*found, strict=True))
        chosen = torch.from_numpy(vectors.matrix[sources]).to(weight)
        with torch.no_grad():
            size = chosen.square().mean().sqrt().clamp_min(1e-12)
            weight[numbers] = chosen * (weight[numbers].square().mean().sqrt() / size)
    return Coverage(str(path), len(found), len(rows))


def read(path: Path, vocabulary: Collection[str] | None = None) -> WordVectors:
    """A file -> its words and vectors, or only those of the words that are wanted, so that memory is bounded.

    The folder of a run that learned word vectors is read like a file of them.
    """
    if path.is_dir():
        return _of_run(path)
    try:
        with _open(path) as file:
            first = file.readline()
            header = _header(first)
            if header is None:
                return _collect(_lines(path, file, first=first, width=_width(path, first)), vocabulary)
            count, width = header
            ahead = file.read(MAX_WORD_BYTES)
            rest: Any = io.BufferedReader(_Joined(ahead, file))
            if _is_text(ahead, width):
                rows = _lines(path, rest, first=None, width=width)
            else:
                rows = _binary(path, rest, count=count, width=width)
            return _collect(_counted(path, rows, count), vocabulary)
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path}: no such file of word vectors") from None
    except (OSError, EOFError, lzma.LZMAError) as wrong:
        raise DataError(f"{path}: cannot be read: {wrong}") from None


def _of_run(folder: Path) -> WordVectors:
    tokenizer = tokenizers.load(folder / "tokenizer.json")
    try:
        with safe_open(folder / "model.safetensors", framework="np") as file:
            matrix = file.get_tensor(VECTORS_KEY)
    except (OSError, SafetensorError) as wrong:
        raise DataError(f"{folder}: no run that learned word vectors: {wrong}") from None
    first = SpecialTokens().first_regular_id
    return WordVectors([tokenizer.token_text(number) for number in range(first, tokenizer.vocab_size)], matrix[first:])


def _open(path: Path) -> BinaryIO:
    opener: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
    file: BinaryIO = opener.get(path.suffix, open)(path, "rb")
    return file


class _Joined(io.RawIOBase):
    """Bytes that were read ahead, and the rest of the file behind them."""

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
    """`count width`; None where the first line is a vector already."""
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _is_text(ahead: bytes, width: int) -> bool:
    """Whether what follows the header is a line of a word and `width` numbers."""
    try:
        return len(ahead.split(b"\n")[0].decode("utf-8").split()) > width or _numbers(ahead)
    except UnicodeDecodeError:
        return False


def _numbers(ahead: bytes) -> bool:
    """Whether the second word is a number: so it is in text, whose lines may be longer than what was read ahead."""
    parts = ahead.split()
    try:
        return len(parts) > 2 and all(float(part) == float(part) for part in parts[1:3])
    except ValueError:
        return False


def _width(path: Path, line: bytes) -> int:
    """The numbers of a first line without a header."""
    parts = line.decode("utf-8", errors="replace").split()
    if len(parts) < 3:
        raise DataError(f"{path}: not a file of word vectors: its first line is neither `count width` nor a vector")
    return len(parts) - 1


def _lines(path: Path, file: Iterable[bytes], *, first: bytes | None, width: int) -> Iterator[tuple[str, Array]]:
    rows = enumerate(file, start=2) if first is None else enumerate(chain([first], file), start=1)
    return (_row(path, raw, number, width) for number, raw in rows if raw.strip())


def _row(path: Path, raw: bytes, number: int, width: int) -> tuple[str, Array]:
    parts = raw.decode("utf-8", errors="replace").rstrip().rsplit(" ", width)  # a word may have spaces
    if len(parts) != width + 1:
        count = len(parts) - 1
        raise DataError(f"{path}:{number}: {count} numbers where {width} are expected; the file is cut off or damaged")
    try:
        return parts[0], np.array(parts[1:], dtype=np.float32)
    except ValueError as wrong:
        raise DataError(f"{path}:{number}: not a vector: {wrong}") from None


def _binary(path: Path, file: Any, *, count: int, width: int) -> Iterator[tuple[str, Array]]:
    for number in range(count):
        word = _word(file)
        data = file.read(4 * width)
        if word is None or len(data) < 4 * width:
            raise DataError(f"{path}: cut off: {count:,} vectors are promised, but it ends in number {number + 1:,}")
        yield word, np.frombuffer(data, dtype="<f4")


def _word(file: Any) -> str | None:
    """The bytes up to a space; None at the end of the file."""
    letters = bytearray()
    while len(letters) < MAX_WORD_BYTES:
        letter = file.read(1)
        if not letter:
            return None
        if letter == b" ":
            return letters.decode("utf-8", errors="replace").lstrip("\n")
        letters += letter
    return None


def _counted(path: Path, rows: Iterator[tuple[str, Array]], count: int) -> Iterator[tuple[str, Array]]:
    seen = 0
    for row in rows:
        seen += 1
        yield row
    if seen < count:
        raise DataError(f"{path}: cut off: {count:,} vectors are promised, but it has {seen:,}")


def _collect(rows: Iterator[tuple[str, Array]], wanted: Collection[str] | None) -> WordVectors:
    words: list[str] = []
    kept: list[Array] = []
    width = 0
    for word, vector in rows:
        width = len(vector)
        if wanted is None or word in wanted:
            words.append(word)
            kept.append(vector)
    return WordVectors(words, np.stack(kept) if kept else np.zeros((0, width), dtype=np.float32))


def to_text(vectors: WordVectors) -> bytes:
    """word2vec's text format, which fastText and gensim read too."""
    lines = [f"{len(vectors.words)} {vectors.matrix.shape[1]}"]
    for word, row in zip(vectors.words, vectors.matrix.tolist(), strict=True):
        lines.append(f"{_spelt(word)} {' '.join(f'{value:.6g}' for value in row)}")
    return ("\n".join(lines) + "\n").encode()


def to_binary(vectors: WordVectors) -> bytes:
    """word2vec's binary format."""
    parts = [f"{len(vectors.words)} {vectors.matrix.shape[1]}\n".encode()]
    for word, row in zip(vectors.words, vectors.matrix.astype("<f4"), strict=True):
        parts += [f"{_spelt(word)} ".encode(), row.tobytes(), b"\n"]
    return b"".join(parts)


def _spelt(word: str) -> str:
    if not word or any(letter.isspace() for letter in word):
        raise FileError(f"the word {word!r} cannot be written: it has a space or no letters")
    return word
