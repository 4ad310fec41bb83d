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
Rival = Callable[[Any, int], Scores]  # users × items that were chosen (sparse), a seed -> scores (u n)


def item_knn(chosen: Any, seed: int, *, neighbours: int) -> Scores:
    """The cosine of items by who chose them, the nearest of each, summed over a user's (Sarwar et al. 2001)."""
    nearest: Any = require("implicit.nearest_neighbours", extra="recommendation")
    near = nearest.CosineRecommender(K=neighbours, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains of a matrix that it made itself
        near.fit(chosen.astype(np.float64), show_progress=False)
    return np.asarray((chosen @ near.similarity).toarray(), dtype=np.float32)


def factorised(chosen: Any, seed: int, *, factors: int, weight: float) -> Scores:
    """Alternating least squares (Hu et al. 2008)."""
    als: Any = require("implicit.als", extra="recommendation")
    model = als.AlternatingLeastSquares(
        factors=factors, alpha=weight, regularization=0.1, iterations=15, random_state=seed, num_threads=1
    )
    model.fit(chosen.astype(np.float32), show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T, dtype=np.float32)


CHOICES: dict[str, list[Rival]] = {
    "item_knn": [partial(item_knn, neighbours=size) for size in (20, 50, 100, 200)],
    "factorisation": [
        partial(factorised, factors=size, weight=weight) for size in (16, 32, 64) for weight in (1.0, 10.0)
    ],
}


class Chosen(NamedTuple):
    """What users chose: rows and columns of a matrix, one for each choice."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    shape: tuple[int, int]

    def matrix(self) -> Any:
        """A sparse matrix of ones."""
        sparse: Any = require("scipy.sparse", extra="recommendation")
        ones = np.ones(len(self.users), dtype=np.float32)
        return sparse.csr_matrix((ones, (self.users, self.items)), shape=self.shape)


def scores(name: str, training: Chosen, known: Chosen, *, judge: Callable[[Scores], float], seed: int) -> Scores:
    """The scores of a rival that knows `known`, with the settings that are best on `training` by `judge`."""
    choices: Sequence[Rival] = CHOICES[name]
    matrix = training.matrix()
    best = max(choices, key=lambda rival: judge(rival(matrix, seed)))
    return best(known.matrix(), seed)


class Biased(NamedTuple):
    """Ratings as mean + user + item + a product of factors: the factors are a truncated SVD of what is left (scipy)."""

    predicted: NDArray[np.float64]  # (u n)


def rated(users: Any, items: Any, ratings: Any, *, shape: tuple[int, int], factors: int) -> Biased:
    """Ratings -> what every user would give to every item; biases are shrunk towards 0 by ten ratings."""
    sparse: Any = require("scipy.sparse", extra="recommendation")
    linalg: Any = require("scipy.sparse.linalg", extra="recommendation")
    mean = float(ratings.mean())
    of_item = np.bincount(items, ratings - mean, shape[1]) / (np.bincount(items, minlength=shape[1]) + 10)
    rest = ratings - mean - of_item[items]
    of_user = np.bincount(users, rest, shape[0]) / (np.bincount(users, minlength=shape[0]) + 10)
    left = sparse.csr_matrix((rest - of_user[users], (users, items)), shape=shape)
    if not left.count_nonzero():
        return Biased(mean + of_user[:, None] + of_item)
    u, s, v = linalg.svds(left, k=factors, v0=np.ones(min(shape)))
    return Biased(mean + of_user[:, None] + of_item + (u * s) @ v)
