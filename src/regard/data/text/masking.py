"""Masked tokens: a mask token in the vocabulary, random masking for training, and texts with [MASK] from users.

Devlin et al. 2019, section 3.1: 15 % of the tokens are predicted; of these 80 % are replaced by [MASK], 10 % by a
random token, 10 % are unchanged.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from regard.data.text.tokenizer_engine import parse_engine

MASK_TOKEN = "<mask> "  # name in the vocabulary; the trailing space keeps texts from matching it
MASK_PATTERN = re.compile(r"\[MASK\]|<mask>|\[mask\]")  # spellings accepted in user input
MASKED_SHARE, RANDOM_SHARE = 0.8, 0.1  # the remaining tokens are unchanged
Row = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def with_mask(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer with a mask token as its last token, so that no other id changes."""
    if tokenizer.engine.token_to_id(MASK_TOKEN) is not None:
        return tokenizer
    state = json.loads(tokenizer.engine.to_str())
    vocabulary = state["model"]["vocab"]
    if isinstance(vocabulary, dict):
        vocabulary[MASK_TOKEN] = tokenizer.vocab_size
    else:  # unigram: pieces with scores
        vocabulary.append([MASK_TOKEN, min(score for _, score in vocabulary) - 10])
    return Tokenizer(parse_engine(json.dumps(state)))


def special_tokens_of(tokenizer: Tokenizer) -> SpecialTokens:
    """Return the special tokens of a tokenizer, including the mask token if there is one."""
    return SpecialTokens(mask=tokenizer.engine.token_to_id(MASK_TOKEN))


class WordBoundaries:
    """Detects the tokens that continue the word of the previous token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = [""] * len(SPECIAL_TOKENS) + [
            _raw(token, tokenizer) for token in range(len(SPECIAL_TOKENS), tokenizer.vocab_size)
        ]
        self._starts_alnum = np.array([text[:1].isalnum() for text in texts])  # no space before the token
        self._ends_alnum = np.array([text[-1:].isalnum() for text in texts])

    def word_ids(self, row: Row) -> Row:
        """Tokens (t) -> the index of the word of each token (t)."""
        continues = self._starts_alnum[row[1:]] & self._ends_alnum[row[:-1]]
        return np.concatenate([[0], np.cumsum(~continues)])[: len(row)]


def sample_mask(units: Row, share: float, random: np.random.Generator) -> BoolArray:
    """Unit ids (t) -> True for masked tokens (t).

    Tokens with the same unit id (a word, or the token's own position) are masked together; -1 is never masked. Units
    are drawn in random order until the share is reached; at least one is masked if there is any.
    """
    eligible = units >= 0
    budget = max(1, round(share * int(eligible.sum())))
    unit_ids, sizes = np.unique(units[eligible], return_counts=True)
    order = random.permutation(len(unit_ids))
    before = np.cumsum(sizes[order]) - sizes[order]
    return np.isin(units, unit_ids[order[before < budget]])


def apply_mask(row: Row, mask: BoolArray, special_tokens: SpecialTokens, size: int, random: np.random.Generator) -> Row:
    """Replace most masked tokens by the mask token, and some by random tokens of the vocabulary of `size`."""
    assert special_tokens.mask is not None
    draws = random.random(len(row))
    replacements = random.integers(special_tokens.first_regular_id, size - 1, len(row))  # the last token is the mask
    masked = np.where(mask & (draws < MASKED_SHARE), special_tokens.mask, row)
    return np.where(mask & (draws >= MASKED_SHARE) & (draws < MASKED_SHARE + RANDOM_SHARE), replacements, masked)


def random_order(mask: BoolArray, random: np.random.Generator) -> Row:
    """Masked positions -> a random prediction order: 1, 2, … for masked positions, 0 for the others."""
    order = np.zeros(len(mask), dtype=np.int64)
    order[mask] = random.permutation(int(mask.sum())) + 1
    return order


class MaskedText(NamedTuple):
    """A text with masked positions."""

    text: str
    tokens: tuple[int, ...]  # mask token at the masked positions
    mask_positions: tuple[int, ...]  # indices of the mask tokens


def check_has_mask(text: MaskedText) -> None:
    """Raise a DataError for a text without [MASK]."""
    if not text.mask_positions:
        raise DataError(f"no [MASK] in {_shorten(text.text)}; write [MASK] for each word to predict")


def parse_masked_text(text: str, tokenizer: Tokenizer) -> MaskedText:
    """Text with or without [MASK] -> its tokens. A mask token includes the space before it, like a word."""
    special_tokens = special_tokens_of(tokenizer)
    first, *rest = MASK_PATTERN.split(text)
    assert special_tokens.mask is not None
    regular_ids = range(special_tokens.first_regular_id, tokenizer.vocab_size)
    spaced = any(len(_raw(token, tokenizer)) > 1 for token in regular_ids)
    before_mask = _without_last_space(first, spaced and bool(rest))
    tokens = list(tokenizer.encode([before_mask])[0]) if first.strip() else []
    mask_positions = []
    for part in rest:
        mask_positions.append(len(tokens))
        tokens.append(special_tokens.mask)
        followed_by_mask = part is not rest[-1]
        stripped = _without_last_space(part, spaced and followed_by_mask)
        # The newline in front is a token by itself, so that the text is encoded as if it followed another token.
        tokens += (
            [piece.token for piece in tokenizer.encode_with_offsets(f"\n{stripped}") if piece.start >= 1]
            if stripped
            else []
        )
    return MaskedText(text, tuple(tokens), tuple(mask_positions))


def _raw(token: int, tokenizer: Tokenizer) -> str:
    if tokenizer.engine.id_to_token(token) == MASK_TOKEN:
        return ""
    return tokenizer.decode([[SpecialTokens.unk, token]])[0][1:]  # after another token no space is stripped


def _without_last_space(text: str, spaced: bool) -> str:
    return text.removesuffix(" ") if spaced else text


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
