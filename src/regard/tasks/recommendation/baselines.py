"""Recommendation baselines by other libraries: item neighbours and matrix factorisation.

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
Baseline = Callable[[Any, int], Scores]  # sparse matrix of choices (users × items), seed -> scores (u n)


def item_knn(interactions: Any, seed: int, *, neighbours: int) -> Scores:
    """Item-based nearest neighbours with cosine similarity (Sarwar et al. 2001)."""
    nearest: Any = require("implicit.nearest_neighbours", extra="recommendation")
    model = nearest.CosineRecommender(K=neighbours, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns about a matrix that it created itself
        model.fit(interactions.astype(np.float64), show_progress=False)
    return np.asarray((interactions @ model.similarity).toarray(), dtype=np.float32)


def als_factorization(interactions: Any, seed: int, *, factors: int, weight: float) -> Scores:
    """Alternating least squares (Hu et al. 2008)."""
    als: Any = require("implicit.als", extra="recommendation")
    model = als.AlternatingLeastSquares(
        factors=factors, alpha=weight, regularization=0.1, iterations=15, random_state=seed, num_threads=1
    )
    model.fit(interactions.astype(np.float32), show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T, dtype=np.float32)


BASELINES: dict[str, list[Baseline]] = {
    "item_knn": [partial(item_knn, neighbours=size) for size in (20, 50, 100, 200)],
    "factorisation": [
        partial(als_factorization, factors=size, weight=weight) for size in (16, 32, 64) for weight in (1.0, 10.0)
    ],
}


class Interactions(NamedTuple):
    """Choices of users: row and column of a matrix per choice."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    shape: tuple[int, int]

    def matrix(self) -> Any:
        """Return a sparse matrix of ones."""
        sparse: Any = require("scipy.sparse", extra="recommendation")
        ones = np.ones(len(self.users), dtype=np.float32)
        return sparse.csr_matrix((ones, (self.users, self.items)), shape=self.shape)


def baseline_scores(
    name: str, train: Interactions, observed: Interactions, *, metric: Callable[[Scores], float], seed: int
) -> Scores:
    """Return the scores of a baseline fitted to `observed`, with the settings that are best by `metric` on `train`."""
    candidates: Sequence[Baseline] = BASELINES[name]
    matrix = train.matrix()
    best = max(candidates, key=lambda baseline: metric(baseline(matrix, seed)))
    return best(observed.matrix(), seed)


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
