"""Scores of word vectors on the built-in lists of similar words and of analogies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.core.tied_ranks import middle_ranks
from regard.data.builtin import word_lists
from regard.tasks.embeddings.word_space import WordSpace

MIN_COVERED = 5  # pairs or questions with known words that a score needs
MAX_ANALOGY_WORDS = 30_000  # candidates for the answer of an analogy, most frequent first


def similarity(space: WordSpace, pairs: Sequence[tuple[str, str, float]] = ()) -> dict[str, float]:
    """Return the rank correlation of cosines with a list of rated pairs, by default the built-in one, and the share of
    known pairs."""
    pairs = pairs or word_lists.similarities()
    covered = [(a, b, rating) for a, b, rating in pairs if a in space.index and b in space.index]
    scores = {"similarity_covered": len(covered) / len(pairs)}
    if len(covered) < MIN_COVERED:
        return scores
    cosines = [float(space.unit_vectors[space.index[a]] @ space.unit_vectors[space.index[b]]) for a, b, _ in covered]
    agreement = np.corrcoef(middle_ranks(cosines), middle_ranks([rating for _, _, rating in covered]))[0, 1]
    return {"similarity": float(agreement)} | scores


def analogy(space: WordSpace, questions: Sequence[Sequence[str]] = ()) -> dict[str, float]:
    """Return the share of analogies a : b = c : d whose d is nearest to b - a + c, and the share of known analogies."""
    questions = questions or [question for group in word_lists.analogies().values() for question in group]
    covered = [question for question in questions if all(word in space.index for word in question)]
    scores = {"analogy_covered": len(covered) / len(questions)}
    if len(covered) < MIN_COVERED:
        return scores
    unit = space.unit_vectors[:MAX_ANALOGY_WORDS]
    num_correct = 0
    for low in range(0, len(covered), 256):
        batch = covered[low : low + 256]
        a, b, c, d = (np.array([space.index[question[i]] for question in batch]) for i in range(4))
        cosines = (space.unit_vectors[b] - space.unit_vectors[a] + space.unit_vectors[c]) @ unit.T  # (q n)
        rows = np.arange(len(batch))
        for query_words in (a, b, c):
            inside = query_words < len(unit)
            cosines[rows[inside], query_words[inside]] = -np.inf
        num_correct += int((cosines.argmax(axis=1) == d).sum())
    return {"analogy": num_correct / len(covered)} | scores
