"""Words of an input that the training data did not contain, as far as its tokenizer tells."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from regard.core.data_specs import SpecialTokens
from regard.data.text.tokenizer import Tokenizer

WORD = re.compile(r"\w+|[^\w\s]")
MIN_SPELLED_CHARS = 3  # a shorter word may be spelled out although it is common
MAX_WORDS = 20  # words that are named


def find_unknown_words(text: str, tokenizer: Tokenizer, row: Sequence[int] | None = None) -> tuple[str, ...]:
    """Text -> its words with an unknown token, and words that a subword tokenizer spells out character by character.

    `row` is the encoded text, if it is available. A subword tokenizer merges the characters of every frequent word.
    """
    tokens = tokenizer.encode([text])[0] if row is None else row
    if not _may_have_unknown_words(tokens, tokenizer.spelling_tokens):
        return ()
    pieces = [piece for piece in tokenizer.encode_with_offsets(text) if piece.stop > piece.start]
    unknown: dict[str, None] = {}
    first = 0  # index of the first piece that ends inside or after the word
    for match in WORD.finditer(text):
        while first < len(pieces) and pieces[first].stop <= match.start():
            first += 1
        last = bisect_left(pieces, match.end(), lo=first, key=lambda piece: piece.start)
        inside = [piece.token for piece in pieces[first:last]]
        is_spelled = len(match[0]) >= MIN_SPELLED_CHARS and len(inside) >= len(match[0]) and match[0].isalpha()
        if SpecialTokens.unk in inside or (is_spelled and set(inside) <= tokenizer.spelling_tokens):
            unknown[match[0]] = None
            if len(unknown) == MAX_WORDS:
                break
    return tuple(unknown)


def find_unknown_words_of_sentences(
    text: str, tokenizer: Tokenizer, sentences: Iterable[tuple[Sequence[int], tuple[int, int]]]
) -> tuple[str, ...]:
    """Text and the tokens and span of each of its sentences -> the unknown words of all sentences."""
    words: dict[str, None] = {}
    for row, (start, stop) in sentences:
        if _may_have_unknown_words(row, tokenizer.spelling_tokens):
            words |= dict.fromkeys(find_unknown_words(text[start:stop], tokenizer, row))
            if len(words) >= MAX_WORDS:
                break
    return tuple(words)[:MAX_WORDS]


def _may_have_unknown_words(tokens: Sequence[int], spelling_tokens: frozenset[int]) -> bool:
    """Return True if a row has an unknown token, or several tokens of one character in a row."""
    if not spelling_tokens:
        return SpecialTokens.unk in tokens
    run = 0
    for token in tokens:
        if token == SpecialTokens.unk:
            return True
        run = run + 1 if token in spelling_tokens else 0
        if run >= MIN_SPELLED_CHARS:
            return True
    return False
