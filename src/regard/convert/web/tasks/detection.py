"""Detection in the browser: one program from an image to the class and the box of every query."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.convert.web.image_facts import image_facts
from regard.convert.web.trace import Constants, trace
from regard.tasks.captioning.grounding import cell_box
from regard.tasks.detection.task import Options
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the program, the shape of images, the classes, the grid and the threshold of a run."""
    model: Any = parts.model
    task: Any = parts.task
    shape, plane = task.shape, model.plane

    def detect(images: Tensor) -> list[Tensor]:
        output = model(images)
        return [output.logits[-1, 0], output.boxes[-1, 0]]

    image = torch.zeros(1, shape.channels, shape.height, shape.width)
    return {
        "programs": {"detect": trace(model, detect, [image], constants)},
        "classes": list(task.classes),
        "cells": [
            {"text": f"{index // plane.width},{index % plane.width}", "box": cell_box(index, plane.height, plane.width)}
            for index in range(plane.height * plane.width)
        ],
        "options": {"properties": {"threshold": {"type": "number", "default": Options().threshold}}},
        **image_facts(parts.folder, shape),
    }
