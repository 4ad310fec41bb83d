"""Tokens for display: readable names, raw texts, and a sample of a vocabulary for the embedding plot."""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Vocabulary
from regard.data.text.tokenizer import SPECIAL_TOKENS, Tokenizer

MAX_VOCABULARY_POINTS = 120  # tokens of a vocabulary sample
VISIBLE_WHITESPACE = {"\n": "↵", "\t": "⇥", " ": "␣"}
MIN_WORD_START_CHARACTERS = 3  # of a token that starts a word, its leading space included


def token_name(token: int, tokenizer: Tokenizer) -> str:
    """Return the text of a token for display; whitespace is replaced by a visible character."""
    text = tokenizer.token_text(token)
    return VISIBLE_WHITESPACE.get(text, text)


def raw_text(token: int, tokenizer: Tokenizer) -> str:
    """Return the characters of a token with the space before it; "" for a special token."""
    if token < len(SPECIAL_TOKENS):
        return ""
    pair = tokenizer.decode([[SpecialTokens.unk, token]])[0]  # after another token nothing is stripped
    return pair[1:]


def vocabulary_sample(
    tokenizer: Tokenizer, first_tokens: Sequence[int], *, name: str = "text", word_starts: bool = False
) -> Vocabulary:
    """Return up to 120 tokens of a vocabulary: `first_tokens`, then others at even steps from frequent to rare.

    With `word_starts` the others are tokens that start a word, if the vocabulary has any.
    """
    candidates = list(range(len(SPECIAL_TOKENS), tokenizer.vocab_size))
    step = max(1, tokenizer.vocab_size // MAX_VOCABULARY_POINTS)
    if word_starts:
        candidates = [token for token in candidates if _starts_word(token, tokenizer)] or candidates
        step = max(1, len(candidates) // MAX_VOCABULARY_POINTS)
    regular = (token for token in first_tokens if token >= len(SPECIAL_TOKENS))
    tokens = tuple(dict.fromkeys([*regular, *candidates[::step]]))[:MAX_VOCABULARY_POINTS]
    return Vocabulary(name, tokenizer.vocab_size, tokens, tuple(token_name(token, tokenizer) for token in tokens))


def _starts_word(token: int, tokenizer: Tokenizer) -> bool:
    text = str(tokenizer.engine.id_to_token(token))
    return text.startswith(" ") and len(text) >= MIN_WORD_START_CHARACTERS
