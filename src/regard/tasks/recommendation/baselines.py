"""Recommendation baselines: neighbours in the sequence and EASE; by other libraries, item neighbours and factorisation.

Their settings are chosen by NDCG on the validation cases, like those of a model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.extras import require

Scores = NDArray[np.float32]
MAX_GAP = 8  # choices farther apart than this many times the scale have no weight


class Interactions(NamedTuple):
    """Choices of users, in order of users and then of time: row and column of a matrix per choice."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    shape: tuple[int, int]

    def matrix(self) -> Any:
        """Return a sparse matrix of ones."""
        sparse: Any = require("scipy.sparse", extra="recommendation")
        ones = np.ones(len(self.users), dtype=np.float32)
        return sparse.csr_matrix((ones, (self.users, self.items)), shape=self.shape)

    def dense(self) -> Scores:
        """Return a dense matrix of ones and zeros (u n)."""
        matrix = np.zeros(self.shape, dtype=np.float32)
        matrix[self.users, self.items] = 1
        return matrix


Baseline = Callable[[Interactions, int], Scores]  # choices, seed -> scores (u n)


def sequence_knn(choices: Interactions, seed: int, *, scale: float) -> Scores:
    """Items that are near the user's last items in other histories, without training.

    Two choices of a user that are `g` places apart count exp(-(g - 1) / scale); counts are divided by the square root
    of an item's number of choices. A score is the sum of the counts of the user's items, weighted by exp(-age / scale).
    """
    num_users, num_items = choices.shape
    nearby = np.zeros((num_items, num_items), dtype=np.float32)
    for gap in range(1, min(len(choices.users), int(MAX_GAP * scale) + 1)):
        pairs = choices.users[gap:] == choices.users[:-gap]
        first, second = choices.items[:-gap][pairs], choices.items[gap:][pairs]
        np.add.at(nearby, (first, second), np.float32(np.exp(-(gap - 1) / scale)))
    nearby += nearby.T
    nearby /= np.sqrt(np.maximum(np.bincount(choices.items, minlength=num_items), 1)).astype(np.float32)
    ends = np.cumsum(np.bincount(choices.users, minlength=num_users))
    ages = ends[choices.users] - 1 - np.arange(len(choices.users))
    recent = np.zeros(choices.shape, dtype=np.float32)
    recent[choices.users, choices.items] = np.exp(-ages / scale)
    return recent @ nearby


def ease(choices: Interactions, seed: int, *, regularization: float) -> Scores:
    """EASE (Steck 2019): the linear model of each item by all others with the least squared error, in closed form."""
    matrix = choices.dense()
    inverse = np.linalg.inv((matrix.T @ matrix).astype(np.float64) + regularization * np.eye(choices.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return matrix @ weights.astype(np.float32)


def item_knn(choices: Interactions, seed: int, *, neighbours: int) -> Scores:
    """Item-based nearest neighbours with cosine similarity (Sarwar et al. 2001)."""
    interactions = choices.matrix()
    nearest: Any = require("implicit.nearest_neighbours", extra="recommendation")
    model = nearest.CosineRecommender(K=neighbours, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns about a matrix that it created itself
        model.fit(interactions.astype(np.float64), show_progress=False)
    return np.asarray((interactions @ model.similarity).toarray(), dtype=np.float32)


def als_factorization(choices: Interactions, seed: int, *, factors: int, weight: float) -> Scores:
    """Alternating least squares (Hu et al. 2008)."""
    interactions = choices.matrix()
    als: Any = require("implicit.als", extra="recommendation")
    model = als.AlternatingLeastSquares(
        factors=factors, alpha=weight, regularization=0.1, iterations=15, random_state=seed, num_threads=1
    )
    model.fit(interactions.astype(np.float32), show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T, dtype=np.float32)


BASELINES: dict[str, list[Baseline]] = {
    "sequence_knn": [partial(sequence_knn, scale=scale) for scale in (2.0, 5.0, 10.0, 20.0)],
    "ease": [partial(ease, regularization=value) for value in (30.0, 100.0, 300.0, 1000.0)],
    "item_knn": [partial(item_knn, neighbours=size) for size in (20, 50, 100, 200)],
    "factorisation": [
        partial(als_factorization, factors=size, weight=weight) for size in (16, 32, 64) for weight in (1.0, 10.0)
    ],
}
DENSE_BASELINES = ("sequence_knn", "ease")  # with a matrix of items × items


def baseline_scores(
    name: str, train: Interactions, observed: Interactions, *, metric: Callable[[Scores], float], seed: int
) -> Scores:
    """Return the scores of a baseline fitted to `observed`, with the settings that are best by `metric` on `train`."""
    candidates: Sequence[Baseline] = BASELINES[name]
    best = max(candidates, key=lambda baseline: metric(baseline(train, seed)))
    return best(observed, seed)


class BiasedSVD(NamedTuple):
    """Ratings as mean + user bias + item bias + factors: a truncated SVD of the residuals (scipy)."""

    predictions: NDArray[np.float64]  # (u n)


def fit_biased_svd(users: Any, items: Any, ratings: Any, *, shape: tuple[int, int], factors: int) -> BiasedSVD:
    """Ratings -> predicted ratings of all users for all items; biases are shrunk towards 0 by ten ratings."""
    sparse: Any = require("scipy.sparse", extra="recommendation")
    linalg: Any = require("scipy.sparse.linalg", extra="recommendation")
    mean = float(ratings.mean())
    item_bias = np.bincount(items, ratings - mean, shape[1]) / (np.bincount(items, minlength=shape[1]) + 10)
    residuals = ratings - mean - item_bias[items]
    user_bias = np.bincount(users, residuals, shape[0]) / (np.bincount(users, minlength=shape[0]) + 10)
    matrix = sparse.csr_matrix((residuals - user_bias[users], (users, items)), shape=shape)
    if not matrix.count_nonzero():
        return BiasedSVD(mean + user_bias[:, None] + item_bias)
    u, s, v = linalg.svds(matrix, k=factors, v0=np.ones(min(shape)))
    return BiasedSVD(mean + user_bias[:, None] + item_bias + (u * s) @ v)
