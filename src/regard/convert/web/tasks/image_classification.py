"""Image classification in the browser: one program from an image to logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.convert.web.image_facts import image_facts
from regard.convert.web.trace import Constants, trace
from regard.tasks.image_classification import inspect
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the program, the shape of images, the classes and the patches of a run."""
    model: Any = parts.model
    task: Any = parts.task
    shape = task.shape

    def logits(images: Tensor) -> list[Tensor]:
        return [model(images)]

    image = torch.zeros(1, shape.channels, shape.height, shape.width)
    return {
        "programs": {"logits": trace(model, logits, [image], constants)},
        "classes": list(task.classes),
        "patches": [{"text": patch.text, "box": patch.box} for patch in inspect.image_patches(model, *image.shape[2:])],
        "classTokens": len(getattr(model, "first", ())),
        **image_facts(parts.folder, shape),
    }
