"""Boxes of objects: how far two overlap, which query found which object, and the loss of that: Carion et al. 2020, 3.1.

A box is (middle across, middle down, width, height) where a model makes it, and (left, top, right, bottom) everywhere
else; always as shares of the image.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
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


class Pairs(NamedTuple):
    """Which query of which image found which object; three numbers for each object."""

    rows: Tensor
    queries: Tensor
    objects: Tensor


@torch.no_grad()
def match(logits: Tensor, boxes: Tensor, truth: Truth, weights: Weights) -> Pairs:
    """What the queries of images found, (b q v) and (b q 4) -> the pairs of least cost in each image, by the Hungarian
    algorithm of SciPy."""
    assign = require("scipy.optimize", extra="vision").linear_sum_assignment
    labels = truth.labels[:, None].expand(-1, boxes.shape[1], -1)  # (b q n)
    odds = logits.float().log_softmax(dim=-1).exp().gather(2, labels)
    distance = torch.cdist(boxes.float(), truth.boxes.float(), p=1)
    _, overlap = overlaps(corners(boxes.float())[:, :, None], corners(truth.boxes.float())[:, None])
    cost = (weights.distance * distance - weights.class_ * odds - weights.overlap * overlap).cpu().numpy()
    each = [assign(cost[row, :, :count]) for row, count in enumerate(truth.counts.tolist())]
    rows = torch.repeat_interleave(torch.tensor([len(queries) for queries, _ in each]))
    queries, objects = (torch.as_tensor(np.concatenate([pair[side] for pair in each])) for side in (0, 1))
    return Pairs(*(x.to(logits.device) for x in (rows, queries, objects)))


def set_loss(logits: Tensor, boxes: Tensor, truth: Truth, weights: Weights) -> dict[str, Tensor]:
    """What the queries found, (b q v) and (b q 4) -> the parts of the loss, summed over images. In each, the part of
    classes is a weighted mean over queries, those of boxes are means over objects."""
    nothing = logits.shape[-1] - 1
    rows, queries, objects = match(logits, boxes, truth, weights)
    wanted = torch.full_like(logits[..., 0], nothing, dtype=torch.long)
    wanted[rows, queries] = truth.labels[rows, objects]
    counted = torch.where(wanted == nothing, weights.nothing, 1.0)  # (b q)
    each = cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), reduction="none").view_as(counted)
    ours, theirs = boxes[rows, queries], truth.boxes[rows, objects]
    _, overlap = overlaps(corners(ours), corners(theirs))
    share = 1 / truth.counts[rows]  # of an object in what its image costs
    return {
        "class": weights.class_ * ((each * counted).sum(dim=1) / counted.sum(dim=1)).sum(),
        "distance": weights.distance * ((ours - theirs).abs().sum(dim=-1) * share).sum(),
        "overlap": weights.overlap * ((1 - overlap) * share).sum(),
    }
