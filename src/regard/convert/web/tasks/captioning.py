"""Captioning in the browser: image encoder, decoder step, and tokenizer."""

from __future__ import annotations

import json
from typing import Any

import torch

from regard.convert.web.decoder_programs import decoder_programs
from regard.convert.web.image_facts import image_facts
from regard.convert.web.trace import Constants
from regard.core.errors import ConfigError
from regard.tasks.captioning import grounding
from regard.tasks.captioning.image_features import RawPixels
from regard.tasks.captioning.task import TOKENIZER_FILE
from regard.training.load_run import LoadedRun


def describe(parts: LoadedRun, constants: Constants) -> dict[str, Any]:
    """Return the programs, the tokenizer, the shape of images, the grid and the boxes that are greyed out."""
    model: Any = parts.model
    task: Any = parts.task
    if not isinstance(task.image_encoder, RawPixels):
        raise ConfigError("web: captioning with a pretrained network is not supported; use a run that reads pixels")
    shape, grid = task.shape, grounding.grid_size(model)
    image = torch.zeros(1, shape.channels, shape.height, shape.width)
    return {
        "programs": decoder_programs(model, model.start, [image], constants),
        "tokenizers": [json.loads((parts.folder / TOKENIZER_FILE).read_text(encoding="utf-8"))],
        "maxLength": task.spec.max_length,
        "cells": [
            {"text": f"{index // grid[1]},{index % grid[1]}", "box": grounding.cell_box(index, *grid)}
            for index in range(grid[0] * grid[1])
        ],
        "boxes": grounding.occlusion_boxes(*grid),
        **image_facts(parts.folder, shape),
    }
