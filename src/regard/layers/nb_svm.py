"""NB-SVM: a linear SVM over binary features that are scaled by their naive Bayes log-count ratio.

Wang and Manning 2012, section 2.3. The squared hinge loss with an L2 penalty is smooth and convex, so that L-BFGS
minimizes it in a few dozen products with the sparse matrix of features.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

MIN_DOCUMENTS = 2  # a feature of a single document only repeats the labels of that document
MAX_ITERATIONS = 25


class BinaryFeatures(NamedTuple):
    """Distinct features of documents: feature `features[i]` occurs in document `documents[i]`, in ascending order."""

    documents: Tensor  # (e)
    features: Tensor  # (e)
    num_documents: int
    num_features: int

    def select(self, chosen: Tensor) -> BinaryFeatures:
        """Return the features of the documents of which `chosen` (n) is True; the others have none."""
        mask = chosen[self.documents]
        return self._replace(documents=self.documents[mask], features=self.features[mask])

    def matrix(self) -> Tensor:
        """Return a sparse matrix (documents, features) of ones."""
        return _ones(self.documents, self.features, (self.num_documents, self.num_features))

    def transposed(self) -> Tensor:
        """Return a sparse matrix (features, documents) of ones."""
        order = self.features.argsort(stable=True)
        shape = (self.num_features, self.num_documents)
        return _ones(self.features[order], self.documents[order], shape)


def _ones(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    """Sorted rows and their columns -> a sparse matrix of ones at these elements."""
    starts = torch.zeros(shape[0] + 1, dtype=torch.long)
    starts[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(starts, columns, torch.ones(len(columns)), size=shape, check_invariants=False)


def log_count_ratios(features: BinaryFeatures, is_positive: Tensor) -> Tensor:
    """Features, labels (n c) of 0 and 1 -> log((p / |p|) / (q / |q|)) of each feature and label (f c).

    p and q are the smoothed numbers of documents with and without the label. Rare features have the ratio 0.
    """
    frequencies = torch.bincount(features.features, minlength=features.num_features)[:, None]
    transposed = features.transposed()
    positive = transposed @ is_positive.float() + 1
    negative = frequencies - positive + 2
    ratios = (positive / positive.sum(dim=0)).log() - (negative / negative.sum(dim=0)).log()
    return torch.where(frequencies >= MIN_DOCUMENTS, ratios, 0.0)


def fit(features: BinaryFeatures, is_positive: Tensor, chosen: Tensor, cost: float) -> Tensor:
    """Train on the chosen documents (n) -> the weight of each feature for each label (f c).

    A document's margin for a label is the sum of the weights of its features. `cost` is C of the paper.
    """
    train = features.select(chosen)
    matrix, transposed = train.matrix(), train.transposed()
    ratios = log_count_ratios(train, is_positive)
    is_chosen = chosen[:, None].float()
    signs = torch.where(is_positive.bool(), 1.0, -1.0)
    weights = torch.zeros_like(ratios)
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=MAX_ITERATIONS, history_size=6, line_search_fn="strong_wolfe", tolerance_change=1e-6
    )

    def closure() -> Tensor:
        margins = signs * (matrix @ (ratios * weights))
        slack = (1 - margins).clamp_min(0) * is_chosen
        weights.grad = weights - 2 * cost * ratios * (transposed @ (signs * slack))
        return weights.square().sum() / 2 + cost * slack.square().sum()

    optimizer.step(closure)
    return ratios * weights
