"""Votes of a document's n-grams for its label: the margins of an NB-SVM as features of a network.

A linear model over n-grams is the strongest simple baseline of document classification. It knows thousands of rare
phrases, which attention cannot learn from a few thousand documents. The n-grams are hashed, so that no vocabulary of
n-grams is stored.

The votes are fitted once before training, by cross-fitting (Wolpert 1992): each of several NB-SVMs is trained without
one fold of the documents. In training a document gets the votes of the NB-SVM that has not seen it. So the votes are as
reliable in training as on new documents, which get the votes of an NB-SVM of all folds. The fold follows from the
document itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from regard.layers import nb_svm
from regard.layers.document_batch import SentenceBatch
from regard.layers.nb_svm import BinaryFeatures
from regard.layers.ngram_embedding import Pattern, hash_ngrams

PATTERNS: tuple[Pattern, ...] = ((0,), (-1, 0), (-2, -1, 0))  # one to three tokens
FOLDS = 4
COSTS = (0.03, 0.1, 0.3)  # values of C, chosen on the documents that each NB-SVM has not seen
SCALES = tuple(2 ** (n / 4) for n in range(-8, 21))  # factors that turn margins into log odds


class NgramVotes(nn.Module):
    """Documents -> votes (b v), or one column (b 1) for two labels: the vote for the second."""

    def __init__(self, rows: int, num_labels: int, *, multi_label: bool, pad: int) -> None:
        super().__init__()
        self.pad, self.num_labels, self.rows = pad, num_labels, rows
        self.columns = 1 if num_labels == 2 and not multi_label else num_labels
        self.tables: Tensor
        self.register_buffer("tables", torch.zeros(FOLDS + 1, rows, self.columns))

    def forward(self, documents: SentenceBatch) -> Tensor:
        owner, row = self._distinct(documents)
        zeros = self.tables.new_zeros(len(documents.counts), self.columns)
        if not self.training:
            return zeros.index_add(0, owner, self.tables[FOLDS, row])
        return zeros.index_add(0, owner, self.tables[self._fold(documents)[owner], row])

    def connect(self, readout: nn.Linear) -> None:
        """Initialize the last weights of the output layer: each vote is added to the logit of its label."""
        with torch.no_grad():
            weights = torch.tensor([[-0.5], [0.5]]) if self.columns < self.num_labels else torch.eye(self.columns)
            readout.weight[:, -self.columns :] = weights

    def fit(self, batches: Iterable[tuple[SentenceBatch, Tensor]]) -> None:
        """Fit the votes to labelled documents; labels are class ids (b), or 0 and 1 for each label (b v)."""
        owners, rows, folds, all_labels, total = [], [], [], [], 0
        for documents, labels in batches:
            owner, row = self._distinct(documents)
            owners.append(owner + total)
            rows.append(row)
            folds.append(self._fold(documents))
            all_labels.append(labels if labels.dim() == 2 else nn.functional.one_hot(labels, self.num_labels))
            total += len(documents.counts)
        used, features = torch.cat(rows).unique(return_inverse=True)
        table = BinaryFeatures(torch.cat(owners), features, total, len(used))
        weights = _cross_fit(table, torch.cat(all_labels)[:, -self.columns :], torch.cat(folds))
        self.tables[:, used] = weights.to(self.tables)

    def _distinct(self, documents: SentenceBatch) -> tuple[Tensor, Tensor]:
        """Return the document and the row of each distinct n-gram of each document, in ascending order."""
        tokens = documents.tokens
        is_token = torch.arange(tokens.shape[1], device=tokens.device) < documents.lengths[:, None]
        keys = hash_ngrams(tokens, PATTERNS, self.rows, pad=self.pad) + _owners(documents)[:, None] * self.rows
        distinct = keys[:, is_token].unique()
        return distinct // self.rows, distinct % self.rows

    def _fold(self, documents: SentenceBatch) -> Tensor:
        """Return the fold (b) of each document: the sum of its token ids, modulo the number of folds."""
        sums = documents.tokens.new_zeros(len(documents.counts))
        return sums.index_add(0, _owners(documents), documents.tokens.sum(dim=1)) % FOLDS


def _owners(documents: SentenceBatch) -> Tensor:
    """Return the document (n) of each sentence."""
    return torch.arange(len(documents.counts), device=documents.tokens.device).repeat_interleave(documents.counts)


def _cross_fit(features: BinaryFeatures, is_positive: Tensor, folds: Tensor) -> Tensor:
    """Return the weights (folds + 1, f c) of NB-SVMs that are each trained without one fold, and of one of all folds.

    C and the scale of the weights are those with the smallest logistic loss on the documents not trained on.
    """
    matrix, documents = features.matrix(), torch.arange(len(folds))
    trials = []
    for cost in COSTS:
        weights = [nb_svm.fit(features, is_positive, folds != fold, cost) for fold in range(FOLDS)]
        margins = torch.stack([matrix @ table for table in weights])[folds, documents]
        scale, loss = _fit_scale(margins, is_positive)
        trials.append((loss, cost, scale, weights))
    _, cost, scale, weights = min(trials, key=lambda trial: trial[0])
    return torch.stack([*weights, nb_svm.fit(features, is_positive, folds >= 0, cost)]) * scale


def _fit_scale(margins: Tensor, is_positive: Tensor) -> tuple[float, float]:
    """Margins and labels (n c) -> the scale of SCALES with the smallest logistic loss, and that loss (Platt 1999)."""
    losses = [float(binary_cross_entropy_with_logits(scale * margins, is_positive.float())) for scale in SCALES]
    best = min(range(len(SCALES)), key=losses.__getitem__)
    return SCALES[best], losses[best]
