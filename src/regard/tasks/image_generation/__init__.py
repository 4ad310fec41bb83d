"""Image generation task: generates, completes or upscales images pixel by pixel."""

from __future__ import annotations

from typing import Any

from regard.core.data_specs import ImageGenerationSpec
from regard.tasks.image_generation.task import TINY, Config, ImageGeneration, Options, build, load

__all__ = ["TINY", "Config", "ImageGeneration", "Options", "build", "load"]

VERB = "generate"
VERBS = ("generate", "complete", "upscale")
SPEC = ImageGenerationSpec
SERVER_LIMITS = {"n": 64, "scale": 16}
DEFAULTS: dict[str, Any] = {
    "model": {"name": "image_transformer"},
    "training": {"minutes": 10.0, "optimizer": {"lr": 1e-3}, "schedule": {"warmup": 100}},
}
DEMO = [
    *("model.layers=2", "model.dim=64", "model.query_block=[2, 4]", "model.memory_block=[3, 4]", "data.batch_size=64"),
    *("training.steps=400", "training.optimizer.lr=0.003", "training.schedule.warmup=50"),
    "training.evaluation.every=400",
]
