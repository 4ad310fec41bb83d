"""Image generation in the browser: one program from all levels of an image to the logits of every position."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.image_layout import visible_positions
from regard.convert.web.image_facts import image_facts
from regard.convert.web.request_options import option_schema
from regard.convert.web.trace import Constants, trace
from regard.core.errors import ConfigError
from regard.core.protocols.image_generator import ImageCondition
from regard.data.images.resize import to_brightness
from regard.tasks.image_generation.inspect import position_items
from regard.training.load_run import LoadedRun

MAX_POSITIONS = 256  # of an image: the page runs the program once per generated position
OPTIONS = {
    "class": ("string", "", "class of the image; none: any"),
    "temperature": ("number", 1, "above 1: more diverse, 0: the most likely level"),
    "top_k": ("integer", 0, "sample from the k most likely levels; 0: from all"),
    "top_p": ("number", 1, "sample from the most likely levels that have this share of the probability"),
    "seed": ("integer", 1, "seed of the samples"),
}


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the program, the positions in the order of generation, and the shape and the classes of images."""
    model: Any = parts.model
    task: Any = parts.task
    sizes, order = task.spec, model.order
    if min(sizes.low_res_size):
        raise ConfigError("web: image_generation that upscales images is not supported; use a run that generates them")
    if order.dim() > 1:
        raise ConfigError("web: positions of several channels are not supported; use model.position_unit=channel")
    if len(order) > MAX_POSITIONS:
        raise ConfigError(
            f"web: images of {len(order)} positions are not supported; a page has at most {MAX_POSITIONS}"
        )

    def logits(tokens: Tensor, label: Tensor) -> list[Tensor]:
        features, _ = model.features(tokens, model.start(ImageCondition(label, label.new_zeros(1, 0))))
        return [model.readout.logits(features[0], tokens.new_zeros(len(order), 0))]

    example = [torch.full((1, len(order)), 1), torch.zeros(1, dtype=torch.long)]
    names, levels = list(task.data_info.classes[: sizes.num_classes]), torch.arange(sizes.levels)
    properties = option_schema(OPTIONS)
    if names:
        properties["class"]["enum"] = ["", *names]
    else:
        del properties["class"]
    return {
        "programs": {"logits": trace(model, logits, example, constants)},
        "order": order.tolist(),
        "positions": [
            {"text": item.text.partition("=")[0], "box": item.box}
            for item in position_items(order, torch.zeros(len(order), dtype=torch.long), sizes)
        ],
        "levels": sizes.levels,
        "brightness": to_brightness(levels.numpy(), sizes.levels).tolist(),
        "classes": names,
        "blocks": _blocks(model),
        "generates": True,
        "options": {"properties": properties},
        **image_facts(parts.folder, task.shape),
    }


def _blocks(model: Any) -> dict[str, Any]:
    """Return the bounds of the blocks of local attention, and the positions that each attends to."""
    layout = model.layout
    if layout is None:
        return {"bounds": [], "memories": []}
    blocks = range(layout.num_blocks)
    return {
        "bounds": [list(layout.bounds(block)) for block in blocks],
        "memories": [visible_positions(layout, block).tolist() for block in blocks],
    }
