"""What a model of choices has to beat, beside popularity: neighbours of items, matrix factorisation, by libraries.

Settings are chosen by NDCG on the validation questions, as a model's are.
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
Baseline = Callable[[Any, int], Scores]  # users × items that were chosen (sparse), a seed -> scores (u n)


def item_knn(interactions: Any, seed: int, *, neighbours: int) -> Scores:
    """The cosine of items by who chose them, the nearest of each, summed over a user's (Sarwar et al. 2001)."""
    nearest: Any = require("implicit.nearest_neighbours", extra="recommendation")
    near = nearest.CosineRecommender(K=neighbours, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains of a matrix that it made itself
        near.fit(interactions.astype(np.float64), show_progress=False)
    return np.asarray((interactions @ near.similarity).toarray(), dtype=np.float32)


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
    """What users chose: rows and columns of a matrix, one for each choice."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    shape: tuple[int, int]

    def matrix(self) -> Any:
        """A sparse matrix of ones."""
        sparse: Any = require("scipy.sparse", extra="recommendation")
        ones = np.ones(len(self.users), dtype=np.float32)
        return sparse.csr_matrix((ones, (self.users, self.items)), shape=self.shape)


def baseline_scores(
    name: str, train: Interactions, observed: Interactions, *, metric: Callable[[Scores], float], seed: int
) -> Scores:
    """The scores of a rival that knows `known`, with the settings that are best on `training` by `judge`."""
    choices: Sequence[Baseline] = BASELINES[name]
    matrix = train.matrix()
    best = max(choices, key=lambda rival: metric(rival(matrix, seed)))
    return best(observed.matrix(), seed)


class BiasedSVD(NamedTuple):
    """Ratings as mean + user + item + a product of factors: the factors are a truncated SVD of what is left (scipy)."""

    predictions: NDArray[np.float64]  # (u n)


def fit_biased_svd(users: Any, items: Any, ratings: Any, *, shape: tuple[int, int], factors: int) -> BiasedSVD:
    """Ratings -> what every user would give to every item; biases are shrunk towards 0 by ten ratings."""
    sparse: Any = require("scipy.sparse", extra="recommendation")
    linalg: Any = require("scipy.sparse.linalg", extra="recommendation")
    mean = float(ratings.mean())
    of_item = np.bincount(items, ratings - mean, shape[1]) / (np.bincount(items, minlength=shape[1]) + 10)
    rest = ratings - mean - of_item[items]
    of_user = np.bincount(users, rest, shape[0]) / (np.bincount(users, minlength=shape[0]) + 10)
    left = sparse.csr_matrix((rest - of_user[users], (users, items)), shape=shape)
    if not left.count_nonzero():
        return BiasedSVD(mean + of_user[:, None] + of_item)
    u, s, v = linalg.svds(left, k=factors, v0=np.ones(min(shape)))
    return BiasedSVD(mean + of_user[:, None] + of_item + (u * s) @ v)
