"""The last layer where an example may have several labels: a yes or no for each, with its own loss."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from regard.layers.readout import Readout


class SeveralLabels(nn.Linear):
    """(… d) -> logits (… v), each for itself."""

    def loss(self, features: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Features (n d), labels (n v) of 0 and 1 -> the sum over examples of -log p of all answers."""
        wanted = labels.to(features.dtype) * (1 - smoothing) + smoothing / 2
        return binary_cross_entropy_with_logits(self(features), wanted, reduction="sum")


def readout(dim: int, labels: int, *, several: bool) -> Readout | SeveralLabels:
    """The last layer for documents that have one label each, or several."""
    return SeveralLabels(dim, labels) if several else Readout(dim, labels)
