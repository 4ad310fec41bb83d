"""Inspection of a detector: each object query with its box, class and attention."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output
from regard.tasks._shared.image_inputs import InputImage
from regard.tasks.detection.matching import box_cxcywh_to_xyxy
from regard.tasks.detection.postprocess import decode_detections, to_prediction


def build_inspectable(
    model: Any, image: Tensor, input_image: InputImage, *, classes: Sequence[str], threshold: float
) -> Inspectable:
    """An image (1 c h w) -> object queries and grid cells as axes, and a replay."""
    start_time = time.perf_counter()
    output = model(image)
    seconds = time.perf_counter() - start_time
    log_probs = output.logits[-1, 0].float().log_softmax(dim=-1)  # (q v+1)
    boxes = box_cxcywh_to_xyxy(output.boxes[-1, 0].float()).clamp(0, 1).tolist()
    names = [*classes, "nothing"]
    predicted_ids = log_probs.argmax(dim=1)
    queries = tuple(
        Item(names[label], box=tuple(box), special=label == len(classes))
        for label, box in zip(predicted_ids.tolist(), boxes, strict=True)
    )
    height, width = model.plane.height, model.plane.width
    cells = tuple(_cell(index, height, width) for index in range(height * width))
    (detections,) = decode_detections(output.logits[-1], output.boxes[-1])
    prediction = to_prediction(input_image, detections, classes=classes, threshold=threshold)
    axis_refs: dict[str, tuple[AxisRef, ...]] = {name: (AxisRef(name),) for name in ("objects", "grid")}
    return Inspectable(
        title=input_image.name,
        axes={"objects": Axis(queries, "objects"), "grid": Axis(cells, "grid")},
        query_axes=axis_refs,
        key_axes=axis_refs,
        outputs=(Output(prediction.text, score=prediction.score),),
        replay=lambda: model(image).logits[-1, 0],
        predicted_ids=predicted_ids,
        seconds=seconds,
        answer_axis="objects",
        views=("boxes",),
        remarks=input_image.remarks,
        extra={"boxes": _boxes_data(input_image, log_probs, boxes, classes=classes, threshold=threshold)},
    )


def _cell(index: int, height: int, width: int) -> Item:
    row, column = divmod(index, width)
    return Item(f"{row},{column}", box=(column / width, row / height, (column + 1) / width, (row + 1) / height))


def _boxes_data(
    input_image: InputImage, log_probs: Tensor, boxes: Sequence[Any], *, classes: Sequence[str], threshold: float
) -> dict[str, Any]:
    """Return the data of the page: the image, and the class, probability and box of every query."""
    height, width, channels = input_image.pixels.shape
    best = log_probs[:, :-1].exp().max(dim=1)
    queries = [
        {"label": classes[label], "share": round(probability, 4), "box": [round(edge, 4) for edge in box]}
        for probability, label, box in zip(best.values.tolist(), best.indices.tolist(), boxes, strict=True)
    ]
    pixels = input_image.pixels.reshape(-1, channels).tolist()
    return {"height": height, "width": width, "pixels": pixels, "queries": queries, "least": threshold}
