"""Objects that were found, as answers and as they are shown: each box with what its query looked at."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.core.task import Prediction
from regard.data.images import drawing
from regard.data.images.image_files import Pixels, encode_png
from regard.tasks._shared.image_inputs import InputImage, format_remarks, title_with_remarks
from regard.tasks.detection.matching import box_cxcywh_to_xyxy
from regard.tasks.detection.metrics import DetectedObject

COLOURS = ((255, 64, 64), (64, 220, 64), (80, 140, 255), (255, 210, 40), (220, 90, 255), (60, 220, 220))


def decode_detections(logits: Tensor, boxes: Tensor) -> list[list[DetectedObject]]:
    """What the queries of each image say, (b q v+1) and (b q 4) -> the likeliest class of each, surest first."""
    shares = logits.float().log_softmax(dim=-1).exp()[..., :-1].max(dim=-1)
    edges = box_cxcywh_to_xyxy(boxes.float()).clamp(0, 1)
    found = []
    for scores, labels, places in zip(shares.values.tolist(), shares.indices.tolist(), edges.tolist(), strict=True):
        each = [DetectedObject(*one[:2], tuple(one[2])) for one in zip(labels, scores, places, strict=True)]
        found.append(sorted(each, key=lambda one: -one.score))
    return found


def to_prediction(
    input_image: InputImage, detections: Sequence[DetectedObject], *, classes: Sequence[str], threshold: float
) -> Prediction:
    """What was found in an image -> one answer: a line, and the image with its boxes."""
    sure = tuple(one for one in detections if one.score >= threshold)
    height, width = input_image.pixels.shape[:2]
    texts = [f"{classes[one.label]} {one.score:.2f} at {_place(one, height, width)}" for one in sure]
    return Prediction(
        "; ".join(texts) or "nothing",
        score=sum(math.log(max(one.score, 1e-9)) for one in sure),
        value=sure,
        remarks=format_remarks(input_image),
        data={"objects": [{"class": classes[one.label], "score": one.score, "box": list(one.box)} for one in sure]},
        files={".png": partial(_framed, input_image.pixels, sure)},
    )


def _place(one: DetectedObject, height: int, width: int) -> str:
    left, top, right, bottom = (round(edge * side) for edge, side in zip(one.box, (width, height) * 2, strict=True))
    return f"{left},{top}-{right},{bottom}"


def _framed(pixels: Pixels, found: Sequence[DetectedObject]) -> bytes:
    """A PNG file: the image enlarged, a frame around every object in the colour of its class."""
    scale = drawing.display_scale(*pixels.shape[:2])
    paper = np.repeat(pixels.repeat(scale, axis=0).repeat(scale, axis=1), 3 // pixels.shape[2], axis=2)
    for one in found:
        paper = drawing.draw_box(paper, one.box, COLOURS[one.label % len(COLOURS)])
    return encode_png(paper)


def build_inspectable(
    model: Any, image: Tensor, input_image: InputImage, *, classes: Sequence[str], threshold: float
) -> Inspectable:
    """An image (1 c h w) -> its queries and cells as axes, and the model run again."""
    begun = time.perf_counter()
    seen = model(image)
    seconds = time.perf_counter() - begun
    shares = seen.logits[-1, 0].float().log_softmax(dim=-1)  # (q v+1)
    boxes = box_cxcywh_to_xyxy(seen.boxes[-1, 0].float()).clamp(0, 1).tolist()
    names = [*classes, "nothing"]
    chosen = shares.argmax(dim=1)
    queries = tuple(
        Item(names[number], box=tuple(box), special=number == len(classes))
        for number, box in zip(chosen.tolist(), boxes, strict=True)
    )
    height, width = model.plane.height, model.plane.width
    cells = tuple(_cell(place, height, width) for place in range(height * width))
    best = to_prediction(
        input_image, decode_detections(seen.logits[-1], seen.boxes[-1])[0], classes=classes, threshold=threshold
    )
    rows: dict[str, tuple[AxisRef, ...]] = {name: (AxisRef(name),) for name in ("objects", "grid")}
    return Inspectable(
        title=title_with_remarks(input_image.name, input_image),
        axes={"objects": Axis(queries, "objects"), "grid": Axis(cells, "grid")},
        query_axes=rows,
        key_axes=rows,
        outputs=(Output(best.text, score=best.score),),
        replay=lambda: model(image).logits[-1, 0],
        predicted_ids=chosen,
        seconds=seconds,
        answer_axis="objects",
        views=("boxes",),
        extra={"boxes": _extra(input_image, shares, boxes, classes=classes, least=threshold)},
    )


def _cell(place: int, height: int, width: int) -> Item:
    row, column = divmod(place, width)
    return Item(f"{row},{column}", box=(column / width, row / height, (column + 1) / width, (row + 1) / height))


def _extra(
    given: InputImage, shares: Tensor, boxes: Sequence[Any], *, classes: Sequence[str], least: float
) -> dict[str, Any]:
    """Plain values for the view: the image, and of every query its class, how sure it is, and its box."""
    height, width, channels = given.pixels.shape
    best = shares[:, :-1].exp().max(dim=1)
    queries = [
        {"label": classes[number], "share": round(share, 4), "box": [round(edge, 4) for edge in box]}
        for share, number, box in zip(best.values.tolist(), best.indices.tolist(), boxes, strict=True)
    ]
    pixels = given.pixels.reshape(-1, channels).tolist()
    return {"height": height, "width": width, "pixels": pixels, "queries": queries, "least": least}
