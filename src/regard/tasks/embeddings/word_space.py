"""Words as vectors: nearest words, sums of words, and agreement with lists of alike words and of analogies."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError, did_you_mean
from regard.data.builtin import word_lists

Array = NDArray[np.float32]
FEWEST = 5  # pairs or questions that must be covered before a score says anything
FREQUENT = 30_000  # words among which analogies are looked for, most frequent first
TERM = re.compile(r"([+-]?)\s*([^\s+-]+)")


class Term(NamedTuple):
    """A word of a sum, and whether it is added (1) or taken away (-1)."""

    word: str
    sign: int


class Near(NamedTuple):
    """A word and the cosine of its angle to what was asked for."""

    word: str
    cosine: float


class Space:
    """Words (n) and their vectors (n d), most frequent first."""

    def __init__(self, words: list[str], vectors: Array) -> None:
        self.words = words
        self.unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        self.places = {word: place for place, word in enumerate(words)}

    def sum(self, terms: list[Term]) -> Array:
        """The sum (d) of the words' vectors of length 1."""
        rows = self.unit[[self.places[term.word] for term in terms]]
        return np.asarray(np.array([term.sign for term in terms], dtype=np.float32) @ rows)

    def nearest(self, terms: list[Term], count: int) -> list[Near]:
        """The words nearest to a sum of words, which are not among them."""
        vector = self.sum(terms)
        cosines = self.unit @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        cosines[[self.places[term.word] for term in terms]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(count, len(self.words) - len({t.word for t in terms}))]
        return [Near(self.words[place], float(cosines[place])) for place in order]

    def read(self, text: str, *, lowercase: bool) -> list[Term]:
        """`king`, or `king - man + woman` -> its terms; a word that has no vector is an error."""
        spelt = text.lower() if lowercase else text
        terms = [Term(word, -1 if sign == "-" else 1) for sign, word in TERM.findall(spelt)]
        if not terms:
            raise DataError("give a word, or a sum of words: king - man + woman")
        for term in terms:
            if term.word not in self.places:
                close = did_you_mean(term.word, self.words[:FREQUENT])
                hint = close if close.startswith("did") else "it was too rare in the text, or never there"
                raise DataError(f"no vector for {term.word!r} among {len(self.words):,} words; {hint}")
        return terms


def similarity(space: Space) -> dict[str, float]:
    """The rank correlation of cosines with the built-in list of alike words, and the share of it that is covered."""
    pairs = word_lists.similarities()
    covered = [(a, b, likeness) for a, b, likeness in pairs if a in space.places and b in space.places]
    scores = {"similarity_covered": len(covered) / len(pairs)}
    if len(covered) < FEWEST:
        return scores
    cosines = [float(space.unit[space.places[a]] @ space.unit[space.places[b]]) for a, b, _ in covered]
    agreement = np.corrcoef(_ranks(cosines), _ranks([likeness for _, _, likeness in covered]))[0, 1]
    return {"similarity": float(agreement)} | scores


def analogy(space: Space) -> dict[str, float]:
    """The share of covered analogies a : b = c : d whose d is the word nearest to b - a + c, and what is covered."""
    groups = word_lists.analogies()
    covered = [q for questions in groups.values() for q in questions if all(word in space.places for word in q)]
    scores = {"analogy_covered": len(covered) / sum(map(len, groups.values()))}
    if len(covered) < FEWEST:
        return scores
    unit = space.unit[:FREQUENT]
    right = 0
    for low in range(0, len(covered), 256):
        part = covered[low : low + 256]
        a, b, c, d = (np.array([space.places[q[i]] for q in part]) for i in range(4))
        cosines = (space.unit[b] - space.unit[a] + space.unit[c]) @ unit.T  # (q n)
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
