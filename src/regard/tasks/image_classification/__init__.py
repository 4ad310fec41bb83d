"""Image classification task: predicts the class of an image."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import ImageClassificationSpec
from regard.tasks.image_classification.task import TINY, Config, ImageClassification, Options, build, load

__all__ = ["TINY", "Config", "ImageClassification", "Options", "build", "load"]

VERB = "classify"
SPEC = ImageClassificationSpec
DEFAULTS: dict[str, Any] = {
    "model": {"name": "vit"},
    "training": {
        "minutes": 5.0,
        "optimizer": {"name": "adamw", "lr": 1e-3, "weight_decay": 0.05, "betas": [0.9, 0.99]},
        "schedule": {"warmup": 100},
    },
}
DEMO = [
    *("model.layers=3", "model.dim=64", "model.patch=2", "data.crop=1", "data.shift=0.1"),
    *("training.epochs=40", "training.schedule.name=cosine", "training.optimizer.lr=0.002"),
    "training.evaluation.every=200",
]
