"""Words as vectors: nearest words, sums of words, and agreement with lists of alike words and of analogies."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError, did_you_mean
from regard.data.builtin import word_lists

Array = NDArray[np.float32]
MIN_COVERED = 5  # pairs or questions that must be covered before a score says anything
MAX_ANALOGY_WORDS = 30_000  # words among which analogies are looked for, most frequent first
TERM_PATTERN = re.compile(r"([+-]?)\s*([^\s+-]+)")


class Term(NamedTuple):
    """A word of a sum, and whether it is added (1) or taken away (-1)."""

    word: str
    sign: int


class Neighbour(NamedTuple):
    """A word and the cosine of its angle to what was asked for."""

    word: str
    cosine: float


class WordSpace:
    """Words (n) and their vectors (n d), most frequent first."""

    def __init__(self, words: list[str], vectors: Array) -> None:
        self.words = words
        self.unit_vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        self.index = {word: place for place, word in enumerate(words)}

    def sum(self, terms: list[Term]) -> Array:
        """The sum (d) of the words' vectors of length 1."""
        rows = self.unit_vectors[[self.index[term.word] for term in terms]]
        return np.asarray(np.array([term.sign for term in terms], dtype=np.float32) @ rows)

    def nearest(self, terms: list[Term], count: int) -> list[Neighbour]:
        """The words nearest to a sum of words, which are not among them."""
        vector = self.sum(terms)
        cosines = self.unit_vectors @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        cosines[[self.index[term.word] for term in terms]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(count, len(self.words) - len({t.word for t in terms}))]
        return [Neighbour(self.words[place], float(cosines[place])) for place in order]

    def parse_terms(self, text: str, *, lowercase: bool) -> list[Term]:
        """`king`, or `king - man + woman` -> its terms; a word that has no vector is an error."""
        spelt = text.lower() if lowercase else text
        terms = [Term(word, -1 if sign == "-" else 1) for sign, word in TERM_PATTERN.findall(spelt)]
        if not terms:
            raise DataError("give a word, or a sum of words: king - man + woman")
        for term in terms:
            if term.word not in self.index:
                close = did_you_mean(term.word, self.words[:MAX_ANALOGY_WORDS])
                hint = close if close.startswith("did") else "it was too rare in the text, or never there"
                raise DataError(f"no vector for {term.word!r} among {len(self.words):,} words; {hint}")
        return terms


def similarity(space: WordSpace) -> dict[str, float]:
    """The rank correlation of cosines with the built-in list of alike words, and the share of it that is covered."""
    pairs = word_lists.similarities()
    covered = [(a, b, likeness) for a, b, likeness in pairs if a in space.index and b in space.index]
    scores = {"similarity_covered": len(covered) / len(pairs)}
    if len(covered) < MIN_COVERED:
        return scores
    cosines = [float(space.unit_vectors[space.index[a]] @ space.unit_vectors[space.index[b]]) for a, b, _ in covered]
    agreement = np.corrcoef(_ranks(cosines), _ranks([likeness for _, _, likeness in covered]))[0, 1]
    return {"similarity": float(agreement)} | scores


def analogy(space: WordSpace) -> dict[str, float]:
    """The share of covered analogies a : b = c : d whose d is the word nearest to b - a + c, and what is covered."""
    groups = word_lists.analogies()
    covered = [q for questions in groups.values() for q in questions if all(word in space.index for word in q)]
    scores = {"analogy_covered": len(covered) / sum(map(len, groups.values()))}
    if len(covered) < MIN_COVERED:
        return scores
    unit = space.unit_vectors[:MAX_ANALOGY_WORDS]
    right = 0
    for low in range(0, len(covered), 256):
        part = covered[low : low + 256]
        a, b, c, d = (np.array([space.index[q[i]] for q in part]) for i in range(4))
        cosines = (space.unit_vectors[b] - space.unit_vectors[a] + space.unit_vectors[c]) @ unit.T  # (q n)
        rows = np.arange(len(part))
        for asked in (a, b, c):
            inside = asked < len(unit)
            cosines[rows[inside], asked[inside]] = -np.inf
        right += int((cosines.argmax(axis=1) == d).sum())
    return {"analogy": right / len(covered)} | scores


def _ranks(values: list[float]) -> NDArray[np.float64]:
    """Equal values share the mean of their places."""
    _, group, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[group], dtype=np.float64)
