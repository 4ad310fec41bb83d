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
from regard.data.text.masking import BoolArray, Row, WordBoundaries
from regard.data.text.token_stream import TokenStream

SALTS_PER_POSITION = 2**20  # ways to draw the gaps of one place
SentencePairs = Literal["none", "next", "order"]


class MaskedRowSpec(NamedTuple):
    """How rows are made."""

    length: int  # tokens of a row, marks included
    mask_prob: float  # of the tokens that are gaps
    vocab_size: int  # of the vocabulary
    special_tokens: SpecialTokens
    whole_words: bool
    sentence_pairs: SentencePairs


class TextRow(NamedTuple):
    """One row before its gaps are chosen."""

    tokens: Row
    second_start: int  # where its second text begins; the end of the row without pairs
    is_next: bool


class MaskedRow(NamedTuple):
    """A row, how it is seen, which tokens are gaps, and in which turn each is foretold."""

    text_row: TextRow
    input_ids: Row
    is_masked: BoolArray
    prediction_order: Row


class MaskedRows:
    """The rows of a split."""

    def __init__(self, text: TokenStream, spec: MaskedRowSpec, words: WordBoundaries) -> None:
        self.text, self.spec, self.words = text, spec, words
        self.text_length = spec.length - (2 if spec.sentence_pairs == "none" else 3)  # tokens of text in a row

    def epoch_batches(self, batch_size: int, *, seed: int, epoch: int) -> list[Indices]:
        """An epoch's batches of example numbers."""
        batches = token_stream.epoch_batches(
            len(self.text.tokens), context=self.text_length, batch_size=batch_size, seed=seed, epoch=epoch
        )
        random = np.random.default_rng(combine_seeds(seed, epoch, 1))
        return [places * SALTS_PER_POSITION + random.integers(1, SALTS_PER_POSITION, len(places)) for places in batches]

    def sequential_batches(self, batch_size: int, *, max_tokens: int) -> list[Indices]:
        """Rows side by side over the first `most` tokens, with the same gaps every time."""
        last = min(len(self.text.tokens), max(max_tokens, self.text_length)) - self.text_length
        places = np.arange(0, last + 1, self.text_length) * SALTS_PER_POSITION
        return [places[i : i + batch_size] for i in range(0, len(places), batch_size)]

    def collate(self, examples: Indices) -> tuple[MaskedBatch, Tensor]:
        """Example numbers -> texts with gaps, and whether the second text of each follows the first."""
        shape = self.spec
        rows = [self._row(int(number)) for number in examples]
        columns = np.arange(shape.length)
        gaps = MaskedBatch(
            input_tokens=_tensor([row.input_ids for row in rows]),
            tokens=_tensor([row.text_row.tokens for row in rows]),
            lengths=torch.full((len(rows),), shape.length),
            prediction_mask=_tensor([row.is_masked for row in rows]),
            prediction_order=_tensor([row.prediction_order for row in rows]),
            segments=_tensor([(columns >= row.text_row.second_start).astype(np.int64) for row in rows]),
        )
        follows = [] if shape.sentence_pairs == "none" else [int(row.text_row.is_next) for row in rows]
        return gaps, torch.tensor(follows, dtype=torch.long)

    def _row(self, number: int) -> MaskedRow:
        place, salt = divmod(number, SALTS_PER_POSITION)
        shape, random = self.spec, np.random.default_rng([place, salt])
        laid = self._lay(place, random)
        units = self.words.word_ids(laid.tokens) if shape.whole_words else np.arange(shape.length)
        units = np.where(laid.tokens < shape.special_tokens.first_regular_id, -1, units)
        chosen = masking.sample_mask(units, shape.mask_prob, random)
        seen = masking.apply_mask(laid.tokens, chosen, shape.special_tokens, shape.vocab_size, random)
        return MaskedRow(laid, seen, chosen, masking.random_order(chosen, random))

    def _lay(self, place: int, random: np.random.Generator) -> TextRow:
        start, end = [self.spec.special_tokens.bos], [self.spec.special_tokens.eos]
        text = self._text(place, self.text_length)
        if self.spec.sentence_pairs == "none":
            return TextRow(np.concatenate([start, text, end]), self.spec.length, True)
        edge = int(random.integers(self.text_length // 3, self.text_length - self.text_length // 3))
        first, second, follows = text[:edge], text[edge:], bool(random.integers(2))
        if not follows and self.spec.sentence_pairs == "order":
            first, second = second, first
        elif not follows:
            elsewhere = int(random.integers(len(self.text.tokens) - len(second) + 1))
            second = self._text(elsewhere, len(second))
        return TextRow(np.concatenate([start, first, end, second, end]), len(first) + 2, follows)

    def _text(self, place: int, length: int) -> Row:
        return self.text.tokens[place : place + length].astype(np.int64)


def _tensor(rows: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.stack(rows))
