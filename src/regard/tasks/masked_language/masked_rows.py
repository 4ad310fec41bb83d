"""Rows of text with gaps for masked language models: what an example number stands for, and pairs of texts.

A row is `start text end`, or with pairs `start first end second end`. An example number is the place of its text and a
salt that its gaps are drawn from, so that a batch depends on its numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Indices
from regard.core.protocols.masked_lm import MaskedBatch
from regard.core.seed import combine_seeds
from regard.data.text import masking, token_stream
from regard.data.text.masking import Flags, Row, Words
from regard.data.text.token_stream import Stream

SALTS = 2**20  # ways to draw the gaps of one place
Pairs = Literal["none", "next", "order"]


class Shape(NamedTuple):
    """How rows are made."""

    length: int  # tokens of a row, marks included
    share: float  # of the tokens that are gaps
    size: int  # of the vocabulary
    marks: SpecialTokens
    whole_words: bool
    pairs: Pairs


class Laid(NamedTuple):
    """One row before its gaps are chosen."""

    tokens: Row
    second: int  # where its second text begins; the end of the row without pairs
    follows: bool


class GappedRow(NamedTuple):
    """A row, how it is seen, which tokens are gaps, and in which turn each is foretold."""

    laid: Laid
    seen: Row
    chosen: Flags
    turns: Row


class Rows:
    """The rows of a split."""

    def __init__(self, text: Stream, shape: Shape, words: Words) -> None:
        self.text, self.shape, self.words = text, shape, words
        self.body = shape.length - (2 if shape.pairs == "none" else 3)  # tokens of text in a row

    def plan(self, rows: int, *, seed: int, epoch: int) -> list[Indices]:
        """An epoch's batches of example numbers."""
        batches = token_stream.plan(len(self.text.tokens), context=self.body, rows=rows, seed=seed, epoch=epoch)
        random = np.random.default_rng(combine_seeds(seed, epoch, 1))
        return [places * SALTS + random.integers(1, SALTS, len(places)) for places in batches]

    def in_order(self, rows: int, *, most: int) -> list[Indices]:
        """Rows side by side over the first `most` tokens, with the same gaps every time."""
        last = min(len(self.text.tokens), max(most, self.body)) - self.body
        places = np.arange(0, last + 1, self.body) * SALTS
        return [places[i : i + rows] for i in range(0, len(places), rows)]

    def batch(self, examples: Indices) -> tuple[MaskedBatch, Tensor]:
        """Example numbers -> texts with gaps, and whether the second text of each follows the first."""
        shape = self.shape
        rows = [self._row(int(number)) for number in examples]
        columns = np.arange(shape.length)
        gaps = MaskedBatch(
            seen=_tensor([row.seen for row in rows]),
            tokens=_tensor([row.laid.tokens for row in rows]),
            lengths=torch.full((len(rows),), shape.length),
            chosen=_tensor([row.chosen for row in rows]),
            turns=_tensor([row.turns for row in rows]),
            segments=_tensor([(columns >= row.laid.second).astype(np.int64) for row in rows]),
        )
        follows = [] if shape.pairs == "none" else [int(row.laid.follows) for row in rows]
        return gaps, torch.tensor(follows, dtype=torch.long)

    def _row(self, number: int) -> GappedRow:
        place, salt = divmod(number, SALTS)
        shape, random = self.shape, np.random.default_rng([place, salt])
        laid = self._lay(place, random)
        units = self.words.numbers(laid.tokens) if shape.whole_words else np.arange(shape.length)
        units = np.where(laid.tokens < shape.marks.first, -1, units)
        chosen = masking.choose(units, shape.share, random)
        seen = masking.cover(laid.tokens, chosen, shape.marks, shape.size, random)
        return GappedRow(laid, seen, chosen, masking.turns(chosen, random))

    def _lay(self, place: int, random: np.random.Generator) -> Laid:
        start, end = [self.shape.marks.start], [self.shape.marks.end]
        text = self._text(place, self.body)
        if self.shape.pairs == "none":
            return Laid(np.concatenate([start, text, end]), self.shape.length, True)
        edge = int(random.integers(self.body // 3, self.body - self.body // 3))
        first, second, follows = text[:edge], text[edge:], bool(random.integers(2))
        if not follows and self.shape.pairs == "order":
            first, second = second, first
        elif not follows:
            elsewhere = int(random.integers(len(self.text.tokens) - len(second) + 1))
            second = self._text(elsewhere, len(second))
        return Laid(np.concatenate([start, first, end, second, end]), len(first) + 2, follows)

    def _text(self, place: int, length: int) -> Row:
        return self.text.tokens[place : place + length].astype(np.int64)


def _tensor(rows: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.stack(rows))
