"""Minimum Bayes risk over texts: the candidate with the highest expected chrF (Kumar and Byrne 2004).

Candidates are also the references, each with a weight: the expected utility of a candidate is its mean chrF against all
of them. The candidates may come from several systems, here a model and a translation memory (Rosti et al. 2007 combine
systems in this way). The choice is close to the best system on average, since outliers have a low expected utility.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_ORDER = 6  # characters of an n-gram
BETA_SQUARED = 4.0  # recall counts twice as much as precision (Popović 2015)


def expected_utilities(texts: Sequence[str], weights: Sequence[float]) -> list[float]:
    """Candidates and their weights -> the weighted mean chrF (0 … 1) of each against all of them."""
    total = sum(weights)
    return [float(value) for value in pairwise_chrf(texts) @ np.asarray(weights, dtype=np.float64) / total]


def pairwise_chrf(texts: Sequence[str]) -> NDArray[Any]:
    """Texts (n) -> chrF (n n) of each text against each other text as the reference, 0 … 1."""
    precisions = np.zeros((len(texts), len(texts)))
    recalls, orders = np.zeros_like(precisions), np.zeros_like(precisions)
    for size in range(1, MAX_ORDER + 1):
        counts = _ngram_counts(texts, size)
        sums = counts.sum(axis=1)
        matches = np.array([np.minimum(counts, row).sum(axis=1) for row in counts])
        is_effective = (sums[:, None] > 0) & (sums > 0)
        orders += is_effective
        precisions += np.where(is_effective, matches / np.maximum(sums, 1)[:, None], 0)
        recalls += np.where(is_effective, matches / np.maximum(sums, 1), 0)
    precisions, recalls = precisions / np.maximum(orders, 1), recalls / np.maximum(orders, 1)
    denominator = BETA_SQUARED * precisions + recalls
    scores = np.where(denominator > 0, (1 + BETA_SQUARED) * precisions * recalls / np.maximum(denominator, 1e-16), 0.0)
    is_same = np.array([[first == second for second in texts] for first in texts], dtype=bool).reshape(scores.shape)
    return np.where(is_same, 1.0, scores)


def _ngram_counts(texts: Sequence[str], size: int) -> NDArray[Any]:
    """Texts (n) -> counts (n v) of their n-grams of characters without spaces."""
    joined = ["".join(text.split()) for text in texts]
    rows = [Counter(text[i : i + size] for i in range(len(text) - size + 1)) for text in joined]
    columns = {ngram: column for column, ngram in enumerate(dict.fromkeys(chain.from_iterable(rows)))}
    counts = np.zeros((len(rows), len(columns)), dtype=np.int32)
    for index, row in enumerate(rows):
        counts[index, [columns[ngram] for ngram in row]] = list(row.values())
    return counts
