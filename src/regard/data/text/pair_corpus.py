"""Token rows as flat arrays, in memory or mapped from files: one interface for ten pairs and for a hundred million."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Indices, Padded
from regard.data.batching import Lengths, PairBatch
from regard.data.text.pair_files import Pair, Pairs
from regard.data.text.tokenizer import Tokenizer

TokenArray = NDArray[np.unsignedinteger | np.signedinteger]
CHUNK_PAIRS = 20_000  # pairs that are encoded at once
VOCAB_SAMPLE_BYTES = 2**28  # bytes of text that vocabularies are made from: of twice as much, every second pair
LENGTH_CHUNK_PAIRS = 4_000_000  # pairs whose lengths are looked at at once


class Ragged(NamedTuple):
    """Rows of different length, end to end: row i is tokens[edges[i]:edges[i + 1]]."""

    tokens: TokenArray
    edges: NDArray[np.int64]

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.edges) - 1

    def row(self, index: int) -> TokenArray:
        """One row, without marks."""
        return self.tokens[self.edges[index] : self.edges[index + 1]]

    def lengths(self, first: int = 0, last: int | None = None) -> Lengths:
        """The lengths of rows first … last - 1, without marks."""
        last = self.num_rows if last is None else last
        return np.diff(self.edges[first : last + 1])

    def padded(self, examples: Indices, *, prefix: tuple[int, ...], suffix: tuple[int, ...]) -> Padded:
        """Chosen rows -> tokens (b s) between the marks `before` and `after`, padded on the right."""
        starts = np.asarray(self.edges[examples])
        lengths = np.asarray(self.edges[examples + 1]) - starts
        columns = np.arange(int(lengths.max(initial=0)))
        inside = columns < lengths[:, None]
        places = (starts[:, None] + columns)[inside]
        tokens = np.full((len(examples), len(columns) + len(prefix) + len(suffix)), SpecialTokens.pad, dtype=np.int64)
        tokens[:, : len(prefix)] = prefix
        tokens[:, len(prefix) : len(prefix) + len(columns)][inside] = self.tokens[places]
        ends = lengths + len(prefix)
        for step, mark in enumerate(suffix):
            tokens[np.arange(len(examples)), ends + step] = mark
        return Padded(torch.from_numpy(tokens), torch.from_numpy(ends + len(suffix)))


class PairCorpus(NamedTuple):
    """Source and target rows, side by side; `blank` pairs with an empty side were left out."""

    source: Ragged
    target: Ragged
    blank: int = 0

    @property
    def num_pairs(self) -> int:
        """How many pairs there are."""
        return self.source.num_rows

    def lengths(self, first: int = 0, last: int | None = None) -> tuple[Lengths, Lengths]:
        """What each pair takes up in a batch: source with end mark, target with one mark (a decoder step per label)."""
        return self.source.lengths(first, last) + 1, self.target.lengths(first, last) + 1

    def num_longer_than(self, limit: int) -> int:
        """How many pairs take up more than `limit` in a batch; counted part by part, in bounded memory."""
        parts = (
            self.lengths(first, min(first + LENGTH_CHUNK_PAIRS, self.num_pairs))
            for first in range(0, self.num_pairs, LENGTH_CHUNK_PAIRS)
        )
        return sum(int((np.maximum(source, target) > limit).sum()) for source, target in parts)

    def batch(self, examples: Indices, special_tokens: SpecialTokens) -> PairBatch:
        """Example numbers -> the padded batch."""
        source = self.source.padded(examples, prefix=(), suffix=(special_tokens.eos,))
        return PairBatch(
            source, self.target.padded(examples, prefix=(special_tokens.bos,), suffix=(special_tokens.eos,))
        )


class EncodedChunk(NamedTuple):
    """Some encoded pairs: token rows of both sides, and how many pairs were left out."""

    source: Ragged
    target: Ragged
    blank: int


@dataclass(frozen=True)
class PairTexts:
    """One or both sides of sentence pairs, to be gone through again and again; of a large corpus a sample."""

    pairs: Pairs
    sides: tuple[int, ...]

    def __iter__(self) -> Iterator[str]:
        every = 1 + self.pairs.bytes // VOCAB_SAMPLE_BYTES
        return (pair[side] for pair in islice(self.pairs, 0, None, every) for side in self.sides)


def encode_chunks(pairs: Iterable[Pair], source: Tokenizer, target: Tokenizer) -> Iterator[EncodedChunk]:
    """Sentence pairs -> their tokens, chunk by chunk, so that memory is bounded."""
    stream = iter(pairs)
    while chunk := list(islice(stream, CHUNK_PAIRS)):
        full = [pair for pair in chunk if pair[0].strip() and pair[1].strip()]
        left, right = (tokenizer.encode([pair[i] for pair in full]) for i, tokenizer in enumerate((source, target)))
        yield EncodedChunk(to_ragged(left), to_ragged(right), blank=len(chunk) - len(full))


def encode_in_memory(pairs: Iterable[Pair], source: Tokenizer, target: Tokenizer) -> PairCorpus:
    """Sentence pairs -> the corpus, held in memory."""
    chunks = list(encode_chunks(pairs, source, target))
    left, right = _joined([chunk.source for chunk in chunks]), _joined([chunk.target for chunk in chunks])
    return PairCorpus(left, right, blank=sum(chunk.blank for chunk in chunks))


def to_ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    """Rows of token numbers -> the same, end to end."""
    edges = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    flat = (token for row in rows for token in row)
    return Ragged(np.fromiter(flat, dtype=np.int32, count=int(edges[-1])), edges)


def _joined(parts: Sequence[Ragged]) -> Ragged:
    lengths = np.concatenate([np.zeros(1, dtype=np.int64), *(part.lengths() for part in parts)])
    return Ragged(np.concatenate([np.zeros(0, dtype=np.int32), *(part.tokens for part in parts)]), np.cumsum(lengths))
