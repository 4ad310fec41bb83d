"""Texts that are translated: as tokens that a model is given, and a few that are worth trying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from regard.core.errors import DataError
from regard.core.protocols import Padded
from regard.data import batching
from regard.data.text import Pair
from regard.data.tokens import Tokenizer, Vocabularies
from regard.tasks._quick import translation as quick

PROBES = 32  # sources that a run keeps, on which engines are compared


def encode(texts: Sequence[str], tokenizer: Tokenizer, *, end: int, longest: int) -> Padded:
    """Texts -> source rows `w1 … wn end`, padded; a text the model cannot hold is an error."""
    return batching.pad(quick.encode(texts, tokenizer, end=end, longest=longest))


def check_some_fit(pairs: Iterable[Pair], vocabularies: Vocabularies, *, longest: int) -> None:
    """Refuse validation data of which no pair is short enough, before anything is trained."""
    for pair in pairs:
        sides = zip(vocabularies, pair, strict=True)
        if all(text.strip() and len(vocabulary.encode([text])[0]) < longest for vocabulary, text in sides):
            return
    raise DataError(f"no pair of the validation data has fewer than {longest} tokens on each side; raise data.longest")


def examples(pairs: Iterable[Pair], tokenizer: Tokenizer, *, longest: int) -> list[str]:
    """Sources worth trying, those first that have so many words that a glance takes them in."""
    few = [source for source, _ in islice(pairs, 200) if source.strip()]
    fitting = [text for text, row in zip(few, tokenizer.encode(few), strict=True) if len(row) < longest]
    return sorted(fitting, key=lambda text: not 4 <= len(text.split()) <= 12)[:PROBES]
