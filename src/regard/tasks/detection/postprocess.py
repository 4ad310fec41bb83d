"""Post-processing of detections: decoded objects, and predictions with boxes drawn into the image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import Tensor

from regard.core.task import Prediction
from regard.data.images import drawing
from regard.data.images.image_files import Pixels, encode_png
from regard.tasks._shared.image_inputs import InputImage, format_remarks
from regard.tasks.detection.matching import box_cxcywh_to_xyxy
from regard.tasks.detection.metrics import DetectedObject

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
    """Detections of an image -> one prediction: a line of text, and the image with boxes as a file."""
    objects = tuple(detected for detected in detections if detected.score >= threshold)
    height, width = input_image.pixels.shape[:2]
    texts = [
        f"{classes[detected.label]} {detected.score:.2f} at {_box_text(detected, height, width)}"
        for detected in objects
    ]
    table = [
        {"class": classes[detected.label], "probability": detected.score, "box": list(detected.box)}
        for detected in objects
    ]
    return Prediction(
        "; ".join(texts) or "nothing",
        score=sum(math.log(max(detected.score, 1e-9)) for detected in objects) if objects else None,
        value=objects,
        remarks=format_remarks(input_image),
        data={"objects": table},
        files={".png": partial(_draw_boxes, input_image.pixels, objects)},
    )


def _box_text(detected: DetectedObject, height: int, width: int) -> str:
    sides = (width, height) * 2
    left, top, right, bottom = (round(edge * side) for edge, side in zip(detected.box, sides, strict=True))
    return f"{left},{top}-{right},{bottom}"


def _draw_boxes(pixels: Pixels, detections: Sequence[DetectedObject]) -> bytes:
    """Return a PNG file: the enlarged image with a frame around every object in the colour of its class."""
    scale = drawing.display_scale(*pixels.shape[:2])
    canvas = np.repeat(pixels.repeat(scale, axis=0).repeat(scale, axis=1), 3 // pixels.shape[2], axis=2)
    for detected in detections:
        canvas = drawing.draw_box(canvas, detected.box, COLOURS[detected.label % len(COLOURS)])
    return encode_png(canvas)
