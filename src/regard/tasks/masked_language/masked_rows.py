"""Training examples of a masked language model: rows of text with masked positions, or pairs of texts.

A row is `BOS text EOS`, or with pairs `BOS first EOS second EOS`. An example id combines the position of the text and a
salt that seeds the choice of the masked positions, so that a batch depends on its example ids only.
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

SALTS_PER_POSITION = 2**20  # different maskings of the text at one position
SentencePairs = Literal["none", "next", "order"]


class MaskedRowSpec(NamedTuple):
    """Settings of the rows."""

    length: int  # tokens of a row, special tokens included
    mask_prob: float  # share of tokens that are predicted
    vocab_size: int
    special_tokens: SpecialTokens
    whole_words: bool
    sentence_pairs: SentencePairs


class TextRow(NamedTuple):
    """A row before masking."""

    tokens: Row
    second_start: int  # index of the first token of the second text; the row's length without pairs
    is_next: bool


class MaskedRow(NamedTuple):
    """A row, the model's input, the masked positions, and the order in which they are predicted."""

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
        """Return an epoch's batches of example ids."""
        batches = token_stream.epoch_batches(
            len(self.text.tokens), context=self.text_length, batch_size=batch_size, seed=seed, epoch=epoch
        )
        random = np.random.default_rng(combine_seeds(seed, epoch, 1))
        return [
            positions * SALTS_PER_POSITION + random.integers(1, SALTS_PER_POSITION, len(positions))
            for positions in batches
        ]

    def sequential_batches(self, batch_size: int, *, max_tokens: int) -> list[Indices]:
        """Return batches of adjacent rows over the first `max_tokens` tokens, always with the same masks."""
        last = min(len(self.text.tokens), max(max_tokens, self.text_length)) - self.text_length
        examples = np.arange(0, last + 1, self.text_length) * SALTS_PER_POSITION
        return [examples[i : i + batch_size] for i in range(0, len(examples), batch_size)]

    def collate(self, examples: Indices) -> tuple[MaskedBatch, Tensor]:
        """Example ids -> masked texts, and for pairs whether the second text follows the first."""
        rows = [self._row(int(example)) for example in examples]
        columns = np.arange(self.spec.length)
        batch = MaskedBatch(
            input_tokens=_tensor([row.input_ids for row in rows]),
            tokens=_tensor([row.text_row.tokens for row in rows]),
            lengths=torch.full((len(rows),), self.spec.length),
            prediction_mask=_tensor([row.is_masked for row in rows]),
            prediction_order=_tensor([row.prediction_order for row in rows]),
            segments=_tensor([(columns >= row.text_row.second_start).astype(np.int64) for row in rows]),
        )
        is_next = [] if self.spec.sentence_pairs == "none" else [int(row.text_row.is_next) for row in rows]
        return batch, torch.tensor(is_next, dtype=torch.long)

    def _row(self, example: int) -> MaskedRow:
        position, salt = divmod(example, SALTS_PER_POSITION)
        spec, random = self.spec, np.random.default_rng([position, salt])
        row = self._text_row(position, random)
        units = self.words.word_ids(row.tokens) if spec.whole_words else np.arange(spec.length)
        units = np.where(row.tokens < spec.special_tokens.first_regular_id, -1, units)
        is_masked = masking.sample_mask(units, spec.mask_prob, random)
        input_ids = masking.apply_mask(row.tokens, is_masked, spec.special_tokens, spec.vocab_size, random)
        return MaskedRow(row, input_ids, is_masked, masking.random_order(is_masked, random))

    def _text_row(self, position: int, random: np.random.Generator) -> TextRow:
        bos, eos = [self.spec.special_tokens.bos], [self.spec.special_tokens.eos]
        text = self._text(position, self.text_length)
        if self.spec.sentence_pairs == "none":
            return TextRow(np.concatenate([bos, text, eos]), self.spec.length, True)
        edge = int(random.integers(self.text_length // 3, self.text_length - self.text_length // 3))
        first, second, is_next = text[:edge], text[edge:], bool(random.integers(2))
        if not is_next and self.spec.sentence_pairs == "order":
            first, second = second, first
        elif not is_next:
            random_position = int(random.integers(len(self.text.tokens) - len(second) + 1))
            second = self._text(random_position, len(second))
        return TextRow(np.concatenate([bos, first, eos, second, eos]), len(first) + 2, is_next)

    def _text(self, position: int, length: int) -> Row:
        return self.text.tokens[position : position + length].astype(np.int64)


def _tensor(rows: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.stack(rows))
