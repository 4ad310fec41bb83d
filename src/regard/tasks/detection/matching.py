"""Bounding boxes, bipartite matching of queries and objects, and the set loss: Carion et al. 2020, section 3.1.

Models output boxes as (center x, center y, width, height); all other code uses (left, top, right, bottom). Both are
relative to the size of the image.
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
    """Weights of the parts of the matching cost and of the loss."""

    class_: float = 1.0
    l1: float = 5.0
    giou: float = 2.0
    no_object: float = 0.1  # of queries without an object, which are the majority


class ObjectTargets(NamedTuple):
    """The objects of a batch of images, padded."""

    labels: Tensor  # (b n)
    boxes: Tensor  # (b n 4) center and size
    counts: Tensor  # (b)


def box_cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    """(… 4) center and size -> left, top, right, bottom."""
    center, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([center - half, center + half], dim=-1)


def box_iou_and_giou(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Corners (… 4) and (… 4) -> IoU and generalized IoU (Rezatofighi et al. 2019)."""
    intersection = (
        (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(dim=-1)
    )
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).clamp(min=0).prod(dim=-1)
    union = _area(a) + _area(b) - intersection
    iou = intersection / union.clamp(min=EPS)
    return iou, iou - (hull - union) / hull.clamp(min=EPS)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


class Matches(NamedTuple):
    """The matched query of each object, as indices into the batch."""

    batch_indices: Tensor
    query_indices: Tensor
    object_indices: Tensor


@torch.no_grad()
def hungarian_match(logits: Tensor, boxes: Tensor, targets: ObjectTargets, weights: LossWeights) -> Matches:
    """Outputs of the queries (b q v) and (b q 4) -> the pairs of minimum cost in each image, by the Hungarian algorithm
    of SciPy."""
    assign = require("scipy.optimize", extra="vision").linear_sum_assignment
    labels = targets.labels[:, None].expand(-1, boxes.shape[1], -1)  # (b q n)
    probabilities = logits.float().log_softmax(dim=-1).exp().gather(2, labels)
    distance = torch.cdist(boxes.float(), targets.boxes.float(), p=1)
    _, giou = box_iou_and_giou(
        box_cxcywh_to_xyxy(boxes.float())[:, :, None], box_cxcywh_to_xyxy(targets.boxes.float())[:, None]
    )
    cost = (weights.l1 * distance - weights.class_ * probabilities - weights.giou * giou).cpu().numpy()
    matches = [assign(cost[row, :, :count]) for row, count in enumerate(targets.counts.tolist())]
    rows = torch.repeat_interleave(torch.tensor([len(queries) for queries, _ in matches]))
    queries, objects = (torch.as_tensor(np.concatenate([pair[side] for pair in matches])) for side in (0, 1))
    return Matches(*(x.to(logits.device) for x in (rows, queries, objects)))


def set_loss(logits: Tensor, boxes: Tensor, targets: ObjectTargets, weights: LossWeights) -> dict[str, Tensor]:
    """Outputs of the queries (b q v) and (b q 4) -> the parts of the loss, summed over images.

    Per image, the class part is a weighted mean over queries, and the box parts are means over objects.
    """
    no_object = logits.shape[-1] - 1
    rows, queries, objects = hungarian_match(logits, boxes, targets, weights)
    labels = torch.full_like(logits[..., 0], no_object, dtype=torch.long)
    labels[rows, queries] = targets.labels[rows, objects]
    query_weights = torch.where(labels == no_object, weights.no_object, 1.0)  # (b q)
    losses = cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none").view_as(query_weights)
    predicted, true = boxes[rows, queries], targets.boxes[rows, objects]
    _, giou = box_iou_and_giou(box_cxcywh_to_xyxy(predicted), box_cxcywh_to_xyxy(true))
    object_weights = 1 / targets.counts[rows]  # each image counts the same
    return {
        "class": weights.class_ * ((losses * query_weights).sum(dim=1) / query_weights.sum(dim=1)).sum(),
        "distance": weights.l1 * ((predicted - true).abs().sum(dim=-1) * object_weights).sum(),
        "overlap": weights.giou * ((1 - giou) * object_weights).sum(),
    }
