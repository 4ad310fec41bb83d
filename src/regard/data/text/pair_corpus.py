"""Encoded sentence pairs as flat token arrays, in memory or memory-mapped behind the same interface."""

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
CHUNK_PAIRS = 20_000  # pairs per call of the tokenizers
VOCAB_SAMPLE_BYTES = 2**28  # bytes of text for training tokenizers: of twice as much text, every second pair is used
LENGTH_CHUNK_PAIRS = 4_000_000  # pairs whose lengths are compared in one step


class Ragged(NamedTuple):
    """Concatenated rows of different length: row i is tokens[edges[i]:edges[i + 1]]."""

    tokens: TokenArray
    edges: NDArray[np.int64]

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.edges) - 1

    def row(self, index: int) -> TokenArray:
        """Return one row, without special tokens."""
        return self.tokens[self.edges[index] : self.edges[index + 1]]

    def lengths(self, first: int = 0, last: int | None = None) -> Lengths:
        """Return the lengths of rows first … last - 1, without special tokens."""
        last = self.num_rows if last is None else last
        return np.diff(self.edges[first : last + 1])

    def padded(self, examples: Indices, *, prefix: tuple[int, ...], suffix: tuple[int, ...]) -> Padded:
        """Row indices -> tokens (b s) between the special tokens `prefix` and `suffix`, padded on the right."""
        starts = np.asarray(self.edges[examples])
        lengths = np.asarray(self.edges[examples + 1]) - starts
        columns = np.arange(int(lengths.max(initial=0)))
        inside = columns < lengths[:, None]
        positions = (starts[:, None] + columns)[inside]
        tokens = np.full((len(examples), len(columns) + len(prefix) + len(suffix)), SpecialTokens.pad, dtype=np.int64)
        tokens[:, : len(prefix)] = prefix
        tokens[:, len(prefix) : len(prefix) + len(columns)][inside] = self.tokens[positions]
        ends = lengths + len(prefix)
        for offset, token in enumerate(suffix):
            tokens[np.arange(len(examples)), ends + offset] = token
        return Padded(torch.from_numpy(tokens), torch.from_numpy(ends + len(suffix)))


class PairCorpus(NamedTuple):
    """Aligned source and target rows; `blank` pairs with an empty side were removed."""

    source: Ragged
    target: Ragged
    blank: int = 0

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return self.source.num_rows

    def lengths(self, first: int = 0, last: int | None = None) -> tuple[Lengths, Lengths]:
        """Return the batch lengths of each pair: source with EOS, target with one special token.

        The target has one decoder step per label.
        """
        return self.source.lengths(first, last) + 1, self.target.lengths(first, last) + 1

    def num_longer_than(self, limit: int) -> int:
        """Return the number of pairs with a batch length over `limit`, counted in chunks to bound memory."""
        parts = (
            self.lengths(first, min(first + LENGTH_CHUNK_PAIRS, self.num_pairs))
            for first in range(0, self.num_pairs, LENGTH_CHUNK_PAIRS)
        )
        return sum(int((np.maximum(source, target) > limit).sum()) for source, target in parts)

    def batch(self, examples: Indices, special_tokens: SpecialTokens) -> PairBatch:
        """Example indices -> the padded batch."""
        source = self.source.padded(examples, prefix=(), suffix=(special_tokens.eos,))
        return PairBatch(
            source, self.target.padded(examples, prefix=(special_tokens.bos,), suffix=(special_tokens.eos,))
        )


class EncodedChunk(NamedTuple):
    """A chunk of encoded pairs: token rows of both sides, and the number of removed pairs."""

    source: Ragged
    target: Ragged
    blank: int


@dataclass(frozen=True)
class PairTexts:
    """Re-iterable texts of one or both sides of sentence pairs; a sample if the corpus is large."""

    pairs: Pairs
    sides: tuple[int, ...]

    def __iter__(self) -> Iterator[str]:
        every = 1 + self.pairs.bytes // VOCAB_SAMPLE_BYTES
        return (pair[side] for pair in islice(self.pairs, 0, None, every) for side in self.sides)


def has_both_sides(pair: Pair) -> bool:
    """Return True if source and target have text; other pairs are left out."""
    return bool(pair[0].strip() and pair[1].strip())


def encode_chunks(pairs: Iterable[Pair], source: Tokenizer, target: Tokenizer) -> Iterator[EncodedChunk]:
    """Sentence pairs -> their tokens, in chunks to bound memory."""
    stream = iter(pairs)
    while chunk := list(islice(stream, CHUNK_PAIRS)):
        full = [pair for pair in chunk if has_both_sides(pair)]
        source_rows, target_rows = (
            tokenizer.encode([pair[i] for pair in full]) for i, tokenizer in enumerate((source, target))
        )
        yield EncodedChunk(to_ragged(source_rows), to_ragged(target_rows), blank=len(chunk) - len(full))


def encode_in_memory(pairs: Iterable[Pair], source: Tokenizer, target: Tokenizer) -> PairCorpus:
    """Sentence pairs -> the corpus in memory."""
    chunks = list(encode_chunks(pairs, source, target))
    source_rows, target_rows = (
        _concatenate(parts) for parts in ([chunk.source for chunk in chunks], [chunk.target for chunk in chunks])
    )
    return PairCorpus(source_rows, target_rows, blank=sum(chunk.blank for chunk in chunks))


def to_ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    """Rows of token ids -> the same rows, concatenated."""
    edges = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    flat = (token for row in rows for token in row)
    return Ragged(np.fromiter(flat, dtype=np.int32, count=int(edges[-1])), edges)


def _concatenate(parts: Sequence[Ragged]) -> Ragged:
    lengths = np.concatenate([np.zeros(1, dtype=np.int64), *(part.lengths() for part in parts)])
    return Ragged(np.concatenate([np.zeros(0, dtype=np.int32), *(part.tokens for part in parts)]), np.cumsum(lengths))
