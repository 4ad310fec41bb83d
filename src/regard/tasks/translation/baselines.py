"""Baselines of translation: a translation memory, and a translation word by word.

The memory returns the target of the most similar training source (TF-IDF of words and of character n-grams). Word by
word, each source word becomes the target word with which it occurs most often, relative to both (the Dice coefficient).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from regard.data.text.translation_memory import TranslationMemory

MAX_PAIRS = 50_000  # training pairs from which co-occurrences are counted
Pair = tuple[str, str]


def memory(train: Sequence[Pair], sources: Sequence[str]) -> list[str]:
    """Return the target of the nearest training source of each text."""
    return [targets[0] for targets in TranslationMemory(train).targets(sources)]


def word_by_word(train: Sequence[Pair], sources: Sequence[str]) -> list[str]:
    """Return the most associated target word of each source word, in the order of the source."""
    pairs = [(set(source.split()), set(target.split())) for source, target in train[:MAX_PAIRS]]
    source_counts = Counter(word for words, _ in pairs for word in words)
    target_counts = Counter(word for _, words in pairs for word in words)
    vocabulary = {word for source in sources for word in source.split()}
    joint: dict[str, Counter[str]] = {word: Counter() for word in vocabulary}
    for source_words, target_words in pairs:
        for word in source_words & vocabulary:
            joint[word].update(target_words)
    best = {
        word: max(counts, key=lambda target: 2 * counts[target] / (source_counts[word] + target_counts[target]))
        for word, counts in joint.items()
        if counts
    }
    return [" ".join(best.get(word, word) for word in source.split()) for source in sources]


BASELINES: dict[str, Any] = {"memory": memory, "word_by_word": word_by_word}
