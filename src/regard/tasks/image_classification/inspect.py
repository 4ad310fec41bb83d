"""Inspection of an image classifier: patches, attention rollout, and the prediction without the strongest patches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.record import AttentionMap, record
from regard.attention.rollout import rollout
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.tasks._shared.image_inputs import InputImage

MAX_CLASSES = 5  # classes shown
GREY = 0.0  # fill value of an occluded patch: the middle of -1 … 1


def build_inspectable(model: Any, image: Tensor, input_image: InputImage, *, classes: Sequence[str]) -> Inspectable:
    """An image (1 c h w) -> axes of its patches, the most likely classes, and ways to replay the model."""
    start_time = time.perf_counter()
    log_probs = model(image).float().log_softmax(dim=1)[0]
    seconds = time.perf_counter() - start_time
    best = log_probs.topk(min(MAX_CLASSES, len(classes)))
    num_class_tokens, patches = len(getattr(model, "first", ())), image_patches(model, *image.shape[2:])
    class_tokens = tuple(Item("class", special=True) for _ in range(num_class_tokens))
    ranked = tuple(
        (classes[index], score) for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    )
    outputs = tuple(
        Output(name, score=score, rank=score, tokens=(Token(name, score, ranked),)) for name, score in ranked
    )
    axes, query_axes = {"answer": Axis((Item(ranked[0][0]),), "answer")}, {"image": (AxisRef("answer"),)}
    if patches:
        axes["patches"], query_axes["patches"] = Axis((*class_tokens, *patches), "patches"), (AxisRef("patches"),)
    return Inspectable(
        title=input_image.name,
        axes=axes,
        query_axes={**query_axes},
        key_axes={"patches": (AxisRef("patches"),)} if patches else {},
        outputs=outputs,
        replay=lambda: model(image),
        predicted_ids=best.indices[:1],
        seconds=seconds,
        answer_axis="answer",
        ablations={"patches": lambda: _ablate_patches(model, image, patches, num_class_tokens=num_class_tokens)}
        if patches
        else {},
        views=("overlay",) if patches else (),
        remarks=input_image.remarks,
        extra={
            "overlay": _overlay_data(
                model, image, input_image, patches, num_class_tokens=num_class_tokens, classes=classes
            )
        },
    )


def image_patches(model: Any, height: int, width: int) -> list[Item]:
    """Return the patches of a model's images, row by row; an empty list if the model has none."""
    if not hasattr(model, "tokens"):
        return []
    rows, columns = model.tokens.grid_size(height, width)
    patch_height, patch_width = (
        getattr(model.tokens, "side", 0) or side / count for side, count in ((height, rows), (width, columns))
    )
    tops = [min(1.0, row * patch_height / height) for row in range(rows + 1)]
    lefts = [min(1.0, column * patch_width / width) for column in range(columns + 1)]
    return [
        Item(f"{row},{column}", box=(lefts[column], tops[row], lefts[column + 1], tops[row + 1]))
        for row in range(rows)
        for column in range(columns)
    ]


def _ablate_patches(model: Any, image: Tensor, patches: Sequence[Item], *, num_class_tokens: int) -> Tensor:
    """Return logits (m 1 v) with each patch in turn occluded; class tokens cannot be occluded."""
    images = [image[0]] * num_class_tokens + [occlude_patches(image, [patch])[0] for patch in patches]
    logits: Tensor = model(torch.stack(images))
    return logits[:, None]


def occlude_patches(image: Tensor, patches: Sequence[Item]) -> Tensor:
    """Replace patches of an image (1 c h w) by grey."""
    occluded, (height, width) = image.clone(), image.shape[2:]
    for patch in patches:
        assert patch.box is not None
        left, top, right, bottom = patch.box
        rows = slice(round(top * height), round(bottom * height))
        columns = slice(round(left * width), round(right * width))
        occluded[:, :, rows, columns] = GREY
    return occluded


def patch_relevance(maps: dict[str, AttentionMap], *, num_class_tokens: int) -> Tensor:
    """Recorded attention maps -> the relevance (n) of each patch for the prediction, by attention rollout."""
    layers = [attention.weights for attention in maps.values() if attention.queries == attention.keys == "patches"]
    relevance = rollout(layers)[0]  # (t t)
    pooling = [attention.weights for attention in maps.values() if attention.queries == "image"]
    if pooling:
        final = pooling[0][0, 0, 0] @ relevance
    else:
        final = relevance[0] if num_class_tokens else relevance.mean(dim=0)
    return final[num_class_tokens:]


def _overlay_data(
    model: Any,
    image: Tensor,
    input_image: InputImage,
    patches: Sequence[Item],
    *,
    num_class_tokens: int,
    classes: Sequence[str],
) -> dict[str, Any]:
    """Return the data of the page: the image, rollout, and the predictions without the strongest patches."""
    height, width, channels = input_image.pixels.shape
    data: dict[str, Any] = {
        "height": height,
        "width": width,
        "pixels": input_image.pixels.reshape(-1, channels).tolist(),
        "before": num_class_tokens,
    }
    if not patches:  # a model without patches has no attention between them
        return data
    with record(model) as maps:
        model(image)
    relevance = patch_relevance(maps, num_class_tokens=num_class_tokens)
    order = relevance.argsort(descending=True).tolist()
    counts = [count for count in (0, 1, 2, 4, 8, 16, 32) if count < len(order)]
    occluded = torch.cat([occlude_patches(image, [patches[index] for index in order[:count]]) for count in counts])
    best = model(occluded).float().log_softmax(dim=1).exp().max(dim=1)
    data["rollout"] = [round(value, 6) for value in relevance.tolist()]
    data["removed"] = [
        {"patches": order[:count], "answer": classes[index], "share": round(probability, 4)}
        for count, probability, index in zip(counts, best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    return data
