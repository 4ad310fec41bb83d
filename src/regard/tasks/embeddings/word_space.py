"""Word vectors: nearest words, sums of words, and scores on lists of similar words and of analogies."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.core.errors import DataError, did_you_mean
from regard.data.builtin import word_lists

Array = NDArray[np.float32]
MIN_COVERED = 5  # pairs or questions with known words that a score needs
MAX_ANALOGY_WORDS = 30_000  # candidates for the answer of an analogy, most frequent first
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
                suggestion = did_you_mean(term.word, self.words[:MAX_ANALOGY_WORDS])
                hint = suggestion if suggestion.startswith("did") else "it was too rare in the text, or not in it"
                raise DataError(f"no vector for {term.word!r} among {len(self.words):,} words; {hint}")
        return terms


def similarity(space: WordSpace) -> dict[str, float]:
    """Return the rank correlation of cosines with the built-in list of similar words, and the share of known pairs."""
    pairs = word_lists.similarities()
    covered = [(a, b, rating) for a, b, rating in pairs if a in space.index and b in space.index]
    scores = {"similarity_covered": len(covered) / len(pairs)}
    if len(covered) < MIN_COVERED:
        return scores
    cosines = [float(space.unit_vectors[space.index[a]] @ space.unit_vectors[space.index[b]]) for a, b, _ in covered]
    agreement = np.corrcoef(_ranks(cosines), _ranks([rating for _, _, rating in covered]))[0, 1]
    return {"similarity": float(agreement)} | scores


def analogy(space: WordSpace) -> dict[str, float]:
    """Return the share of analogies a : b = c : d whose d is nearest to b - a + c, and the share of known analogies."""
    groups = word_lists.analogies()
    covered = [q for group in groups.values() for q in group if all(word in space.index for word in q)]
    scores = {"analogy_covered": len(covered) / sum(map(len, groups.values()))}
    if len(covered) < MIN_COVERED:
        return scores
    unit = space.unit_vectors[:MAX_ANALOGY_WORDS]
    num_correct = 0
    for low in range(0, len(covered), 256):
        questions = covered[low : low + 256]
        a, b, c, d = (np.array([space.index[q[i]] for q in questions]) for i in range(4))
        cosines = (space.unit_vectors[b] - space.unit_vectors[a] + space.unit_vectors[c]) @ unit.T  # (q n)
        rows = np.arange(len(questions))
        for query_words in (a, b, c):
            inside = query_words < len(unit)
            cosines[rows[inside], query_words[inside]] = -np.inf
        num_correct += int((cosines.argmax(axis=1) == d).sum())
    return {"analogy": num_correct / len(covered)} | scores


def _ranks(values: list[float]) -> NDArray[np.float64]:
    """Return the ranks of values; equal values share their mean rank."""
    _, group, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[group], dtype=np.float64)
