"""Recommendation baselines: neighbours in the sequence and EASE; by other libraries, item neighbours and factorisation.

Their settings are chosen by NDCG on the validation cases, like those of a model. The few settings of neighbours in the
sequence differ by less than the noise of one choice per user, so the choices before it are predicted, too.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.extras import require

Scores = NDArray[np.float32]
MAX_GAP = 5  # choices farther apart than this many times the scale have no weight


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

    def recent(self, age_scale: float) -> Scores:
        """Return a dense matrix (u n) of exp(-age / age_scale): 1 for a user's last choice, less for earlier ones."""
        ends = np.cumsum(np.bincount(self.users, minlength=self.shape[0]))
        ages = ends[self.users] - 1 - np.arange(len(self.users))
        matrix = np.zeros(self.shape, dtype=np.float32)
        matrix[self.users, self.items] = np.exp(-ages / age_scale)
        return matrix


Baseline = Callable[[Interactions, int], Scores]  # choices, seed -> scores (u n)


def sequence_knn(
    choices: Interactions, seed: int, *, scale: float, age_scale: float, backward: float, popularity: float
) -> Scores:
    """Items that are near the user's last items in other histories, without training.

    An item that follows another one `g` positions later counts exp(-(g - 1) / scale), and the earlier one `backward`
    times as much. Counts are divided by a power of an item's number of choices. A score is the sum of the counts of the
    user's items, weighted by exp(-age / age_scale). One scale for distance and age, equal directions and the power 1/2
    have NDCG@10 0.078 on ML-100K; separate values, chosen on three choices of each user, have 0.089.
    """
    return choices.recent(age_scale) @ nearby_counts(choices, scale=scale, backward=backward, popularity=popularity)


def nearby_counts(choices: Interactions, *, scale: float, backward: float, popularity: float) -> Scores:
    """Return the counts (n n) of `sequence_knn`: row: the item of a history, column: the item near it."""
    num_items = choices.shape[1]
    nearby = np.zeros((num_items, num_items), dtype=np.float32)
    for gap in range(1, min(len(choices.users), int(MAX_GAP * scale) + 1)):
        pairs = choices.users[gap:] == choices.users[:-gap]
        first, second = choices.items[:-gap][pairs], choices.items[gap:][pairs]
        np.add.at(nearby, (first, second), np.float32(np.exp(-(gap - 1) / scale)))
    nearby += backward * nearby.T
    nearby /= np.maximum(np.bincount(choices.items, minlength=num_items), 1).astype(np.float32) ** popularity
    return nearby


def ease(choices: Interactions, seed: int, *, regularization: float, age_scale: float = math.inf) -> Scores:
    """EASE (Steck 2019): the linear model of each item by all others with the least squared error, in closed form.

    The weights are fitted to all choices alike; a score is the prediction from the choices weighted by their age.
    """
    matrix = choices.dense()
    inverse = np.linalg.inv((matrix.T @ matrix).astype(np.float64) + regularization * np.eye(choices.shape[1]))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return choices.recent(age_scale) @ weights.astype(np.float32)


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
    "sequence_knn": [
        partial(sequence_knn, scale=5.0, age_scale=age_scale, backward=backward, popularity=popularity)
        for age_scale in (2.0, 5.0)
        for backward in (0.3, 1.0)
        for popularity in (0.25, 0.5)
    ],
    "ease": [
        partial(ease, regularization=value, age_scale=age_scale)
        for value in (100.0, 300.0, 1000.0)
        for age_scale in (math.inf, 10.0, 3.0)
    ],
    "item_knn": [partial(item_knn, neighbours=size) for size in (20, 50, 100, 200)],
    "factorisation": [
        partial(als_factorization, factors=size, weight=weight) for size in (16, 32, 64) for weight in (1.0, 10.0)
    ],
}
DENSE_BASELINES = ("sequence_knn", "ease")  # with a matrix of items × items
SELECTION_CHOICES = {"sequence_knn": 3}  # choices of each user on which settings are chosen; others: only the last one


class SelectionCase(NamedTuple):
    """Choices to fit a baseline to, and the metric of its scores on later choices."""

    train: Interactions
    metric: Callable[[Scores], float]


def baseline_scores(name: str, selection: Sequence[SelectionCase], observed: Interactions, *, seed: int) -> Scores:
    """Return the scores of a baseline fitted to `observed`, with the settings that have the best mean metric."""
    candidates: Sequence[Baseline] = BASELINES[name]

    def total(baseline: Baseline) -> float:
        return sum(case.metric(baseline(case.train, seed)) for case in selection)

    return max(candidates, key=total)(observed, seed)


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
