"""Post-processing of detections: decoded objects, and predictions with boxes drawn into the image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from torch import Tensor

from regard.core.task import Prediction
from regard.tasks._shared.image_inputs import InputImage, format_remarks
from regard.tasks.detection.matching import box_cxcywh_to_xyxy
from regard.tasks.detection.metrics import DetectedObject
from regard.tasks.detection.overlay import LabelledBox, render_boxes

COLOURS = ((255, 64, 64), (64, 220, 64), (80, 140, 255), (255, 210, 40), (220, 90, 255), (60, 220, 220))


def decode_detections(logits: Tensor, boxes: Tensor) -> list[list[DetectedObject]]:
    """Outputs of the queries (b q v+1) and (b q 4) -> the most likely class of each query, most confident first."""
    best = logits.float().log_softmax(dim=-1).exp()[..., :-1].max(dim=-1)
    corners = box_cxcywh_to_xyxy(boxes.float()).clamp(0, 1)
    detections = []
    for scores, labels, rows in zip(best.values.tolist(), best.indices.tolist(), corners.tolist(), strict=True):
        objects = [
            DetectedObject(label, score, tuple(box)) for label, score, box in zip(labels, scores, rows, strict=True)
        ]
        detections.append(sorted(objects, key=lambda detected: -detected.score))
    return detections


def to_prediction(
    input_image: InputImage, detections: Sequence[DetectedObject], *, classes: Sequence[str], threshold: float
) -> Prediction:
    """Detections of an image -> one prediction: a line of text, and the image with boxes as a file.

    Pixels are those of the image as the user gave it, not of the resized copy that the model reads.
    """
    objects = tuple(detected for detected in detections if detected.score >= threshold)
    image = input_image.full_size
    boxes = [pixel_box(detected.box, *image.shape[:2]) for detected in objects]
    texts = [
        f"{classes[detected.label]} {detected.score:.2f} at {left},{top}-{right},{bottom}"
        for detected, (left, top, right, bottom) in zip(objects, boxes, strict=True)
    ]
    table = [
        {
            "class": classes[detected.label],
            "probability": detected.score,
            "box": list(detected.box),
            "pixels": list(box),
        }
        for detected, box in zip(objects, boxes, strict=True)
    ]
    labels = [
        LabelledBox(box, f"{classes[detected.label]} {detected.score:.2f}", _colour(detected.label))
        for detected, box in zip(objects, boxes, strict=True)
    ]
    legend = [(classes[label], _colour(label)) for label in sorted({detected.label for detected in objects})]
    return Prediction(
        "; ".join(texts) or "nothing",
        score=sum(math.log(max(detected.score, 1e-9)) for detected in objects) if objects else None,
        value=objects,
        remarks=format_remarks(input_image),
        data={"objects": table},
        files={".png": partial(render_boxes, image, labels, legend)},
    )


def pixel_box(box: tuple[float, float, float, float], height: int, width: int) -> tuple[int, int, int, int]:
    """Edges of a box as shares of the image -> left, top, right, bottom in pixels."""
    left, top, right, bottom = box
    return round(left * width), round(top * height), round(right * width), round(bottom * height)


def _colour(label: int) -> tuple[int, int, int]:
    return COLOURS[label % len(COLOURS)]
