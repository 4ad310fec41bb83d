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

EPS = 1e-9


class LossWeights(NamedTuple):
    """What each part counts, in matching and in the loss."""

    class_: float = 1.0
    l1: float = 5.0
    giou: float = 2.0
    no_object: float = 0.1  # of the class "no object", which most queries have


class ObjectTargets(NamedTuple):
    """The objects of a batch of images, padded."""

    labels: Tensor  # (b n)
    boxes: Tensor  # (b n 4) middle and size
    counts: Tensor  # (b)


def box_cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    """(… 4) middle and size -> left, top, right, bottom."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([middle - half, middle + half], dim=-1)


def box_iou_and_giou(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Corners (… 4) and (… 4) -> intersection over union, and the generalised one: Rezatofighi et al. 2019."""
    inner = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(dim=-1)
    outer = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).clamp(min=0).prod(dim=-1)
    union = _area(a) + _area(b) - inner
    share = inner / union.clamp(min=EPS)
    return share, share - (outer - union) / outer.clamp(min=EPS)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


class Matches(NamedTuple):
    """Which query of which image found which object; three numbers for each object."""

    batch_indices: Tensor
    query_indices: Tensor
    object_indices: Tensor


@torch.no_grad()
def hungarian_match(logits: Tensor, boxes: Tensor, targets: ObjectTargets, weights: LossWeights) -> Matches:
    """What the queries of images found, (b q v) and (b q 4) -> the pairs of least cost in each image, by the Hungarian
    algorithm of SciPy."""
    assign = require("scipy.optimize", extra="vision").linear_sum_assignment
    labels = targets.labels[:, None].expand(-1, boxes.shape[1], -1)  # (b q n)
    odds = logits.float().log_softmax(dim=-1).exp().gather(2, labels)
    distance = torch.cdist(boxes.float(), targets.boxes.float(), p=1)
    _, overlap = box_iou_and_giou(
        box_cxcywh_to_xyxy(boxes.float())[:, :, None], box_cxcywh_to_xyxy(targets.boxes.float())[:, None]
    )
    cost = (weights.l1 * distance - weights.class_ * odds - weights.giou * overlap).cpu().numpy()
    each = [assign(cost[row, :, :count]) for row, count in enumerate(targets.counts.tolist())]
    rows = torch.repeat_interleave(torch.tensor([len(queries) for queries, _ in each]))
    queries, objects = (torch.as_tensor(np.concatenate([pair[side] for pair in each])) for side in (0, 1))
    return Matches(*(x.to(logits.device) for x in (rows, queries, objects)))


def set_loss(logits: Tensor, boxes: Tensor, targets: ObjectTargets, weights: LossWeights) -> dict[str, Tensor]:
    """What the queries found, (b q v) and (b q 4) -> the parts of the loss, summed over images. In each, the part of
    classes is a weighted mean over queries, those of boxes are means over objects."""
    nothing = logits.shape[-1] - 1
    rows, queries, objects = hungarian_match(logits, boxes, targets, weights)
    wanted = torch.full_like(logits[..., 0], nothing, dtype=torch.long)
    wanted[rows, queries] = targets.labels[rows, objects]
    counted = torch.where(wanted == nothing, weights.no_object, 1.0)  # (b q)
    each = cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), reduction="none").view_as(counted)
    ours, theirs = boxes[rows, queries], targets.boxes[rows, objects]
    _, overlap = box_iou_and_giou(box_cxcywh_to_xyxy(ours), box_cxcywh_to_xyxy(theirs))
    share = 1 / targets.counts[rows]  # of an object in what its image costs
    return {
        "class": weights.class_ * ((each * counted).sum(dim=1) / counted.sum(dim=1)).sum(),
        "distance": weights.l1 * ((ours - theirs).abs().sum(dim=-1) * share).sum(),
        "overlap": weights.giou * ((1 - overlap) * share).sum(),
    }
