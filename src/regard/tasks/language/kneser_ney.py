"""Baseline of language modeling: interpolated modified Kneser-Ney smoothing (Chen and Goodman 1999, section 3).

p(w | h) = max(c(h w) - D(c(h w)), 0) / c(h) + γ(h) · p(w | h without its first token)

The highest order uses counts, every lower order the number of different tokens before the n-gram. An n-gram is stored
as the pair of its context, by index, and its last token, so that all lookups are exact searches in sorted arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
ORDERS = (3, 5, 7)  # tried on the validation text


class Order(NamedTuple):
    """Statistics of the n-grams of one length."""

    keys: Ids  # sorted: index of the context · vocabulary size + last token
    counts: Ids  # of each n-gram: occurrences, or different tokens before it
    discounts: Floats  # D of a count of 0, 1, 2, and 3 or more
    totals: Floats  # of each context: the sum of the counts of its n-grams
    backoff: Floats  # γ of each context


class KneserNey:
    """An n-gram model of a token sequence."""

    def __init__(self, tokens: NDArray[Any], vocab_size: int, order: int) -> None:
        self.vocab_size = vocab_size
        tables = list(_ngrams(np.asarray(tokens, dtype=np.int64), vocab_size, order))
        self.orders = []
        for n, (keys, _, occurrences) in enumerate(tables, start=1):
            counts = occurrences if n == order else _continuation_counts(tables[n - 1], tables[n])
            num_contexts = 1 if n == 1 else len(tables[n - 2][0])
            self.orders.append(_statistics(keys, counts, vocab_size, num_contexts))

    def nats(self, tokens: NDArray[Any]) -> Floats:
        """Return -log p of each token of a text, given the tokens before it."""
        tokens = np.asarray(tokens, dtype=np.int64)
        probability = np.full(len(tokens), 1 / self.vocab_size)
        context = np.zeros(len(tokens), dtype=np.int64)  # index of the context of each token; -1: never seen
        for order in self.orders:
            seen = context >= 0
            is_known, index = _find(order.keys, np.where(seen, context, 0) * self.vocab_size + tokens)
            counts = np.where(is_known & seen, order.counts[index], 0)
            totals = np.where(seen, order.totals[np.where(seen, context, 0)], 0.0)
            discounted = np.maximum(counts - order.discounts[np.minimum(counts, 3)], 0)
            backoff = order.backoff[np.where(seen, context, 0)]
            interpolated = discounted / np.maximum(totals, 1) + backoff * probability
            probability = np.where(totals > 0, interpolated, probability)
            ending_here = np.where(is_known & seen, index, -1)  # this n-gram is the context of the next token
            context = np.concatenate([[-1], ending_here[:-1]])
        return np.asarray(-np.log(probability), dtype=np.float64)


def _ngrams(tokens: Ids, vocab_size: int, order: int) -> list[tuple[Ids, Ids, Ids]]:
    """Return (sorted keys, index of the n-gram that ends at each position, counts) of the n-grams of each length."""
    tables: list[tuple[Ids, Ids, Ids]] = []
    contexts = np.zeros(len(tokens), dtype=np.int64)
    for n in range(1, order + 1):
        keys, inverse, counts = np.unique(
            contexts * vocab_size + tokens[n - 1 :], return_inverse=True, return_counts=True
        )
        tables.append((keys, inverse, counts))
        contexts = inverse[:-1]  # the n-gram before each of the following tokens
    return tables


def _continuation_counts(table: tuple[Ids, Ids, Ids], longer: tuple[Ids, Ids, Ids]) -> Ids:
    """Return the number of different tokens before each n-gram: the number of longer n-grams that end with it."""
    (keys, inverse, _), (_, longer_inverse, longer_counts) = table, longer
    position = np.zeros(len(longer_counts), dtype=np.int64)
    position[longer_inverse] = np.arange(len(longer_inverse))  # one position of each longer n-gram
    return np.bincount(inverse[position + 1], minlength=len(keys))  # the n-gram with the same end


def _statistics(keys: Ids, counts: Ids, vocab_size: int, num_contexts: int) -> Order:
    ones, twos, threes, fours = (max(1, int((counts == n).sum())) for n in (1, 2, 3, 4))
    y = ones / (ones + 2 * twos)  # equation 17
    discounts = np.clip([0, 1 - 2 * y * twos / ones, 2 - 3 * y * threes / twos, 3 - 4 * y * fours / threes], 0, None)
    contexts = keys // vocab_size
    totals = np.bincount(contexts, weights=counts.astype(np.float64), minlength=num_contexts).astype(np.float64)
    removed = np.bincount(contexts, weights=discounts[np.minimum(counts, 3)], minlength=num_contexts)
    return Order(keys, counts, discounts, totals, removed / np.maximum(totals, 1))


def _find(keys: Ids, queries: Ids) -> tuple[NDArray[np.bool_], Ids]:
    """Return True for each query that is in the sorted keys, and its index."""
    index = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return keys[index] == queries, index


def baseline_nats(train: NDArray[Any], valid: NDArray[Any], test: NDArray[Any], vocab_size: int) -> tuple[Floats, int]:
    """Train models of several orders -> -log p of each test token by the best order on the validation text."""
    models = {order: KneserNey(train, vocab_size, order) for order in ORDERS}
    best = min(models, key=lambda order: float(models[order].nats(valid).mean()))
    return models[best].nats(test), best
