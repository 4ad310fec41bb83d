"""Memory of a recommender: items that are near the user's last items in the histories of the training data.

    log p = log softmax((log p of the model + w · log(c + c0)) / (1 + w/2))

c is the score of the baseline `sequence_knn`. A model of a few hundred thousand weights does not store which film
follows which; the counts do, and need no training. The divisor keeps the probabilities calibrated: on the validation
choices of ML-100K, 1 + w/2 has the smallest loss of those tried for w = 2 and w = 3.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.protocols.recommender import UserBatch
from regard.tasks.recommendation.baselines import Interactions, nearby_counts

SCALE, BACKWARD, POPULARITY = 5.0, 0.3, 0.5  # of sequence_knn, chosen on the validation choices of ML-100K
AGE_SCALE = 5.0  # items of the history count exp(-age / AGE_SCALE)
PRIOR = 0.1  # c0: the count of an item that is near none of the user's items


class NearbyItems:
    """Counts (n n) of the training choices, and their weight w."""

    def __init__(self, choices: Interactions, weight: float) -> None:
        self.weight = weight
        counts = nearby_counts(choices, scale=SCALE, backward=BACKWARD, popularity=POPULARITY)
        self.counts = torch.from_numpy(counts)

    def adjust(self, log_probs: Tensor, users: UserBatch) -> Tensor:
        """Log p of all items (b n) by a model -> log p of the mixture."""
        mixed = log_probs + self.weight * self._log_counts(users).to(log_probs)
        return (mixed / (1 + self.weight / 2)).log_softmax(dim=-1)

    def _log_counts(self, users: UserBatch) -> Tensor:
        """Histories -> log counts (b n)."""
        history, lengths = users.history.cpu(), users.lengths.cpu()
        ages = lengths[:, None] - 1 - torch.arange(history.shape[1])  # (b t), negative at padding
        recent = torch.exp(-ages / AGE_SCALE).masked_fill(ages < 0, 0.0)
        weights = torch.zeros(len(history), len(self.counts)).scatter_add_(1, history, recent)
        return torch.log(weights @ self.counts + PRIOR)
