"""Boxes of objects: how far two overlap, which query found which object, and the loss of that: Carion et al. 2020, 3.1.

A box is (middle across, middle down, width, height) where a model makes it, and (left, top, right, bottom) everywhere
else; always as shares of the image.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.core.extras import require

TINY = 1e-9


class Weights(NamedTuple):
    """What each part counts, in matching and in the loss."""

    class_: float = 1.0
    distance: float = 5.0
    overlap: float = 2.0
    nothing: float = 0.1  # of the class "no object", which most queries have


class Truth(NamedTuple):
    """The objects of a batch of images, padded."""

    labels: Tensor  # (b n)
    boxes: Tensor  # (b n 4) middle and size
    counts: Tensor  # (b)


def corners(boxes: Tensor) -> Tensor:
    """(… 4) middle and size -> left, top, right, bottom."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([middle - half, middle + half], dim=-1)


def overlaps(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Corners (… 4) and (… 4) -> intersection over union, and the generalised one: Rezatofighi et al. 2019."""
    inner = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(dim=-1)
    outer = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).clamp(min=0).prod(dim=-1)
    union = _area(a) + _area(b) - inner
    share = inner / union.clamp(min=TINY)
    return share, share - (outer - union) / outer.clamp(min=TINY)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


@torch.no_grad()
def match(logits: Tensor, boxes: Tensor, labels: Tensor, truth: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """What the queries of an image found, (q v) and (q 4), and what is there, (n) and (n 4) -> the pairs of least cost,
    as numbers of queries and of objects; by the Hungarian algorithm of SciPy."""
    odds = logits.float().log_softmax(dim=-1).exp()[:, labels]  # (q n)
    distance = torch.cdist(boxes.float(), truth.float(), p=1)
    _, overlap = overlaps(corners(boxes.float())[:, None], corners(truth.float())[None])
    cost = weights.distance * distance - weights.class_ * odds - weights.overlap * overlap
    queries, objects = require("scipy.optimize", extra="vision").linear_sum_assignment(cost.cpu().numpy())
    return torch.as_tensor(queries, device=logits.device), torch.as_tensor(objects, device=logits.device)


def set_loss(logits: Tensor, boxes: Tensor, truth: Truth, weights: Weights) -> dict[str, Tensor]:
    """What the queries found, (b q v) and (b q 4) -> the parts of the loss, summed over images. In each, the part of
    classes is a weighted mean over queries, those of boxes are means over objects."""
    nothing = logits.shape[-1] - 1
    counts = torch.ones(nothing + 1, device=logits.device)
    counts[nothing] = weights.nothing
    parts: dict[str, list[Tensor]] = {"class": [], "distance": [], "overlap": []}
    for row, count in enumerate(truth.counts.tolist()):
        labels, places = truth.labels[row, :count], truth.boxes[row, :count]
        queries, objects = match(logits[row], boxes[row], labels, places, weights)
        wanted = torch.full_like(logits[row, :, 0], nothing, dtype=torch.long)
        wanted[queries] = labels[objects]
        ours, theirs = boxes[row, queries], places[objects]
        _, overlap = overlaps(corners(ours), corners(theirs))
        parts["class"].append(weights.class_ * cross_entropy(logits[row].float(), wanted, counts))
        parts["distance"].append(weights.distance * (ours - theirs).abs().sum() / max(1, count))
        parts["overlap"].append(weights.overlap * (1 - overlap).sum() / max(1, count))
    return {name: torch.stack(each).sum() for name, each in parts.items()}
