"""Translation memory: the training pairs whose sources are most similar to a text.

Bulté and Tezcan 2019 append the target of a similar training pair to the source ("neural fuzzy repair"): the model
attends to it and copies what fits. Similarity is the cosine of TF-IDF vectors of words and of character n-grams.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.core.errors import CheckpointError
from regard.core.extras import require
from regard.core.files import write_text

MEMORY_FILE = "memory.json"
MAX_PAIRS = 100_000  # of a larger training text a memory has every second, third … pair
BLOCK_ROWS = 256  # texts compared with all pairs at a time
WORDS = r"(?u)\w+|[^\w\s]"
Pair = tuple[str, str]


class Match(NamedTuple):
    """A pair of the memory, and the similarity of its source with a text, 0 … 1."""

    source: str
    target: str
    similarity: float


class TranslationMemory:
    """Sentence pairs, searched by their sources."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = list(pairs[:: -(-len(pairs) // MAX_PAIRS) or 1])
        self._occurrences = Counter(source for source, _ in self.pairs)

    def nearest(self, texts: Sequence[str], *, count: int = 1, exclude_same: bool = False) -> list[list[int]]:
        """Return the indices of the `count` most similar pairs of each text, most similar first.

        With `exclude_same` pairs whose source is the text itself are left out: in training every text is in the memory.
        """
        return [
            self._best(text, similarities, count=count, exclude_same=exclude_same)
            for text, similarities in self._similarities(texts)
        ]

    def matches(self, texts: Sequence[str], *, count: int) -> list[list[Match]]:
        """Return the `count` most similar pairs of each text with their similarities, most similar first."""
        return [
            [
                Match(*self.pairs[index], similarity=min(1.0, float(similarities[index])))
                for index in self._best(text, similarities, count=count, exclude_same=False)
            ]
            for text, similarities in self._similarities(texts)
        ]

    def targets(self, texts: Sequence[str], *, count: int = 1, exclude_same: bool = False) -> list[list[str]]:
        """Return the targets of the most similar pairs of each text, most similar first."""
        rows = self.nearest(texts, count=count, exclude_same=exclude_same)
        return [[self.pairs[index][1] for index in row] for row in rows]

    def _best(self, text: str, similarities: Any, *, count: int, exclude_same: bool) -> list[int]:
        num_candidates = min(len(self.pairs), count + (self._occurrences[text] if exclude_same else 0))
        candidates = np.argpartition(-similarities, num_candidates - 1)[:num_candidates]
        ranked = candidates[np.lexsort((candidates, -similarities[candidates]))].tolist()
        return [index for index in ranked if not (exclude_same and self.pairs[index][0] == text)][:count]

    def prepare(self) -> None:
        """Build the index now, so that a missing package is an error before training."""
        _ = self._index

    @cached_property
    def _index(self) -> tuple[list[Any], Any]:
        """The vectorizers and the table of all sources, built by the first search."""
        text = require("sklearn.feature_extraction.text", extra="text")
        vectorizers = [
            text.TfidfVectorizer(token_pattern=WORDS, sublinear_tf=True, dtype=np.float32),
            text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32),
        ]
        sources = [source for source, _ in self.pairs]
        return vectorizers, _stack([vectorizer.fit_transform(sources) for vectorizer in vectorizers])

    def _similarities(self, texts: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield each text with its similarities to all sources, 0 … 1, computed in blocks to bound memory."""
        for start in range(0, len(texts), BLOCK_ROWS):
            block = texts[start : start + BLOCK_ROWS]
            vectorizers, table = self._index
            queries = _stack([vectorizer.transform(block) for vectorizer in vectorizers])
            yield from zip(block, (queries @ table.T).toarray() / len(vectorizers), strict=True)

    def save(self, folder: Path) -> None:
        """Write the pairs to a run folder."""
        write_text(folder / MEMORY_FILE, json.dumps(self.pairs, ensure_ascii=False, indent=0) + "\n")


def load(folder: Path) -> TranslationMemory:
    """Return the memory of a run folder."""
    path = folder / MEMORY_FILE
    try:
        pairs = [(str(source), str(target)) for source, target in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: the translation memory cannot be read ({error})") from None
    return TranslationMemory(pairs)


def _stack(parts: Sequence[Any]) -> Any:
    return require("scipy.sparse", extra="text").hstack(parts).tocsr()
