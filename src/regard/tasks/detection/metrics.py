"""Average precision of detections: Everingham et al. 2010, section 4.2, interpolated at 101 recalls as in COCO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]  # left, top, right, bottom
IOU_THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))  # COCO averages over these
RECALL_POINTS = np.linspace(0, 1, 101)


class DetectedObject(NamedTuple):
    """A predicted object."""

    label: int
    score: float  # confidence
    box: Box


class GroundTruthObject(NamedTuple):
    """A true object."""

    label: int
    box: Box


def average_precision(
    detections: Sequence[Sequence[DetectedObject]],
    ground_truth: Sequence[Sequence[GroundTruthObject]],
    *,
    threshold: float,
) -> float:
    """Return the mean over classes of the area under the precision-recall curve.

    Detections are visited in order of confidence. One is correct if its IoU with an object of its class, not matched
    by an earlier detection, is at least `threshold`.
    """
    labels = sorted({true.label for objects in ground_truth for true in objects})
    precisions = [_class_precision(detections, ground_truth, label=label, threshold=threshold) for label in labels]
    return float(np.mean(precisions)) if precisions else 0.0


def _class_precision(
    detections: Sequence[Sequence[DetectedObject]],
    ground_truth: Sequence[Sequence[GroundTruthObject]],
    *,
    label: int,
    threshold: float,
) -> float:
    true_boxes = [[true.box for true in objects if true.label == label] for objects in ground_truth]
    candidates = [
        (detected.score, image, detected.box)
        for image, objects in enumerate(detections)
        for detected in objects
        if detected.label == label
    ]
    candidates.sort(key=lambda candidate: -candidate[0])  # stable: equal scores keep their order
    matched = [set[int]() for _ in true_boxes]
    is_correct = np.zeros(len(candidates), dtype=bool)
    for rank, (_, image, box) in enumerate(candidates):
        overlaps = [
            -1.0 if index in matched[image] else box_iou(box, true_box)
            for index, true_box in enumerate(true_boxes[image])
        ]
        best = int(np.argmax(overlaps)) if overlaps else -1
        if best >= 0 and overlaps[best] >= threshold:
            is_correct[rank] = True
            matched[image].add(best)
    return _area(is_correct, sum(map(len, true_boxes)))


def _area(is_correct: NDArray[np.bool_], num_objects: int) -> float:
    """Correctness of the detections, most confident first -> the mean interpolated precision over recall."""
    hits = np.cumsum(is_correct)
    recall, precision = hits / num_objects, hits / np.arange(1, len(is_correct) + 1)
    interpolated = np.maximum.accumulate(precision[::-1])[::-1]  # the best precision at this recall or more
    indices = np.searchsorted(recall, RECALL_POINTS)
    return float(np.mean([interpolated[index] if index < len(interpolated) else 0.0 for index in indices]))


def box_iou(a: Box, b: Box) -> float:
    """Return the intersection over union of two boxes."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    intersection = max(0.0, width) * max(0.0, height)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - intersection
    return intersection / union if union > 0 else 0.0
