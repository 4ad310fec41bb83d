"""Word vectors: nearest words and sums of words."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.errors import DataError, did_you_mean

Array = NDArray[np.float32]
MAX_SUGGESTED_WORDS = 30_000  # most frequent words, searched for a similar spelling of an unknown word
TERM_PATTERN = re.compile(r"([+-]?)\s*([^\s+-]+)")


class EmbeddingModel(Protocol):
    """A model with one vector per word, trained with negative sampling."""

    vectors: nn.Embedding

    def loss(
        self, tokens: Tensor, window: Tensor, negative_samples: Tensor, *, negatives_per_pair: float
    ) -> tuple[Tensor, int]:
        """Rows of words (r t), their windows (r t) and noise words (r k) -> the summed loss and the number of pairs."""


class Term(NamedTuple):
    """A word of a sum, added (1) or subtracted (-1)."""

    word: str
    sign: int


class Neighbour(NamedTuple):
    """A word and its cosine similarity to the query."""

    word: str
    cosine: float


class WordSpace:
    """Words (n) and their vectors (n d), most frequent word first."""

    def __init__(self, words: list[str], vectors: Array) -> None:
        self.words = words
        self.unit_vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        self.index = {word: index for index, word in enumerate(words)}

    def sum(self, terms: list[Term]) -> Array:
        """Return the sum (d) of the unit vectors of the words."""
        rows = self.unit_vectors[[self.index[term.word] for term in terms]]
        return np.asarray(np.array([term.sign for term in terms], dtype=np.float32) @ rows)

    def nearest(self, terms: list[Term], count: int) -> list[Neighbour]:
        """Return the words nearest to a sum of words, without the words of the sum."""
        vector = self.sum(terms)
        cosines = self.unit_vectors @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        cosines[[self.index[term.word] for term in terms]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(count, len(self.words) - len({t.word for t in terms}))]
        return [Neighbour(self.words[index], float(cosines[index])) for index in order]

    def parse_terms(self, text: str, *, lowercase: bool) -> list[Term]:
        """`king`, or `king - man + woman` -> its terms; a word without a vector is an error."""
        terms_text = text.lower() if lowercase else text
        terms = [Term(word, -1 if sign == "-" else 1) for sign, word in TERM_PATTERN.findall(terms_text)]
        if not terms:
            raise DataError("the input is empty; give a word, or a sum of words: king - man + woman")
        for term in terms:
            if term.word not in self.index:
                suggestion = did_you_mean(term.word, self.words[:MAX_SUGGESTED_WORDS])
                hint = suggestion if suggestion.startswith("did") else "it was too rare in the text, or never there"
                raise DataError(f"no vector for {term.word!r} among {len(self.words):,} words; {hint}")
        return terms
