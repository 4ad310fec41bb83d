"""Object detection task: predicts the class and the bounding box of every object in an image."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import DetectionSpec
from regard.tasks.detection.task import TINY, Config, Detection, Options, build, load

__all__ = ["TINY", "Config", "Detection", "Options", "build", "load"]

VERB = "detect"
SPEC = DetectionSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "detr"},
    "training": {
        "minutes": 30.0,
        "optimizer": {"name": "adamw", "lr": 1e-3, "weight_decay": 1e-4, "betas": [0.9, 0.99]},
        "schedule": {"warmup": 200},
    },
}
DEMO = ["data.scenes=2000", "training.steps=400", "training.evaluation.every=400"]
