"""An image and its class as they are shown: the patches, what became of them, and the answer without the strongest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.record import AttentionMap, record
from regard.attention.rollout import rollout
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.tasks._shared.image_inputs import InputImage, title_with_remarks

MAX_CLASSES = 5  # classes that are shown
GREY = 0.0  # what covers a patch: the middle of -1 … 1


def build_inspectable(model: Any, image: Tensor, input_image: InputImage, *, classes: Sequence[str]) -> Inspectable:
    """An image (1 c h w) -> axes of its patches, the likeliest classes, and ways to run the model again."""
    begun = time.perf_counter()
    scores = model(image).float().log_softmax(dim=1)[0]
    seconds = time.perf_counter() - begun
    best = scores.topk(min(MAX_CLASSES, len(classes)))
    before, patches = len(getattr(model, "first", ())), _patches(model, *image.shape[2:])
    own = tuple(Item("class", special=True) for _ in range(before))
    named = tuple((classes[number], score) for score, number in zip(*(x.tolist() for x in best), strict=True))
    outputs = tuple(Output(name, score=score, rank=score, tokens=(Token(name, score, named),)) for name, score in named)
    axes, rows = {"answer": Axis((Item(named[0][0]),), "answer")}, {"image": (AxisRef("answer"),)}
    if patches:
        axes["patches"], rows["patches"] = Axis((*own, *patches), "patches"), (AxisRef("patches"),)
    return Inspectable(
        title=title_with_remarks(input_image.name, input_image),
        axes=axes,
        query_axes={**rows},
        key_axes={"patches": (AxisRef("patches"),)} if patches else {},
        outputs=outputs,
        replay=lambda: model(image),
        predicted_ids=best.indices[:1],
        seconds=seconds,
        answer_axis="answer",
        ablations={"patches": lambda: _without_each(model, image, patches, before=before)} if patches else {},
        views=("overlay",) if patches else (),
        extra={"overlay": _extra(model, image, input_image, patches, before=before, classes=classes)},
    )


def _patches(model: Any, height: int, width: int) -> list[Item]:
    """The patches of a model's images, row by row; none where it has no such."""
    if not hasattr(model, "tokens"):
        return []
    rows, columns = model.tokens.grid(height, width)
    high, wide = (
        getattr(model.tokens, "side", 0) or side / count for side, count in ((height, rows), (width, columns))
    )
    edges = [min(1.0, row * high / height) for row in range(rows + 1)]
    sides = [min(1.0, column * wide / width) for column in range(columns + 1)]
    return [
        Item(f"{row},{column}", box=(sides[column], edges[row], sides[column + 1], edges[row + 1]))
        for row in range(rows)
        for column in range(columns)
    ]


def _without_each(model: Any, image: Tensor, patches: Sequence[Item], *, before: int) -> Tensor:
    """Logits (m 1 v), each patch in turn covered with grey; a class token cannot be covered."""
    covered = [image[0]] * before + [occlude_patches(image, [patch])[0] for patch in patches]
    logits: Tensor = model(torch.stack(covered))
    return logits[:, None]


def occlude_patches(image: Tensor, patches: Sequence[Item]) -> Tensor:
    """(1 c h w) -> the same with grey in place of some patches."""
    covered, (height, width) = image.clone(), image.shape[2:]
    for patch in patches:
        assert patch.box is not None
        left, top, right, bottom = patch.box
        rows, columns = (
            slice(round(top * height), round(bottom * height)),
            slice(round(left * width), round(right * width)),
        )
        covered[:, :, rows, columns] = GREY
    return covered


def patch_relevance(maps: dict[str, AttentionMap], *, num_class_tokens: int) -> Tensor:
    """Recorded maps -> how much of each patch reaches the answer (n), by rollout."""
    layers = [found.weights for found in maps.values() if found.queries == found.keys == "patches"]
    reached = rollout(layers)[0]  # (t t)
    pooling = [found.weights for found in maps.values() if found.queries == "image"]
    if pooling:
        final = pooling[0][0, 0, 0] @ reached
    else:
        final = reached[0] if num_class_tokens else reached.mean(dim=0)
    return final[num_class_tokens:]


def _extra(
    model: Any, image: Tensor, given: InputImage, patches: Sequence[Item], *, before: int, classes: Sequence[str]
) -> dict[str, Any]:
    """Plain values for the view: the image, rollout, and what is answered without the strongest patches."""
    height, width, channels = given.pixels.shape
    extra: dict[str, Any] = {"height": height, "width": width, "pixels": given.pixels.reshape(-1, channels).tolist()}
    extra["before"] = before
    if not patches:  # a model without patches has no attention between them
        return extra
    with record(model) as maps:
        model(image)
    strong = patch_relevance(maps, num_class_tokens=before)
    order = strong.argsort(descending=True).tolist()
    counts = [count for count in (0, 1, 2, 4, 8, 16, 32) if count < len(order)]
    changed = torch.cat([occlude_patches(image, [patches[place] for place in order[:count]]) for count in counts])
    shares = model(changed).float().log_softmax(dim=1).exp()
    best = shares.max(dim=1)
    extra["rollout"] = [round(value, 6) for value in strong.tolist()]
    extra["removed"] = [
        {"patches": order[:count], "answer": classes[number], "share": round(share, 4)}
        for count, share, number in zip(counts, best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    return extra
