"""Token rows as flat arrays, in memory or mapped from files: one interface for ten pairs and for a hundred million."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.protocols import Indices, Marks
from regard.data.batching import Lengths, Padded, PairBatch

Tokens = NDArray[np.int32]


class Ragged(NamedTuple):
    """Rows of different length, end to end: row i is tokens[edges[i]:edges[i + 1]]."""

    tokens: Tokens
    edges: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.edges) - 1

    def row(self, index: int) -> Tokens:
        """One row, without marks."""
        return self.tokens[self.edges[index] : self.edges[index + 1]]

    def lengths(self, first: int = 0, last: int | None = None) -> Lengths:
        """The lengths of rows first … last - 1, without marks."""
        last = self.rows if last is None else last
        return np.diff(self.edges[first : last + 1])

    def padded(self, examples: Indices, *, before: tuple[int, ...], after: tuple[int, ...]) -> Padded:
        """Chosen rows -> tokens (b s) between the marks `before` and `after`, padded on the right."""
        starts = np.asarray(self.edges[examples])
        lengths = np.asarray(self.edges[examples + 1]) - starts
        columns = np.arange(int(lengths.max(initial=0)))
        inside = columns < lengths[:, None]
        places = np.where(inside, starts[:, None] + columns, 0)
        words = np.where(inside, self.tokens[places] if len(self.tokens) else 0, Marks.pad)
        tokens = np.full((len(examples), words.shape[1] + len(before) + len(after)), Marks.pad, dtype=np.int64)
        tokens[:, : len(before)] = before
        tokens[:, len(before) : len(before) + words.shape[1]] = words
        ends = lengths + len(before)
        for step, mark in enumerate(after):
            tokens[np.arange(len(examples)), ends + step] = mark
        return Padded(torch.from_numpy(tokens), torch.from_numpy(ends + len(after)))


class PairCorpus(NamedTuple):
    """Source and target rows, side by side."""

    source: Ragged
    target: Ragged

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return self.source.rows

    def lengths(self, first: int = 0, last: int | None = None) -> tuple[Lengths, Lengths]:
        """What each pair takes up in a batch: source with end mark, target with one mark (a decoder step per label)."""
        return self.source.lengths(first, last) + 1, self.target.lengths(first, last) + 1

    def batch(self, examples: Indices, marks: Marks) -> PairBatch:
        """Example numbers -> the padded batch."""
        source = self.source.padded(examples, before=(), after=(marks.end,))
        return PairBatch(source, self.target.padded(examples, before=(marks.start,), after=(marks.end,)))


def ragged(rows: Iterable[Sequence[int]]) -> Ragged:
    """Rows of token numbers -> the same in memory, end to end."""
    arrays = [np.asarray(row, dtype=np.int32) for row in rows]
    edges = np.cumsum([0, *(len(array) for array in arrays)], dtype=np.int64)
    return Ragged(np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int32), edges)
