"""Average precision of found objects, by its definition: Everingham et al. 2010, section 4.2, read at 101 places of the
recall as COCO does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]  # left, top, right, bottom
IOU_THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))  # overlaps of which COCO takes the mean
RECALL_POINTS = np.linspace(0, 1, 101)


class DetectedObject(NamedTuple):
    """An object that was found in an image."""

    label: int
    score: float  # how sure
    box: Box


class GroundTruthObject(NamedTuple):
    """An object that is in an image."""

    label: int
    box: Box


def average_precision(
    detections: Sequence[Sequence[DetectedObject]],
    ground_truth: Sequence[Sequence[GroundTruthObject]],
    *,
    threshold: float,
) -> float:
    """What was found in each image and what is there -> the mean over classes of the area under precision by recall.

    Surest first, what was found is right if it overlaps by at least `threshold` with an object of its class that no
    surer one has taken.
    """
    labels = sorted({thing.label for things in ground_truth for thing in things})
    each = [_of_class(detections, ground_truth, label=label, threshold=threshold) for label in labels]
    return float(np.mean(each)) if each else 0.0


def _of_class(
    found: Sequence[Sequence[DetectedObject]],
    truth: Sequence[Sequence[GroundTruthObject]],
    *,
    label: int,
    threshold: float,
) -> float:
    there = [[thing.box for thing in things if thing.label == label] for things in truth]
    claims = [(one.score, image, one.box) for image, all_ in enumerate(found) for one in all_ if one.label == label]
    claims.sort(key=lambda claim: -claim[0])  # stable: of equals the one that came first
    taken = [set[int]() for _ in there]
    right = np.zeros(len(claims), dtype=bool)
    for number, (_, image, box) in enumerate(claims):
        shares = [-1.0 if place in taken[image] else box_iou(box, other) for place, other in enumerate(there[image])]
        best = int(np.argmax(shares)) if shares else -1
        if best >= 0 and shares[best] >= threshold:
            right[number] = True
            taken[image].add(best)
    return _area(right, sum(map(len, there)))


def _area(right: NDArray[np.bool_], total: int) -> float:
    """Which claims were right, surest first, and how many objects there are -> the mean of precision over recall."""
    hits = np.cumsum(right)
    recall, precision = hits / total, hits / np.arange(1, len(right) + 1)
    best_from = np.maximum.accumulate(precision[::-1])[::-1]  # the best precision at this recall or more
    places = np.searchsorted(recall, RECALL_POINTS - 1e-12)
    return float(np.mean([best_from[place] if place < len(best_from) else 0.0 for place in places]))


def box_iou(a: Box, b: Box) -> float:
    """Intersection over union."""
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    inner = max(0.0, wide) * max(0.0, high)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner
    return inner / union if union > 0 else 0.0
