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
from regard.data.text.tokenizer import MARKS, Tokenizer

MASK = "<mask> "  # its name in the vocabulary; no text can spell it
GAP = re.compile(r"\[MASK\]|<mask>|\[mask\]")  # what a user writes
COVERED, REPLACED = 0.8, 0.1  # the rest is left as it is
Row = NDArray[np.int64]
Flags = NDArray[np.bool_]


def with_mask(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a mask mark as its last token; no other number moves. One that has it stays as it is."""
    if tokenizer.engine.token_to_id(MASK) is not None:
        return tokenizer
    state = json.loads(tokenizer.engine.to_str())
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary[MASK] = tokenizer.size
    else:  # unigram: pieces with scores
        vocabulary.append([MASK, min(score for _, score in vocabulary) - 10])
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(state)))


def marks_of(tokenizer: Tokenizer) -> SpecialTokens:
    """The marks of a tokenizer, the mask mark among them if it has one."""
    return SpecialTokens(mask=tokenizer.engine.token_to_id(MASK))


class Words:
    """Which tokens go on with the word of the token before them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [""] * len(MARKS) + [_raw(token, tokenizer) for token in range(len(MARKS), tokenizer.size)]
        self._begin = np.array([text[:1].isalnum() for text in texts])  # a letter first: no space before it
        self._end = np.array([text[-1:].isalnum() for text in texts])

    def numbers(self, row: Row) -> Row:
        """Tokens (t) -> the number of the word that each belongs to (t)."""
        goes_on = self._begin[row[1:]] & self._end[row[:-1]]
        return np.concatenate([[0], np.cumsum(~goes_on)])[: len(row)]


def _raw(token: int, tokenizer: Tokenizer) -> str:
    if tokenizer.engine.id_to_token(token) == MASK:
        return ""
    return tokenizer.decode([[SpecialTokens.unknown, token]])[0][1:]  # behind another token no space is stripped


def choose(units: Row, share: float, random: np.random.Generator) -> Flags:
    """Units (t), each the number of what is chosen as one (a word, or the token's own place), -1: never -> which tokens
    are gaps (t). Units are taken in random order until the share is reached; at least one is, where there is any."""
    there = units >= 0
    budget = max(1, round(share * int(there.sum())))
    numbers, sizes = np.unique(units[there], return_counts=True)
    order = random.permutation(len(numbers))
    before = np.cumsum(sizes[order]) - sizes[order]
    return np.isin(units, numbers[order[before < budget]])


def cover(row: Row, chosen: Flags, marks: SpecialTokens, size: int, random: np.random.Generator) -> Row:
    """A row with most of its gaps covered by mask marks, some by other tokens of the vocabulary of `size`."""
    assert marks.mask is not None
    draws = random.random(len(row))
    others = random.integers(marks.first, size - 1, len(row))  # the mask mark is the last token
    seen = np.where(chosen & (draws < COVERED), marks.mask, row)
    return np.where(chosen & (draws >= COVERED) & (draws < COVERED + REPLACED), others, seen)


def turns(chosen: Flags, random: np.random.Generator) -> Row:
    """Gaps -> a random order: 1, 2, … for the gaps, 0 for all others."""
    order = np.zeros(len(chosen), dtype=np.int64)
    order[chosen] = random.permutation(int(chosen.sum())) + 1
    return order


class Gapped(NamedTuple):
    """A text in which a user left gaps."""

    text: str
    tokens: tuple[int, ...]  # mask marks at the gaps
    gaps: tuple[int, ...]  # places of the gaps among the tokens


def read(text: str, tokenizer: Tokenizer) -> Gapped:
    """A text with [MASK] in it -> its tokens. A gap takes the space before it along, as words do."""
    marks = marks_of(tokenizer)
    first, *others = GAP.split(text)
    if not others:
        raise DataError(f"no [MASK] in {_short(text)}; write [MASK] where a word is to be found")
    assert marks.mask is not None
    spaced = any(len(_raw(token, tokenizer)) > 1 for token in range(marks.first, tokenizer.size))
    tokens = list(tokenizer.encode([_without_last_space(first, spaced)])[0]) if first.strip() else []
    gaps = []
    for part in others:
        gaps.append(len(tokens))
        tokens.append(marks.mask)
        part = _without_last_space(part, spaced and part is not others[-1])  # noqa: PLW2901  # cut where a gap follows
        # A line end before it is a token by itself, so that what follows is read as behind another token.
        tokens += [piece.token for piece in tokenizer.pieces(f"\n{part}") if piece.start >= 1] if part else []
    return Gapped(text, tuple(tokens), tuple(gaps))


def _without_last_space(text: str, spaced: bool) -> str:
    return text.removesuffix(" ") if spaced else text


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
