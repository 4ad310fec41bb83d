"""Gaps in texts: the mask mark behind a vocabulary, which tokens are covered, and texts in which a user left gaps.

Devlin et al. 2019, section 3.1: 15 % of the tokens are to be foretold; of these 80 % are covered by the mask mark, 10 %
replaced by another token, 10 % left as they are.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import numpy as np
import tokenizers
from numpy.typing import NDArray

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer

MASK_TOKEN = "<mask> "  # its name in the vocabulary; no text can spell it
MASK_PATTERN = re.compile(r"\[MASK\]|<mask>|\[mask\]")  # what a user writes
MASKED_SHARE, RANDOM_SHARE = 0.8, 0.1  # the rest is left as it is
Row = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def with_mask(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a mask mark as its last token; no other number moves. One that has it stays as it is."""
    if tokenizer.engine.token_to_id(MASK_TOKEN) is not None:
        return tokenizer
    state = json.loads(tokenizer.engine.to_str())
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary[MASK_TOKEN] = tokenizer.vocab_size
    else:  # unigram: pieces with scores
        vocabulary.append([MASK_TOKEN, min(score for _, score in vocabulary) - 10])
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(state)))


def special_tokens_of(tokenizer: Tokenizer) -> SpecialTokens:
    """The marks of a tokenizer, the mask mark among them if it has one."""
    return SpecialTokens(mask=tokenizer.engine.token_to_id(MASK_TOKEN))


class WordBoundaries:
    """Which tokens go on with the word of the token before them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [""] * len(SPECIAL_TOKENS) + [
            _raw(token, tokenizer) for token in range(len(SPECIAL_TOKENS), tokenizer.vocab_size)
        ]
        self._begin = np.array([text[:1].isalnum() for text in texts])  # a letter first: no space before it
        self._end = np.array([text[-1:].isalnum() for text in texts])

    def word_ids(self, row: Row) -> Row:
        """Tokens (t) -> the number of the word that each belongs to (t)."""
        goes_on = self._begin[row[1:]] & self._end[row[:-1]]
        return np.concatenate([[0], np.cumsum(~goes_on)])[: len(row)]


def _raw(token: int, tokenizer: Tokenizer) -> str:
    if tokenizer.engine.id_to_token(token) == MASK_TOKEN:
        return ""
    return tokenizer.decode([[SpecialTokens.unk, token]])[0][1:]  # behind another token no space is stripped


def sample_mask(units: Row, share: float, random: np.random.Generator) -> BoolArray:
    """Units (t), each the number of what is chosen as one (a word, or the token's own place), -1: never -> which tokens
    are gaps (t). Units are taken in random order until the share is reached; at least one is, where there is any."""
    there = units >= 0
    budget = max(1, round(share * int(there.sum())))
    numbers, sizes = np.unique(units[there], return_counts=True)
    order = random.permutation(len(numbers))
    before = np.cumsum(sizes[order]) - sizes[order]
    return np.isin(units, numbers[order[before < budget]])


def apply_mask(row: Row, mask: BoolArray, special_tokens: SpecialTokens, size: int, random: np.random.Generator) -> Row:
    """A row with most of its gaps covered by mask marks, some by other tokens of the vocabulary of `size`."""
    assert special_tokens.mask is not None
    draws = random.random(len(row))
    others = random.integers(special_tokens.first_regular_id, size - 1, len(row))  # the mask mark is the last token
    seen = np.where(mask & (draws < MASKED_SHARE), special_tokens.mask, row)
    return np.where(mask & (draws >= MASKED_SHARE) & (draws < MASKED_SHARE + RANDOM_SHARE), others, seen)


def random_order(mask: BoolArray, random: np.random.Generator) -> Row:
    """Gaps -> a random order: 1, 2, … for the gaps, 0 for all others."""
    order = np.zeros(len(mask), dtype=np.int64)
    order[mask] = random.permutation(int(mask.sum())) + 1
    return order


class MaskedText(NamedTuple):
    """A text in which a user left gaps."""

    text: str
    tokens: tuple[int, ...]  # mask marks at the gaps
    mask_positions: tuple[int, ...]  # places of the gaps among the tokens


def parse_masked_text(text: str, tokenizer: Tokenizer) -> MaskedText:
    """A text with [MASK] in it -> its tokens. A gap takes the space before it along, as words do."""
    marks = special_tokens_of(tokenizer)
    first, *others = MASK_PATTERN.split(text)
    if not others:
        raise DataError(f"no [MASK] in {_short(text)}; write [MASK] where a word is to be found")
    assert marks.mask is not None
    spaced = any(len(_raw(token, tokenizer)) > 1 for token in range(marks.first_regular_id, tokenizer.vocab_size))
    tokens = list(tokenizer.encode([_without_last_space(first, spaced)])[0]) if first.strip() else []
    gaps = []
    for part in others:
        gaps.append(len(tokens))
        tokens.append(marks.mask)
        part = _without_last_space(part, spaced and part is not others[-1])  # noqa: PLW2901  # cut where a gap follows
        # A line end before it is a token by itself, so that what follows is read as behind another token.
        tokens += (
            [piece.token for piece in tokenizer.encode_with_offsets(f"\n{part}") if piece.start >= 1] if part else []
        )
    return MaskedText(text, tuple(tokens), tuple(gaps))


def _without_last_space(text: str, spaced: bool) -> str:
    return text.removesuffix(" ") if spaced else text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
